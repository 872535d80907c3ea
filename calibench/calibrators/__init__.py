"""Post-hoc calibrators: maps from logits to probabilities, fitted on held-out logits."""

from collections import Counter
from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family, initials

if TYPE_CHECKING:
    from calibench.calibrators.adaptive_temperature import (
        AdaptiveTemperatureScaling as AdaptiveTemperatureScaling,
    )
    from calibench.calibrators.affine import DirichletCalibration as DirichletCalibration
    from calibench.calibrators.affine import MatrixScaling as MatrixScaling
    from calibench.calibrators.affine import StructuredMatrixScaling as StructuredMatrixScaling
    from calibench.calibrators.affine import StructuredVectorScaling as StructuredVectorScaling
    from calibench.calibrators.affine import VectorScaling as VectorScaling
    from calibench.calibrators.base import Calibrator as Calibrator
    from calibench.calibrators.cross_validated import (
        CrossValidatedCalibration as CrossValidatedCalibration,
    )
    from calibench.calibrators.cross_validated import SklearnCalibrator as SklearnCalibrator
    from calibench.calibrators.ensemble import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from calibench.calibrators.estimator import LogitsClassifier
    from calibench.calibrators.example_temperature import (
        EntropyTemperatureScaling as EntropyTemperatureScaling,
    )
    from calibench.calibrators.example_temperature import (
        ParameterizedTemperatureScaling as ParameterizedTemperatureScaling,
    )
    from calibench.calibrators.isotonic import IRM as IRM
    from calibench.calibrators.isotonic import (
        CentredIsotonicCalibration as CentredIsotonicCalibration,
    )
    from calibench.calibrators.isotonic import IsotonicCalibration as IsotonicCalibration
    from calibench.calibrators.isotonic import IsotonicTopLabel as IsotonicTopLabel
    from calibench.calibrators.isotonic import VennAbers as VennAbers
    from calibench.calibrators.label_shift import (
        BiasCorrectedTemperatureScaling as BiasCorrectedTemperatureScaling,
    )
    from calibench.calibrators.label_shift import LabelShiftCorrection as LabelShiftCorrection
    from calibench.calibrators.one_vs_rest import BBQ as BBQ
    from calibench.calibrators.one_vs_rest import HistogramBinning as HistogramBinning
    from calibench.calibrators.sigmoid import BetaCalibration as BetaCalibration
    from calibench.calibrators.sigmoid import PlattScaling as PlattScaling
    from calibench.calibrators.sigmoid import QuadraticScaling as QuadraticScaling
    from calibench.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from calibench.calibrators.top_label import MeanReplacement as MeanReplacement
    from calibench.calibrators.top_label import SplineCalibration as SplineCalibration

__all__ = [
    "BBQ",
    "IRM",
    "AdaptiveTemperatureScaling",
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "Calibrator",
    "CentredIsotonicCalibration",
    "CrossValidatedCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "IsotonicTopLabel",
    "LabelShiftCorrection",
    "MatrixScaling",
    "MeanReplacement",
    "ParameterizedTemperatureScaling",
    "PlattScaling",
    "QuadraticScaling",
    "SklearnCalibrator",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbers",
]

# What each is, and where it is from: the first line of its docstring.
_LINES = dict(
    AdaptiveTemperatureScaling="Adaptive temperature scaling, one T per confidence bin (Zhan et al. 2026, section "
    "4.4).",
    BBQ="Bayesian binning into quantiles, class against rest (Naeini et al. 2015).",
    BetaCalibration="Beta calibration of each class against the rest (Kull et al. 2017).",
    BiasCorrectedTemperatureScaling="Bias-corrected temperature scaling (BCTS), softmax(z / T + b) (Alexandari et "
    "al. 2020).",
    CentredIsotonicCalibration="Centred isotonic regression of each class against the rest (Oron & Flournoy 2017).",
    CrossValidatedCalibration="Temperature scaling, or what cross-validation says is surely better (Stone 1974).",
    DirichletCalibration="Dirichlet calibration, softmax(W ln p + b) with ODIR or L2 (Kull et al. 2019).",
    EnsembleTemperatureScaling="Ensemble temperature scaling, w1 softmax(z / T) + w2 softmax(z) + w3 / K (Zhang et "
    "al. 2020).",
    EntropyTemperatureScaling="Entropy-based temperature scaling, T = softplus(w ln H + b) (Balanya et al. 2022).",
    HistogramBinning="Histogram binning of each class against the rest (Zadrozny & Elkan 2001).",
    IRM="Multi-class isotonic regression, one map for all N x K pairs (Zhang et al. 2020).",
    IsotonicCalibration="Isotonic regression of each class against the rest (Zadrozny & Elkan 2002).",
    IsotonicTopLabel="Isotonic regression of the top-label confidence (Zadrozny & Elkan 2002).",
    MatrixScaling="Matrix scaling, softmax(W z + b) (Guo et al. 2017, section 4.2; ODIR: Kull et al. 2019).",
    MeanReplacement="Every confidence becomes the validation accuracy, whatever the input (Chidambaram & Ge 2024).",
    ParameterizedTemperatureScaling="Parameterized temperature scaling, T from a small network (Tomani et al. "
    "2022).",
    PlattScaling="Platt scaling of each class's log-odds against the rest (Platt 1999).",
    QuadraticScaling="Quadratic scaling, sigmoid(a l^2 + b l + c) of the log-odds l (Berta et al. 2026).",
    SplineCalibration="Spline calibration of the top-label confidence (Gupta et al. 2021).",
    StructuredMatrixScaling="Structured matrix scaling (SMS), softmax((I + diag v + M) x + b) (Berta et al. 2026).",
    StructuredVectorScaling="Structured vector scaling (SVS), softmax((1 + v) x + b) (Berta et al. 2026).",
    TemperatureScaling="Temperature scaling, softmax(z / T) (Guo et al. 2017, eq. 9).",
    VectorScaling="Vector scaling, softmax(w * z + b) with one w and b a class (Guo et al. 2017, section 4.2).",
    VennAbers="Inductive Venn-Abers prediction of each class against the rest (Vovk et al. 2015).",
)
# What tables print, `TS`; what two of them share stands for neither.
_NAMES = [*_LINES, "LabelShiftCorrection", "SklearnCalibrator"]
_INITIALS = Counter(map(initials, _NAMES))
_SHORT = {initials(n): n for n in _NAMES if _INITIALS[initials(n)] == 1}
CALIBRATORS = Family(
    "calibrators",
    "Calibrator",
    _LINES,
    values={short.casefold(): name for short, name in _SHORT.items() if name in _LINES},
    aliases={
        "temperaturescaler": "TemperatureScaling",
        "vectorscaler": "VectorScaling",
        "matrixscaler": "MatrixScaling",
        "dirichletscaler": "DirichletCalibration",
        "vennaberscalibrator": "VennAbers",
        "isotonicregressioncalibrator": "IsotonicCalibration",
        "tsmix": "TemperatureScaling",
        "svsmix": "StructuredVectorScaling",
        "smsmix": "StructuredMatrixScaling",
        "plattcalibrator": "PlattScaling",
        "sigmoid": "PlattScaling",
        "logistic": "PlattScaling",
        "logisticcalibration": "PlattScaling",
        "isotonic": "IsotonicCalibration",
        "isotonicregression": "IsotonicCalibration",
        "pava": "IsotonicCalibration",
        "temp": "TemperatureScaling",
        "temperature": "TemperatureScaling",
        "histogram": "HistogramBinning",
        "binning": "HistogramBinning",
        "loess": "SplineCalibration",
        "spline": "SplineCalibration",
        "dirichlet": "DirichletCalibration",
        "beta": "BetaCalibration",
    },
    remedies={
        **dict.fromkeys(
            ("lac", "aps", "raps", "conformal", "conformalprediction", "splitconformalclassifier"),
            "prediction sets are the metric `conformal` of `calibench evaluate`",
        ),
        "fit": "`calibench.calibrate(logits, labels)` fits one",
    },
)


def as_estimator(calibrator: "Calibrator") -> "LogitsClassifier":
    """A calibrator as a classifier of scikit-learn whose features are logits (N, K), for its tools and pipelines.

    Examples:
        >>> import numpy as np, calibench
        >>> from calibench.calibrators import HistogramBinning
        >>> from sklearn.model_selection import GridSearchCV
        >>> random = np.random.default_rng(0)
        >>> logits = 3 * random.normal(size=(300, 3))
        >>> labels = (logits + random.gumbel(size=logits.shape)).argmax(1)  # calibrated as they are
        >>> grid = {"calibrator__n_bins": [5, 15]}
        >>> search = GridSearchCV(calibench.as_estimator(HistogramBinning()), grid, scoring="neg_log_loss", cv=3)
        >>> search.fit(logits, labels).best_params_
        {'calibrator__n_bins': 5}
    """
    if isinstance(calibrator, str):
        raise TypeError(
            "`as_estimator` takes a calibrator, got a name: "
            f"`calibench.as_estimator(calibench.calibrators.{calibrator}())`"
        )
    from calibench.calibrators.estimator import LogitsClassifier  # scikit-learn takes a second

    return LogitsClassifier(calibrator)


_MODULES = {
    "AdaptiveTemperatureScaling": "calibench.calibrators.adaptive_temperature",
    "BBQ": "calibench.calibrators.one_vs_rest",
    "BetaCalibration": "calibench.calibrators.sigmoid",
    "BiasCorrectedTemperatureScaling": "calibench.calibrators.label_shift",
    "Calibrator": "calibench.calibrators.base",
    "CentredIsotonicCalibration": "calibench.calibrators.isotonic",
    "CrossValidatedCalibration": "calibench.calibrators.cross_validated",
    "DirichletCalibration": "calibench.calibrators.affine",
    "EnsembleTemperatureScaling": "calibench.calibrators.ensemble",
    "EntropyTemperatureScaling": "calibench.calibrators.example_temperature",
    "HistogramBinning": "calibench.calibrators.one_vs_rest",
    "IRM": "calibench.calibrators.isotonic",
    "IsotonicCalibration": "calibench.calibrators.isotonic",
    "IsotonicTopLabel": "calibench.calibrators.isotonic",
    "LabelShiftCorrection": "calibench.calibrators.label_shift",
    "MatrixScaling": "calibench.calibrators.affine",
    "MeanReplacement": "calibench.calibrators.top_label",
    "ParameterizedTemperatureScaling": "calibench.calibrators.example_temperature",
    "PlattScaling": "calibench.calibrators.sigmoid",
    "QuadraticScaling": "calibench.calibrators.sigmoid",
    "SklearnCalibrator": "calibench.calibrators.cross_validated",
    "SplineCalibration": "calibench.calibrators.top_label",
    "StructuredMatrixScaling": "calibench.calibrators.affine",
    "StructuredVectorScaling": "calibench.calibrators.affine",
    "TemperatureScaling": "calibench.calibrators.temperature",
    "VectorScaling": "calibench.calibrators.affine",
    "VennAbers": "calibench.calibrators.isotonic",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES, aliases=_SHORT, family=CALIBRATORS)

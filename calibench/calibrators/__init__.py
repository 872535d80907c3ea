"""Post-hoc calibrators: maps from logits to probabilities, fitted on held-out logits."""

from collections import Counter
from typing import TYPE_CHECKING

from calibench.ground.family import Family, initials
from calibench.ground.lazily import lazy, lines_on_classes

if TYPE_CHECKING:
    from calibench.calibrators.adaptive_temperature import (
        AdaptiveTemperatureScaling as AdaptiveTemperatureScaling,
    )
    from calibench.calibrators.adaptive_temperature import (
        EntropyTemperatureScaling as EntropyTemperatureScaling,
    )
    from calibench.calibrators.adaptive_temperature import (
        ParameterizedTemperatureScaling as ParameterizedTemperatureScaling,
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


_LINES = lines_on_classes(__name__)
# What tables print, `TS`; what two of them share stands for neither.
_NAMES = [*_LINES, "LabelShiftCorrection", "SklearnCalibrator"]
_INITIALS = Counter(map(initials, _NAMES))
_SHORT = {initials(n): n for n in _NAMES if _INITIALS[initials(n)] == 1}
CALIBRATORS = Family(
    "calibrators",
    "Calibrator",
    _LINES,
    values={short.casefold(): name for short, name in _SHORT.items() if name in _LINES},
)


def as_estimator(calibrator: "Calibrator") -> "LogitsClassifier":
    """A calibrator as a classifier of scikit-learn whose features are logits (N, K), for its tools and pipelines."""
    from calibench.calibrators.estimator import LogitsClassifier  # scikit-learn takes a second

    return LogitsClassifier(calibrator)


lazy(__name__, aliases=_SHORT)

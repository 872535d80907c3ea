"""Post-hoc calibrators: maps from logits to probabilities, fitted on held-out logits."""

from typing import TYPE_CHECKING

from calibench.calibrators.adaptive_temperature import AdaptiveTemperatureScaling
from calibench.calibrators.affine import MatrixScaling, VectorScaling
from calibench.calibrators.base import Calibrator
from calibench.calibrators.bbq import BBQ
from calibench.calibrators.cross_validated import CrossValidatedCalibration
from calibench.calibrators.dirichlet import DirichletCalibration
from calibench.calibrators.ensemble import EnsembleTemperatureScaling
from calibench.calibrators.experimental import (
    EntropyTemperatureScaling,
    ParameterizedTemperatureScaling,
)
from calibench.calibrators.histogram import HistogramBinning
from calibench.calibrators.isotonic import (
    IRM,
    CentredIsotonicCalibration,
    IsotonicCalibration,
    IsotonicTopLabel,
)
from calibench.calibrators.label_shift import BiasCorrectedTemperatureScaling, LabelShiftCorrection
from calibench.calibrators.mean_replacement import MeanReplacement
from calibench.calibrators.sigmoid import BetaCalibration, PlattScaling, QuadraticScaling
from calibench.calibrators.spline import SplineCalibration
from calibench.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from calibench.calibrators.temperature import TemperatureScaling
from calibench.calibrators.venn_abers import VennAbers
from calibench.calibrators.wrapped import SklearnCalibrator

if TYPE_CHECKING:
    from calibench.calibrators.estimator import LogitsClassifier

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


def as_estimator(calibrator: Calibrator) -> "LogitsClassifier":
    """A calibrator as a classifier of scikit-learn whose features are logits (N, K), for its tools and pipelines."""
    from calibench.calibrators.estimator import LogitsClassifier  # scikit-learn takes a second

    return LogitsClassifier(calibrator)

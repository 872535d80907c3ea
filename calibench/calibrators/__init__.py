"""Post-hoc calibrators: maps from logits to probabilities, fitted on held-out logits."""

from calibench.calibrators.adaptive_temperature import AdaptiveTemperatureScaling
from calibench.calibrators.affine import MatrixScaling, VectorScaling
from calibench.calibrators.base import Calibrator
from calibench.calibrators.bbq import BBQ
from calibench.calibrators.dirichlet import DirichletCalibration
from calibench.calibrators.ensemble import EnsembleTemperatureScaling
from calibench.calibrators.experimental import (
    EntropyTemperatureScaling,
    ParameterizedTemperatureScaling,
)
from calibench.calibrators.histogram import HistogramBinning
from calibench.calibrators.isotonic import IRM, IsotonicCalibration, IsotonicTopLabel
from calibench.calibrators.mean_replacement import MeanReplacement
from calibench.calibrators.sigmoid import BetaCalibration, PlattScaling
from calibench.calibrators.spline import SplineCalibration
from calibench.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from calibench.calibrators.temperature import TemperatureScaling

__all__ = [
    "BBQ",
    "IRM",
    "AdaptiveTemperatureScaling",
    "BetaCalibration",
    "Calibrator",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "IsotonicTopLabel",
    "MatrixScaling",
    "MeanReplacement",
    "ParameterizedTemperatureScaling",
    "PlattScaling",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
]

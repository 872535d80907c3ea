"""Metrics of calibrated classification: torchmetrics classes and functions of the same names."""

from calibench.metrics.adaptive import AdaptiveCalibrationError, adaptive_calibration_error
from calibench.metrics.base import CalibrationMetric
from calibench.metrics.calibration_error import CalibrationError, calibration_error
from calibench.metrics.classwise import ClasswiseCalibrationError, classwise_calibration_error
from calibench.metrics.collection import CalibrationMetrics, calibration_metrics
from calibench.metrics.error_rate import ErrorRate, error_rate
from calibench.metrics.ood import OutOfDistribution, out_of_distribution
from calibench.metrics.proper_scores import (
    BrierScore,
    NegativeLogLikelihood,
    brier_score,
    negative_log_likelihood,
)
from calibench.metrics.smooth import SmoothCalibrationError, smooth_calibration_error

__all__ = [
    "AdaptiveCalibrationError",
    "BrierScore",
    "CalibrationError",
    "CalibrationMetric",
    "CalibrationMetrics",
    "ClasswiseCalibrationError",
    "ErrorRate",
    "NegativeLogLikelihood",
    "OutOfDistribution",
    "SmoothCalibrationError",
    "adaptive_calibration_error",
    "brier_score",
    "calibration_error",
    "calibration_metrics",
    "classwise_calibration_error",
    "error_rate",
    "negative_log_likelihood",
    "out_of_distribution",
    "smooth_calibration_error",
]

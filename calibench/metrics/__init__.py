"""Metrics of calibrated classification: torchmetrics classes and functions of the same names."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.metrics.adaptive import AdaptiveCalibrationError, adaptive_calibration_error
    from calibench.metrics.adaptive_classwise import (
        AdaptiveClasswiseCalibrationError,
        ThresholdedAdaptiveCalibrationError,
        adaptive_classwise_calibration_error,
        thresholded_adaptive_calibration_error,
    )
    from calibench.metrics.base import CalibrationMetric
    from calibench.metrics.brier_decomposition import BrierDecomposition, brier_decomposition
    from calibench.metrics.calibration_error import CalibrationError, calibration_error
    from calibench.metrics.class_errors import (
        ConfusionMatrix,
        GroupError,
        PerClassError,
        confusion_matrix,
        group_error,
        per_class_error,
    )
    from calibench.metrics.classwise import ClasswiseCalibrationError, classwise_calibration_error
    from calibench.metrics.collection import CalibrationMetrics, calibration_metrics
    from calibench.metrics.corp import CorpDecomposition, corp_decomposition
    from calibench.metrics.debiased import DebiasedCalibrationError, debiased_calibration_error
    from calibench.metrics.error_rate import ErrorRate, error_rate
    from calibench.metrics.kernel import (
        SquaredKernelCalibrationError,
        squared_kernel_calibration_error,
    )
    from calibench.metrics.kolmogorov_smirnov import (
        KolmogorovSmirnovCalibrationError,
        kolmogorov_smirnov_calibration_error,
    )
    from calibench.metrics.kuiper import KuiperCalibrationError, kuiper_calibration_error
    from calibench.metrics.lipschitz import LipschitzCalibrationError, lipschitz_calibration_error
    from calibench.metrics.ood import OutOfDistribution, out_of_distribution
    from calibench.metrics.over_under import (
        OverconfidenceError,
        UnderconfidenceError,
        overconfidence_error,
        underconfidence_error,
    )
    from calibench.metrics.probabilities import log_softmax, probabilities, softmax
    from calibench.metrics.proper_scores import (
        BrierScore,
        NegativeLogLikelihood,
        brier_score,
        negative_log_likelihood,
    )
    from calibench.metrics.selective import RiskCoverage, risk_coverage
    from calibench.metrics.smooth import SmoothCalibrationError, smooth_calibration_error
    from calibench.metrics.spiegelhalter import SpiegelhalterZ, spiegelhalter_z
    from calibench.metrics.sweep import SweepCalibrationError, sweep_calibration_error

__all__ = [
    "AdaptiveCalibrationError",
    "AdaptiveClasswiseCalibrationError",
    "BrierDecomposition",
    "BrierScore",
    "CalibrationError",
    "CalibrationMetric",
    "CalibrationMetrics",
    "ClasswiseCalibrationError",
    "ConfusionMatrix",
    "CorpDecomposition",
    "DebiasedCalibrationError",
    "ErrorRate",
    "GroupError",
    "KolmogorovSmirnovCalibrationError",
    "KuiperCalibrationError",
    "LipschitzCalibrationError",
    "NegativeLogLikelihood",
    "OutOfDistribution",
    "OverconfidenceError",
    "PerClassError",
    "RiskCoverage",
    "SmoothCalibrationError",
    "SpiegelhalterZ",
    "SquaredKernelCalibrationError",
    "SweepCalibrationError",
    "ThresholdedAdaptiveCalibrationError",
    "UnderconfidenceError",
    "adaptive_calibration_error",
    "adaptive_classwise_calibration_error",
    "brier_decomposition",
    "brier_score",
    "calibration_error",
    "calibration_metrics",
    "classwise_calibration_error",
    "confusion_matrix",
    "corp_decomposition",
    "debiased_calibration_error",
    "error_rate",
    "group_error",
    "kolmogorov_smirnov_calibration_error",
    "kuiper_calibration_error",
    "lipschitz_calibration_error",
    "log_softmax",
    "negative_log_likelihood",
    "out_of_distribution",
    "overconfidence_error",
    "per_class_error",
    "probabilities",
    "risk_coverage",
    "smooth_calibration_error",
    "softmax",
    "spiegelhalter_z",
    "squared_kernel_calibration_error",
    "sweep_calibration_error",
    "thresholded_adaptive_calibration_error",
    "underconfidence_error",
]

lazy(__name__)

"""From saved logits to every number: metrics raw and after each calibrator, fitted on validation only."""

from calibench.evaluation.gaps import post_processing_gap, temperature_gap
from calibench.evaluation.pooling import pooled
from calibench.evaluation.posterior import (
    PosteriorConfidence,
    PosteriorScores,
    posterior_confidence,
    posterior_values,
)
from calibench.evaluation.report import Evaluation, Report, default_calibrators
from calibench.evaluation.scoring import (
    OOD_SCORES,
    RAW,
    Row,
    evaluate,
    evaluate_ood,
    fit_calibrator,
    log_probabilities,
    update_metrics,
)

__all__ = [
    "OOD_SCORES",
    "RAW",
    "Evaluation",
    "PosteriorConfidence",
    "PosteriorScores",
    "Report",
    "Row",
    "default_calibrators",
    "evaluate",
    "evaluate_ood",
    "fit_calibrator",
    "log_probabilities",
    "pooled",
    "post_processing_gap",
    "posterior_confidence",
    "posterior_values",
    "temperature_gap",
    "update_metrics",
]

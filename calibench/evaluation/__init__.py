"""Evaluation of saved logits: every metric, raw and after each calibrator, which is fitted on validation only."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.evaluation.ensemble import deep_ensemble
    from calibench.evaluation.evaluation import Evaluation, Report, default_calibrators
    from calibench.evaluation.fitting import fit_calibrator, log_probabilities
    from calibench.evaluation.posterior_scores import PosteriorScores
    from calibench.evaluation.scoring import (
        OOD_SCORES,
        evaluate,
        evaluate_ood,
        temperature_gap,
        update_metrics,
    )
    from calibench.metrics.post_processing_gap import post_processing_gap
    from calibench.metrics.posterior import (
        PosteriorConfidence,
        posterior_confidence,
        posterior_values,
    )
    from calibench.statistics.number import RAW, Key, Number

__all__ = [
    "OOD_SCORES",
    "RAW",
    "Evaluation",
    "Key",
    "Number",
    "PosteriorConfidence",
    "PosteriorScores",
    "Report",
    "deep_ensemble",
    "default_calibrators",
    "evaluate",
    "evaluate_ood",
    "fit_calibrator",
    "log_probabilities",
    "post_processing_gap",
    "posterior_confidence",
    "posterior_values",
    "temperature_gap",
    "update_metrics",
]

lazy(__name__)

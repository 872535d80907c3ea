"""Evaluation of saved logits: every metric, raw and after each calibrator, which is fitted on validation only."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.evaluation.calibrator_fits import fit_calibrator as fit_calibrator
    from calibench.evaluation.calibrator_fits import log_probabilities as log_probabilities
    from calibench.evaluation.ensemble import deep_ensemble as deep_ensemble
    from calibench.evaluation.evaluation import Evaluation as Evaluation
    from calibench.evaluation.evaluation import default_calibrators as default_calibrators
    from calibench.evaluation.scoring import OOD_SCORES as OOD_SCORES
    from calibench.evaluation.scoring import evaluate_ood as evaluate_ood
    from calibench.evaluation.scoring import score_set as score_set
    from calibench.evaluation.scoring import temperature_gap as temperature_gap
    from calibench.evaluation.scoring import update_metrics as update_metrics
    from calibench.tables.evaluation_report import Report as Report

__all__ = [
    "OOD_SCORES",
    "Evaluation",
    "Report",
    "deep_ensemble",
    "default_calibrators",
    "evaluate_ood",
    "fit_calibrator",
    "log_probabilities",
    "score_set",
    "temperature_gap",
    "update_metrics",
]


_MODULES = {
    "Evaluation": "calibench.evaluation.evaluation",
    "OOD_SCORES": "calibench.evaluation.scoring",
    "Report": "calibench.tables.evaluation_report",
    "deep_ensemble": "calibench.evaluation.ensemble",
    "default_calibrators": "calibench.evaluation.evaluation",
    "evaluate_ood": "calibench.evaluation.scoring",
    "fit_calibrator": "calibench.evaluation.calibrator_fits",
    "log_probabilities": "calibench.evaluation.calibrator_fits",
    "score_set": "calibench.evaluation.scoring",
    "temperature_gap": "calibench.evaluation.scoring",
    "update_metrics": "calibench.evaluation.scoring",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)

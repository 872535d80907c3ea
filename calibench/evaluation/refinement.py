"""Refinement: the proper score that is left once a network is recalibrated (Berta et al. 2025)."""

from __future__ import annotations

from torch import Tensor

from calibench.calibrators import TemperatureScaling
from calibench.evaluation.crossfit import recalibrated
from calibench.evaluation.scoring import log_probabilities, scores_of_examples


def refinement_of_examples(
    logits: Tensor, target: Tensor, *, folds: int = 5, in_sample: bool = False
) -> dict[str, Tensor]:
    """Refinement and calibration parts of the NLL and the Brier score of each example.

    The refinement is the score after recalibration by temperature scaling with a uniform mixture, each example by a
    temperature that was fitted on the other folds; the calibration part is the score less the refinement. It is
    negative where the recalibration does harm.

    Args:
        logits: Logits or log-probabilities, shape (N, K), N >= 2.
        target: Class indices, shape (N,).
        folds: Number of stratified folds.
        in_sample: Fit and score on the same examples, as `probmetrics` does with its splits `all`.

    Returns:
        `nll_refinement`, `nll_calibration`, `brier_refinement`, `brier_calibration`, (N,) float64 each.
    """
    raw = scores_of_examples(log_probabilities(logits.double()), target)
    again = recalibrated(logits, target, folds=folds, in_sample=in_sample)
    left = scores_of_examples(again, target)
    return {f"{name}_refinement": left[name] for name in left} | {
        f"{name}_calibration": raw[name] - left[name] for name in left
    }


def nll_after_temperature(logits: Tensor, target: Tensor) -> float:
    """Mean NLL after temperature scaling whose exact temperature is cross-fitted over five folds.

    What `evaluated_checkpoint: best_refinement` selects an epoch by (Berta et al. 2025: refinement early stopping).

    Args:
        logits: Logits, shape (N, K).
        target: Class indices, shape (N,).

    Returns:
        The NLL; NaN below two examples, or where a logit is not finite.
    """
    if len(target) < 2 or not bool(logits.isfinite().all()):
        return float("nan")
    log_probs = recalibrated(logits, target, calibrator=TemperatureScaling())
    return float(scores_of_examples(log_probs, target)["nll"].mean())

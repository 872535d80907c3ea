"""Metrics that take fits, on resampled sets: refinements and calibration parts, whose calibrators are fitted again."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from calibench.evaluation.class_biases import resample_refinement_by_class
from calibench.evaluation.cross_fitting import resample_refinement
from calibench.metrics.probability_batches import scores_of_examples
from calibench.statistics.resamples import Resamples, weighted_means
from calibench.tensors.arrays import Floats

Refit = Callable[[Tensor, Tensor, Resamples], dict[str, Floats]]


class RefittedMetric(NamedTuple):
    """A metric whose calibrator is fitted again: its score, whether it is its calibration part, and the refinement."""

    score: str
    is_calibration: bool
    refit: Refit


REFITTED = {
    "nll_refinement": RefittedMetric("nll", False, resample_refinement),
    "nll_calibration": RefittedMetric("nll", True, resample_refinement),
    "brier_refinement_crossfit": RefittedMetric("brier", False, resample_refinement),
    "brier_calibration_crossfit": RefittedMetric("brier", True, resample_refinement),
    "nll_refinement_by_class": RefittedMetric("nll", False, resample_refinement_by_class),
    "nll_calibration_by_class": RefittedMetric("nll", True, resample_refinement_by_class),
    "brier_refinement_by_class": RefittedMetric("brier", False, resample_refinement_by_class),
    "brier_calibration_by_class": RefittedMetric("brier", True, resample_refinement_by_class),
}

_CHUNK = 250  # resamples at a time


def resample_refitted_metrics(
    metrics: Iterable[str], log_probs: Tensor, target: Tensor, resamples: Resamples
) -> dict[str, Floats]:
    """Replicates (R,) of those metrics of a set that are refinements or calibration parts, of five folds."""
    refitted = {metric: REFITTED[metric] for metric in metrics if metric in REFITTED}
    refits = dict.fromkeys(entry.refit for entry in refitted.values())
    left = {refit: refit(log_probs, target, resamples) for refit in refits}
    scores = {
        name: values.numpy() for name, values in scores_of_examples(log_probs, target).items()
    }
    replicates = {}
    for metric, (score, is_calibration, refit) in refitted.items():
        replicates[metric] = left[refit][score]
        if is_calibration:
            column, chunks = scores[score][:, None], resamples.chunks(_CHUNK)
            raw = [weighted_means(counts, column)[:, 0] for counts in chunks]
            replicates[metric] = np.concatenate(raw) - left[refit][score]
    return replicates

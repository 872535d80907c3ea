"""The gain in NLL of a calibrator, with an interval that counts what its fits vary by."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.cross_validated import example_nll, predict_after_refit, stratified_folds
from calibench.calibrators.fit_warnings import silence_fits
from calibench.calibrators.temperature import PRIOR_DEVIATION
from calibench.evaluation.calibrator_fits import log_probabilities
from calibench.evaluation.cross_fitting import resample_refinement
from calibench.parallel.threads import in_threads
from calibench.statistics.resamples import Resamples
from calibench.statistics.seeds import LEVEL
from calibench.tensors.arrays import Floats

_RESAMPLES = 1000  # on which temperatures are fitted again, by matrix products
_CHUNK = 250  # resamples at a time
_REFITS = 12  # resamples on which another map is fitted again, fold by fold


class Gain(NamedTuple):
    """Mean NLL that something takes away, per example, with the ends of its 95 % interval.

    The ends are NaN where the gain is not finite: a calibrator without a floor gave an exact 0 to a true class.
    """

    value: float
    low: float
    high: float

    @classmethod
    def from_nll(cls, before: Tensor, after: Tensor) -> Self:
        """The gain from NLL (N,) to NLL (N,) of the same examples, by a map that was fitted on others."""
        gains = (before - after).numpy()
        mean = float(gains.mean())
        if not math.isfinite(mean):
            return cls(mean, math.nan, math.nan)
        return cls.from_replicates(mean, Resamples(len(gains)).counts @ gains / len(gains))

    @classmethod
    def from_replicates(cls, value: float, replicates: Floats) -> Self:
        """A gain with an interval of so many standard deviations of its replicates (R,) on resamples.

        1.96 of many; of few those of Student's t, as their standard deviation varies itself. On the side of their
        longer tail the end is moved out by their skewness g: by g (2 t^2 + 1) / 6 deviations (Hall 1992). A gain is
        skewed, as few examples have most of the NLL, and a symmetric interval misses the realised gain where a set
        happens to lack them.
        """
        from scipy.special import stdtrit  # scipy.stats takes a second to import

        deviation = float(np.std(replicates, ddof=1))
        quantile = float(stdtrit(len(replicates) - 1, 1 - LEVEL / 2))
        longer = skewness(replicates) * (2 * quantile**2 + 1) / 6 if deviation > 0 else 0.0
        low = value - (quantile + max(0.0, -longer)) * deviation
        return cls(value, low, value + (quantile + max(0.0, longer)) * deviation)

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


def skewness(values: Floats) -> float:
    """Third central moment of values (N,), not all equal, over the cube of their standard deviation."""
    central = values - values.mean()
    return float((central**3).mean() / (central**2).mean() ** 1.5)


def resample_gain(
    scores: Tensor, target: Tensor, calibrator: Calibrator, *, folds: int, jobs: int = 1
) -> Floats:
    """Cross-validated gain of a calibrator on resampled examples, (R,), fitted again in each fold of each.

    Folds stay with the examples, so that the copies of one are in one fold. A gain whose fits are fixed varies by the
    scored examples alone, and its interval holds the realised gain in too few sets.

    Args:
        scores: Finite logits or log-probabilities, (N, K) float64.
        target: Class indices, (N,).
        calibrator: The calibrator, which is left as it is.
        folds: Number of stratified folds.
        jobs: Resamples at a time.
    """
    log_probs = log_probabilities(scores)
    raw = example_nll(log_probs, target)
    if _is_default_temperature(calibrator):
        resamples = Resamples(len(target), _RESAMPLES)
        prior = PRIOR_DEVIATION**-2
        left = resample_refinement(log_probs, target, resamples, folds=folds, prior=prior)["nll"]
        raw_sums = [counts @ raw.numpy() for counts in resamples.chunks(_CHUNK)]
        return np.asarray(np.concatenate(raw_sums) / len(target) - left)
    counts = list(Resamples(len(target), _REFITS).counts)
    fold = stratified_folds(target, folds, scores)
    refit = partial(_refit_on_resample, scores, target, fold, raw, calibrator)
    with silence_fits():
        return np.array([*in_threads(refit, counts, jobs)])


def _is_default_temperature(calibrator: Calibrator) -> bool:
    """Whether a calibrator is temperature scaling by NLL in its default form, whose refits are matrix products."""
    return (
        type(calibrator) is TemperatureScaling
        and calibrator.objective == "nll"
        and calibrator.shrinkage
    )


def _refit_on_resample(
    scores: Tensor,
    target: Tensor,
    fold: Tensor,
    raw: Tensor,
    calibrator: Calibrator,
    counts: Sequence[int],
) -> float:
    """The cross-validated gain on a resample that has each example so often, (N,)."""
    model, times = copy.deepcopy(calibrator), torch.as_tensor(np.asarray(counts, np.int64))
    total = 0.0
    for number in range(int(fold.max()) + 1):
        drawn_rows = ((fold == number) & (times > 0)).nonzero().flatten()
        others = torch.repeat_interleave(torch.arange(len(fold)), times * (fold != number))
        if len(drawn_rows) and len(others):
            log_probs = predict_after_refit(
                model, scores[others], target[others], scores[drawn_rows]
            )
            gains = raw[drawn_rows] - example_nll(log_probs, target[drawn_rows])
            total += float(gains @ times[drawn_rows].double())
    return total / len(fold)

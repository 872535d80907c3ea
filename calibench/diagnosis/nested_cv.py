"""Choice of a calibrator by nested cross-validation, with the gain that it can be expected to bring."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.calibrators.cross_validated import (
    FEWEST_EXAMPLES_FOR_FOLDS,
    choose_surely_best,
    example_nll,
    find_fallback,
    predict_after_refit,
    stratified_folds,
)
from calibench.calibrators.fit_warnings import silence_fits
from calibench.calibrators.names import unique_names
from calibench.diagnosis.gain import Gain, resample_gain
from calibench.evaluation.calibrator_fits import log_probabilities
from calibench.messages.progress import with_progress
from calibench.parallel.threads import in_threads
from calibench.statistics.number import RAW

_VALUES = 500_000  # log-probabilities that are fitted on; of more examples some are drawn, at least so many:
_ROWS = 2000
# Log-probabilities up to which there are five folds, 15 fits of each; else three, and 6.
_SMALL = 40_000


class HeldOutPredictions(NamedTuple):
    """Predictions of a calibrator on examples that it was not fitted on.

    Log-probabilities (N, K) by a fit without the example's own fold, and NLL (N, folds): in column j by a fit without
    its own fold and fold j.
    """

    log_probs: Tensor
    nll: Tensor


@dataclass(frozen=True)
class Choice:
    """The calibrator that nested cross-validation chooses, and the NLL of each.

    Attributes:
        name: The calibrator that is chosen: temperature scaling, without it raw, unless another's NLL is surely
            lower.
        nll: Cross-validated NLL of each calibrator by name, the lowest one first; `raw` is among them.
        chosen: Its position among the calibrators, from 1; 0 if that is raw.
        gain: What the choice takes from the NLL of raw, where it is made anew without each fold; 0 if it is raw.
        agreeing: Of the folds, those without which the choice was the same.
        rows: The examples that were used, (n,).
        log_probs: What the choice says of them, by fits without an example's fold, (n, K).
        is_fallback: Whether the choice is what is taken unless another is surely better, or raw.
    """

    name: str
    nll: dict[str, float]
    chosen: int
    gain: Gain
    agreeing: int
    folds: int
    rows: Tensor
    log_probs: Tensor
    is_fallback: bool = False

    @property
    def helps(self) -> bool:
        """Whether a calibrator is to be taken."""
        return self.chosen > 0

    @property
    def is_unstable(self) -> bool:
        """Whether the choice, neither a temperature nor raw, was made again in one fold at most."""
        return self.agreeing <= 1 and not self.is_fallback


def choose_calibrator(
    scores: Tensor,
    target: Tensor,
    calibrators: Sequence[Calibrator],
    *,
    jobs: int = 1,
) -> Choice:
    """Choose a calibrator by its NLL on examples that it was not fitted on.

    The rule is that of `CrossValidatedCalibration`. Each pair of folds is left out of a fit once. So for each fold the
    choice is made on the other folds, by fits that have not seen what they are scored on, nor that fold, and the gain
    is that of these choices on their folds. Its interval is that of the choice's cross-validated gain on resampled
    examples, fitted again in each fold, see `Gain.from_replicates`.

    Args:
        scores: Finite logits or log-probabilities, (N, K) float64.
        target: Class indices, (N,).
        calibrators: What there is to choose from.
        jobs: Calibrators that are fitted at a time.

    Raises:
        ValueError: If there are fewer than 20 examples.
    """
    if len(target) < FEWEST_EXAMPLES_FOR_FOLDS:
        raise ValueError(
            f"to compare calibrators takes {FEWEST_EXAMPLES_FOR_FOLDS} examples, got {len(target)}."
        )
    n, limit = len(scores), max(_ROWS, _VALUES // scores.shape[1])
    rows = torch.arange(n)
    if n > limit:
        rows = torch.from_numpy(np.random.default_rng(0).permutation(n)[:limit])
    scores, target = scores[rows], target[rows]
    fold = stratified_folds(target, count_folds(scores), scores)
    log_probs = log_probabilities(scores)
    raw = HeldOutPredictions(
        log_probs, example_nll(log_probs, target).unsqueeze(1).expand(-1, int(fold.max()) + 1)
    )
    with silence_fits():
        fits = in_threads(partial(_predict_held_out, scores, target, fold), calibrators, jobs)
        predictions = [raw, *with_progress(fits, len(calibrators), "calibrators")]
    choice = _choose_from_held_out(calibrators, predictions, fold, rows)
    if not choice.helps:
        return replace(choice, gain=Gain(0.0, 0.0, 0.0))  # what is left as it is takes nothing
    if not math.isfinite(choice.gain.value):
        return choice
    replicates = resample_gain(
        scores, target, calibrators[choice.chosen - 1], folds=choice.folds, jobs=jobs
    )
    return replace(choice, gain=Gain.from_replicates(choice.gain.value, replicates))


def count_folds(scores: Tensor) -> int:
    """The number of folds that scores (N, K) are cut into: five of few, three of many."""
    return 5 if scores.numel() <= _SMALL else 3


def _predict_held_out(
    scores: Tensor, target: Tensor, fold: Tensor, calibrator: Calibrator
) -> HeldOutPredictions:
    folds = int(fold.max()) + 1
    predictions = HeldOutPredictions(torch.empty_like(scores), scores.new_empty(len(scores), folds))
    model = copy.deepcopy(calibrator)
    for first, second in combinations_with_replacement(range(folds), 2):
        out = (fold == first) | (fold == second)
        log_probs = predict_after_refit(model, scores[~out], target[~out], scores[out])
        predictions.nll[out.nonzero().squeeze(1), first + second - fold[out]] = example_nll(
            log_probs, target[out]
        )
        if first == second:
            predictions.log_probs[out] = log_probs
    return predictions


def _choose_from_held_out(
    calibrators: Sequence[Calibrator],
    predictions: Sequence[HeldOutPredictions],
    fold: Tensor,
    rows: Tensor,
) -> Choice:
    """The choice among raw, the first of the predictions, and the calibrators."""
    losses = torch.stack([each.nll for each in predictions])
    folds = losses.shape[2]
    is_own_fold = fold.unsqueeze(1) == torch.arange(folds)
    picked = torch.tensor(
        [choose_surely_best(losses[:, ~is_own_fold[:, j], j], calibrators) for j in range(folds)]
    )
    of_fold = losses[:, is_own_fold]
    nested = of_fold.gather(0, picked[fold].unsqueeze(0)).squeeze(0)
    order = of_fold.mean(1).argsort(stable=True).tolist()
    best, names = choose_surely_best(of_fold, calibrators), [RAW, *unique_names(calibrators)]
    return Choice(
        name=names[best],
        nll={names[row]: float(of_fold[row].mean()) for row in order},
        chosen=best,
        gain=Gain.from_nll(of_fold[0], nested),
        agreeing=int((picked == best).sum()),
        folds=folds,
        rows=rows,
        log_probs=predictions[best].log_probs,
        is_fallback=best in (0, find_fallback(calibrators)),
    )

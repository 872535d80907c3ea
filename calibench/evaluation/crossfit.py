"""Cross-fitting: recalibrate each fold of a set by a calibrator that was fitted on the other folds."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.folds import stratified_folds
from calibench.evaluation.scoring import log_probabilities
from calibench.ground.arguments import integer_from

# A calibrator may have given exact zeros, which no other one can be fitted on.
_LOWEST = torch.log(torch.tensor(torch.finfo(torch.float64).tiny, dtype=torch.float64))


def recalibrated(
    logits: Tensor,
    target: Tensor,
    *,
    folds: int = 5,
    in_sample: bool = False,
    calibrator: Calibrator | None = None,
) -> Tensor:
    """Log-probabilities of each example after a calibrator that has not seen it.

    Args:
        logits: Logits or log-probabilities, shape (N, K), N >= 2; -inf counts as the logarithm of the smallest number.
        target: Class indices, shape (N,).
        folds: Number of stratified folds; at most N.
        in_sample: Fit and apply on the whole set instead, as public code does: optimistic.
        calibrator: What is fitted; temperature scaling with a uniform mixture if None.

    Returns:
        Log-probabilities, (N, K) float64.

    Raises:
        ValueError: If there are fewer than two folds or examples.
    """
    integer_from("folds", folds, 2)
    if len(target) < 2:
        raise ValueError(f"cross-fitting needs two examples at least, got {len(target)}.")
    model = TemperatureScaling(mixture=True) if calibrator is None else calibrator
    scores = log_probabilities(logits.double()).clamp(min=_LOWEST.to(logits.device))
    found = torch.empty_like(scores)
    whole = slice(None)
    parts = [(whole, whole)] if in_sample else _parts(target, min(folds, len(target)))
    for others, own in parts:
        found[own] = model.fit(scores[others], target[others]).log_prob(scores[own])
    return found


def _parts(target: Tensor, folds: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Whether each example is fitted on, and whether it is scored, for each fold."""
    fold = stratified_folds(target, folds).to(target.device)
    return ((fold != which, fold == which) for which in range(folds))

"""Conformal prediction sets: coverage and size of sets that hold the true class with a given probability."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from calibench.ground.arguments import unit_interval

# Of RAPS, in the order of Angelopoulos and Bates 2021: ranks above the fifth pay 0.01 each.
_FREE_RANKS, _PENALTY = 5, 0.01


def _least_ambiguous(probs: Tensor) -> Tensor:
    return 1 - probs


def _adaptive(probs: Tensor) -> Tensor:
    ordered, order = probs.sort(dim=1, descending=True)
    return torch.zeros_like(probs).scatter_(1, order, ordered.cumsum(1))


def _regularised_adaptive(probs: Tensor) -> Tensor:
    ordered, order = probs.sort(dim=1, descending=True)
    rank = torch.arange(1, probs.shape[1] + 1, device=probs.device)
    penalty = _PENALTY * (rank - _FREE_RANKS).clamp(min=0)
    return torch.zeros_like(probs).scatter_(1, order, ordered.cumsum(1) + penalty)


# Scores of every class, (N, K) -> (N, K): a class is in the set if its score is low enough.
SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "lac": _least_ambiguous,
    "aps": _adaptive,
    "raps": _regularised_adaptive,
}


def threshold(scores: Tensor, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest score of n true classes; infinite if there are too few."""
    rank = math.ceil((len(scores) + 1) * (1 - alpha))
    return math.inf if rank > len(scores) else float(scores.sort().values[rank - 1])


def conformal_of_examples(
    val: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, alpha: float = 0.1
) -> dict[str, Tensor]:
    """Split-conformal prediction sets, with thresholds from a validation set (Angelopoulos and Bates 2021).

    LAC (Sadinle et al. 2019): classes of high enough probability. APS (Romano et al. 2020): the most probable classes
    up to a total, without randomisation. RAPS (Angelopoulos et al. 2021): APS with
    0.01 for each rank above the fifth.

    Args:
        val: Probabilities (M, K) and targets (M,) of the validation set.
        test: The same of the test set, (N, K) and (N,).
        alpha: The sets are to miss the true class with at most this probability.

    Returns:
        For each of `lac`, `aps`, `raps`: `_coverage`, whether a set has the true class, (N,); `_size`, the number of
        classes in it, (N,); `_worst_class_coverage`, the smallest coverage of the test examples of one class, a scalar.
    """
    unit_interval("alpha", alpha)
    found: dict[str, Tensor] = {}
    for name, score in SCORES.items():
        limit = threshold(_of_target(score(val[0]), val[1]), alpha)
        of_classes = score(test[0])
        covered = (_of_target(of_classes, test[1]) <= limit).double()
        of_each = [covered[test[1] == k].mean() for k in torch.unique(test[1])]
        found |= {
            f"{name}_coverage": covered,
            f"{name}_size": (of_classes <= limit).sum(1).double(),
            f"{name}_worst_class_coverage": torch.stack(of_each).min(),
        }
    return found


def _of_target(scores: Tensor, target: Tensor) -> Tensor:
    return scores.gather(1, target.unsqueeze(1)).squeeze(1)

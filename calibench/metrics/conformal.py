"""Split-conformal prediction sets: their thresholds, coverage and size."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from calibench.messages.checks import unit_interval
from calibench.metrics.probability_batches import true_class
from calibench.tensors.scores import running_sums


def _adaptive(probs: Tensor, penalty: float = 0.0) -> Tensor:
    """Up to which total each class is reached; ranks above the fifth pay a penalty each."""
    ordered, order = probs.sort(dim=1, descending=True)
    rank = torch.arange(1, probs.shape[1] + 1, device=probs.device)
    totals = running_sums(ordered) + penalty * (rank - 5).clamp(min=0)
    return torch.zeros_like(probs).scatter_(1, order, totals)


# Scores of every class, (N, K) -> (N, K): a class is in the set if its score is low enough.
_CONFORMAL_SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "lac": lambda probs: 1 - probs,
    "aps": _adaptive,
    "raps": partial(_adaptive, penalty=0.01),  # as Angelopoulos and Bates 2021 have it
}


def conformal_threshold(scores: Tensor, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest score of n true classes; infinite if there are too few."""
    rank = math.ceil((len(scores) + 1) * (1 - alpha))
    return math.inf if rank > len(scores) else float(scores.sort().values[rank - 1])


def conformal_of_examples(
    val: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, alpha: float = 0.1
) -> dict[str, Tensor]:
    """Split-conformal prediction sets, with thresholds from a validation set (Angelopoulos and Bates 2021).

    LAC (Sadinle et al. 2019): classes of high enough probability. APS (Romano et al. 2020): the most probable classes
    up to a total, without randomisation. RAPS (Angelopoulos et al. 2021): APS with 0.01 for each rank above the fifth.
    Both sets are probabilities (N, K) and targets (N,); a set misses the true class with probability `alpha` at most.

    Returns:
        For each of `lac`, `aps`, `raps`: `_coverage`, whether a set has the true class, (N,); `_size`, the number of
        classes in it, (N,); `_worst_class_coverage`, the smallest coverage of the test examples of one class, a scalar.
    """
    unit_interval("alpha", alpha)
    results: dict[str, Tensor] = {}
    for name, score in _CONFORMAL_SCORES.items():
        limit = conformal_threshold(true_class(score(val[0]), val[1]), alpha)
        class_scores = score(test[0])
        covered = (true_class(class_scores, test[1]) <= limit).double()
        class_coverages = [covered[test[1] == k].mean() for k in torch.unique(test[1])]
        results |= {
            f"{name}_coverage": covered,
            f"{name}_size": (class_scores <= limit).sum(1).double(),
            f"{name}_worst_class_coverage": torch.stack(class_coverages).min(),
        }
    return results

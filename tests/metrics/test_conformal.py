"""Conformal sets against loops over the classes, written from the papers."""

from __future__ import annotations

import math

import numpy as np
import torch

from calibench.metrics.conformal import conformal_of_examples


def raps_scores(probs: np.ndarray, *, penalty: float, free_ranks: int) -> np.ndarray:
    """E(x, y) = sum of the probabilities down to y's + penalty (rank of y - free_ranks)^+ (Angelopoulos 2021, eq. 4)."""
    scores = np.zeros_like(probs)
    for row, values in enumerate(probs):
        total = 0.0
        for rank, k in enumerate(np.argsort(-values, kind="stable"), start=1):
            total += values[k]
            scores[row, k] = total + penalty * max(0, rank - free_ranks)
    return scores


def test_raps_penalises_ranks_above_the_fifth() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(12, 0.3), size=300)
    target = np.array([rng.choice(12, p=p) for p in probs])
    val, test = slice(0, 200), slice(200, None)
    sizes = {}
    for free_ranks in (4, 5, 6):
        scores = raps_scores(probs, penalty=0.01, free_ranks=free_ranks)
        of_class = np.sort(scores[val][np.arange(200), target[val]])
        limit = of_class[math.ceil(201 * 0.9) - 1]
        sizes[free_ranks] = (scores[test] <= limit).sum(1)
    p, y = torch.from_numpy(probs), torch.from_numpy(target)
    computed = conformal_of_examples((p[val], y[val]), (p[test], y[test]))["raps_size"].numpy()
    np.testing.assert_array_equal(computed, sizes[5])
    assert (sizes[4] != sizes[5]).any()  # another rank is seen
    assert (sizes[6] != sizes[5]).any()

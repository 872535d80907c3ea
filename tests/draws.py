"""Labels that are drawn from the probabilities of their rows."""

from __future__ import annotations

import numpy as np


def draw_labels(random: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """A class (N,) of each row of probabilities (N, K): what `random.choice(K, p=row)` draws, for all rows at once."""
    cumulative = probs.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative <= random.random((len(probs), 1))).sum(axis=1)

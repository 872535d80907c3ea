"""Predictions and labels that are drawn from their probabilities."""

from __future__ import annotations

import numpy as np


def draw_labels(random: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """A class (N,) of each row of probabilities (N, K): what `random.choice(K, p=row)` draws, for all rows at once."""
    cumulative = probs.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative <= random.random((len(probs), 1))).sum(axis=1)


def draw_calibrated(
    random: np.random.Generator, n: int, k: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits (N, K), their probabilities, and labels (N,) that are drawn from these."""
    logits = 2 * random.normal(size=(n, k))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return logits, probs, draw_labels(random, probs)

"""Predictions whose labels are drawn from their probabilities, once sharpened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from calibench.runs import Predictions
from tests.draws import draw_labels


def means(of_examples: Callable[..., Mapping[str, Tensor]]) -> Callable[..., dict[str, float]]:
    """A function that gives the means of the values that another one gives of each example."""
    return lambda *given, **how: {n: float(v.mean()) for n, v in of_examples(*given, **how).items()}


def predictions(
    n: int = 300,
    k: int = 4,
    *,
    split: str = "test",
    kind: str = "",
    seed: int = 0,
    sharp: float = 2.0,
) -> Predictions:
    rng = np.random.default_rng([seed, len(split)])
    logits = 1.5 * rng.normal(size=(n, k)).round(1)  # rounded: some confidences are equal
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = draw_labels(rng, probs)
    kind = kind or split
    return Predictions(
        sharp * logits, np.full(n, -1) if kind == "ood" else target, {"split": split, "kind": kind}
    )


def saved(folder: Path, *, seed: int = 0) -> dict[str, str]:
    """Files of val, test, an OOD and a shifted set; their paths by name."""
    sets = {"val": "val", "test": "test", "far": "ood", "fog": "shift"}
    for name, kind in sets.items():
        # The same labels for every seed, so that two seeds make an ensemble.
        one, other = (
            predictions(split=name, kind=kind),
            predictions(split=name, kind=kind, seed=seed),
        )
        Predictions(one.logits + 0.3 * seed * other.logits, one.target, one.metadata).save(
            folder / f"{name}.npz"
        )
    return {name: str(folder / f"{name}.npz") for name in sets}

"""Predictions of models whose calibration is known."""

from __future__ import annotations

import numpy as np

from calibench.diagnosis.examples import LabelledExamples
from calibench.runs import Predictions


def predictions(n: int, *, sharpness: float = 1.0, k: int = 4, seed: int = 0) -> Predictions:
    """Labels are drawn from softmax(z), and the logits are `sharpness` times z."""
    random = np.random.default_rng(seed)
    logits = 2 * random.normal(size=(n, k))
    target = (logits + random.gumbel(size=logits.shape)).argmax(1)
    return Predictions(sharpness * logits, target)


def examples(n: int, *, sharpness: float = 1.0, k: int = 4, seed: int = 0) -> LabelledExamples:
    """The same as the doctor looks at them."""
    return LabelledExamples.from_predictions(
        predictions(n, sharpness=sharpness, k=k, seed=seed), 0.0
    )

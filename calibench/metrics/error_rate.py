"""Classification error."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.metrics.base import MeanMetric
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import PairMetric


def error_rate(preds: Tensor, target: Tensor) -> Tensor:
    """Share of examples whose most probable class is not the target."""
    _, correct = checked_top_label(preds, target)
    return 1 - correct.double().mean()


class ErrorRate(PairMetric, MeanMetric):
    """Classification error: the share of wrong predictions, 1 - accuracy (this package).

    The first class wins among equal probabilities.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples.
    """

    name = "error"
    title = "Error"

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Count the wrong ones."""
        self.add(correct.logical_not().sum(dtype=torch.float64), len(correct))

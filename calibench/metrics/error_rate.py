"""Classification error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric
from calibench.metrics.top_label import checked_top_label


def error_rate(preds: Tensor, target: Tensor) -> Tensor:
    """Share of examples whose most probable class is not the target."""
    _, correct = checked_top_label(preds, target)
    return 1 - correct.double().mean()


class ErrorRate(CalibrationMetric):
    """Classification error: the share of wrong predictions, 1 - accuracy (this package).

    The first class wins among equal probabilities.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples.
    """

    name = "error"
    title = "Error"

    wrong: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_sum("wrong")
        self.add_sum("count")

    def update(
        self, preds: Tensor, target: Tensor, top_label: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Add a batch.

        Args:
            preds: Probabilities, shape (N, K).
            target: Class indices, shape (N,).
            top_label: `top_label(preds, target)` where it is known already; then `preds` and
                `target` are not looked at.
        """
        _, correct = self.receive_top_label(preds, target, top_label)
        self.accumulate("wrong", correct.logical_not().sum(dtype=torch.float64))
        self.accumulate("count", len(correct))

    def compute(self) -> Tensor:
        """The error, a float64 scalar."""
        return self.wrong / self.count

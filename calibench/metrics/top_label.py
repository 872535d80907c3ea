"""Metrics that need the top-label pair (confidence, correct) of every example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric
from calibench.metrics.cells import Cells, TopLabelError, distinct_cells
from calibench.metrics.labelled import top_label
from calibench.metrics.packed import pack, unpack
from calibench.metrics.per_example import PerExampleMetric


class PairMetric(CalibrationMetric, ABC):
    """The base of metrics of top-label pairs: the confidence, and whether it is right (this package)."""

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
        pair = top_label or self._pair(preds, target)
        self.add_pairs(*(part.to(self.device) for part in pair))

    @abstractmethod
    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add pairs, (N,) and (N,) bool."""

    def _pair(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return top_label(*self.receive(preds, target))


class TopLabelMetric(PairMetric, PerExampleMetric, ABC):
    """The base of metrics of every top-label pair, each kept in 4 bytes (this package).

    The confidence is kept in float32, the hit in the bit that float32 values in [0, 1] leave free.
    """

    packed: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_rows("packed", torch.int32)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Keep the pairs."""
        self.append("packed", pack(confidence, correct))


class UnbinnedError(TopLabelMetric, TopLabelError, ABC):
    """The base of top-label calibration errors without bins: each distinct confidence is a cell (this package)."""

    def cells_of(self, confidence: Tensor) -> Cells:
        """Distinct confidences."""
        return distinct_cells(confidence.float())

    def compute(self) -> Tensor:
        """The calibration error, a float64 scalar."""
        return self.of_pairs(*unpack(self.rows("packed")))

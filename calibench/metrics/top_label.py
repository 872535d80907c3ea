"""Metrics that need the top-label pair (confidence, correct) of every example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric, checked, top_label
from calibench.metrics.cells import Cells, distinct_cells
from calibench.metrics.per_example import PerExampleMetric

CHUNK = 1 << 14  # examples evaluated at once, so that temporaries stay small


def checked_top_label(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """`top_label` of a checked batch, the confidence in at least float32."""
    return top_label(*checked(preds, target))


def pack(confidence: Tensor, correct: Tensor) -> Tensor:
    """Pack float32 confidences and hits (N,) into int32 that sorts like (confidence, correct)."""
    return confidence.float().view(torch.int32).bitwise_left_shift(1).bitwise_or(correct)


def unpack_confidence(packed: Tensor) -> Tensor:
    """Confidence (float32) of packed examples."""
    return packed.bitwise_right_shift(1).view(torch.float32)


def unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence (float32) and correctness (bool) of packed examples."""
    return unpack_confidence(packed), packed.bitwise_and(1).bool()


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


class UnbinnedError(TopLabelMetric, ABC):
    """The base of top-label calibration errors without bins: each distinct confidence is a cell (this package)."""

    def cells(self, preds: Tensor) -> Cells:
        """Distinct confidences."""
        return distinct_cells(preds.amax(1).float())

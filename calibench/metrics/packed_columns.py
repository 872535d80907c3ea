"""Metrics of the top label or of every class: packed pairs of probability and outcome."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibench.ground.arguments import one_of
from calibench.metrics.adaptive_classwise import pack_classes
from calibench.metrics.labelled import top_label
from calibench.metrics.packed import pack
from calibench.metrics.per_example import PerExampleMetric


def _top_label_column(preds: Tensor, target: Tensor) -> Tensor:
    return pack(*top_label(preds, target)).unsqueeze(1)


KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "top_label": _top_label_column,
    "marginal": pack_classes,
}


class PackedColumnsMetric(PerExampleMetric, ABC):
    """The base of metrics of each example's top label, or of each p_k with whether k is the target (this package).

    Args:
        kind: "top_label" or "marginal".
    """

    packed: list[Tensor]
    columns: Tensor

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = one_of("kind", kind, KINDS)
        # Flat, because a process without data does not know the number of columns.
        self.add_rows("packed", torch.int32)
        self.add_state("columns", torch.ones((), dtype=torch.int64), dist_reduce_fx="max")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        columns = self.kind(*self.receive(preds, target))
        self.columns = torch.full_like(self.columns, columns.shape[1])
        self.append("packed", columns.flatten())

    def packed_columns(self) -> Tensor:
        """The packed examples, (N, 1) or (N, K) int32."""
        return self.rows("packed").view(-1, int(self.columns))

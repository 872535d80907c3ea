"""Metrics that need the top-label pair (confidence, correct) of every example, or every p_k and whether it is a hit."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from calibench.ground.arguments import one_of
from calibench.metrics.base import CalibrationMetric, PerExampleMetric
from calibench.metrics.formulas import DistinctCells
from calibench.metrics.labelled import check_columns, pack, unpack
from calibench.metrics.labelled import top_label as top_label_of


class PairMetric(CalibrationMetric, ABC):
    """The base of metrics of top-label pairs: the confidence, and whether it is right (this package)."""

    def update(
        self, preds: Tensor, target: Tensor, top_label: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Add a batch.

        Where `top_label(preds, target)` is given, `preds` and `target` are not looked at.
        """
        pair = top_label or top_label_of(*self.receive(preds, target))
        self.add_pairs(*(part.to(self.device) for part in pair))

    @abstractmethod
    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add pairs, (N,) and (N,) bool."""


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

    def pairs(self) -> tuple[Tensor, Tensor]:
        """All confidences (N,) float32, and whether each was right (N,) bool."""
        return unpack(self.rows("packed"))


class UnbinnedError(DistinctCells, TopLabelMetric, ABC):
    """The base of top-label calibration errors without bins: each distinct confidence is a cell (this package)."""

    def compute(self) -> Tensor:
        """The calibration error, a float64 scalar."""
        return self.of_pairs(*self.pairs())


def pack_top_label(preds: Tensor, target: Tensor) -> Tensor:
    """Pack the confidence with whether it is right: (N, K), (N,) -> (N, 1) int32."""
    return pack(*top_label_of(preds, target)).unsqueeze(1)


def pack_classes(preds: Tensor, target: Tensor) -> Tensor:
    """Pack each p_k (in float32) with whether k is the target: (N, K), (N,) -> (N, K) int32."""
    classes = torch.arange(preds.shape[1], device=preds.device)
    return pack(preds, target.unsqueeze(1) == classes)


KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "top_label": pack_top_label,
    "marginal": pack_classes,
}


class PackedColumnsMetric(PerExampleMetric, ABC):
    """The base of metrics of each example's top label, or of each p_k with whether k is the target (this package).

    Args:
        kind: "top_label" or "marginal".
    """

    packed: list[Tensor]
    columns: Tensor
    num_classes: int | None = None  # where it is to be checked

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = one_of("kind", kind, KINDS)
        # Flat, because a process without data does not know the number of columns.
        self.add_rows("packed", torch.int32)
        self.add_state("columns", torch.ones((), dtype=torch.int64), dist_reduce_fx="max")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        if self.num_classes:
            check_columns(preds, self.num_classes)
        columns = self.kind(preds, target)
        self.columns = torch.full_like(self.columns, columns.shape[1])
        self.append("packed", columns.flatten())

    def packed_columns(self) -> Tensor:
        """The packed examples, (N, 1) or (N, K) int32."""
        return self.rows("packed").view(-1, int(self.columns))

    def each_column(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The probabilities (N, 1) and hits (N, 1) of each column; none without examples."""
        packed = self.packed_columns()
        for column in torch.split(packed, 1, dim=1) if len(packed) else ():
            yield unpack(column.contiguous())

    def mean_over_columns(self, error: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of an error of the probabilities and hits of each column; NaN without examples."""
        nothing = torch.full((), torch.nan, dtype=torch.float64, device=self.device)
        return torch.stack([error(*column) for column in self.each_column()] or [nothing]).mean()

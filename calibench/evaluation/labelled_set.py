"""A labelled set that is scored, and how further metrics of it are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from calibench.evaluation.floors import Floors
from calibench.metrics import METRIC_CLASSES
from calibench.runs import Predictions
from calibench.statistics.number import Number

MetricBlock = Mapping[str, Any]


def blocks_of(given: Iterable[str | MetricBlock]) -> list[MetricBlock]:
    """Metrics that are given as names or blocks, all as blocks of classes."""
    blocks = [{"class_path": one} if isinstance(one, str) else one for one in given]
    return [
        {**block, "class_path": METRIC_CLASSES.class_of(block["class_path"])} for block in blocks
    ]


@dataclass(frozen=True)
class LabelledSet:
    """A labelled set: log-probabilities (N, K), targets (N,), and what metrics may need to know of its classes."""

    log_probs: Tensor
    target: Tensor
    class_names: Sequence[str]
    class_counts: Sequence[int]

    @cached_property
    def floors(self) -> Floors:
        """Floors of its calibration errors."""
        return Floors(self.log_probs.exp(), self.target)

    def numbers(self, of: Callable[..., list[Number]], *, n_bins: Sequence[int]) -> list[Number]:
        """The numbers that a function of `scoring` gives of it."""
        return of(self.log_probs, self.target, n_bins=n_bins, floors=self.floors)

    @classmethod
    def of(cls, predictions: Predictions, log_probs: Tensor, target: Tensor) -> LabelledSet:
        """The set of a prediction file, with its log-probabilities raw or after a calibrator."""
        names = predictions.metadata.get("class_names") or map(str, range(log_probs.shape[1]))
        return cls(log_probs, target, [*names], predictions.metadata.get("class_counts") or [])

"""Batches, splits and evaluation sets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor


class Batch(NamedTuple):
    """This process's slice of one global batch.

    Attributes:
        inputs: Ready for the backbone (augmented, normalised), shape (n_r, ...), on the loader's
            device.
        target: Class indices (n_r,) int64; -1 where an out-of-distribution set has no label. In training also class
            distributions (n_r, K) float32.
        index: Positions of the examples in their split (n_r,) int64; of an imported module's training, in its order.
        size: Examples of the global batch; process r of W holds `slice_sizes(size, W)[r]` of them.
        copies: Rows of `inputs` and `target` that training has for each example, those of a copy after one another.
        views: Rows of `inputs` that training has for each of `target`, those of a row after one another.
    """

    inputs: Tensor
    target: Tensor
    index: Tensor  # type: ignore[assignment]  # shadows tuple.index, which no batch needs
    size: int
    copies: int = 1
    views: int = 1


class Examples(NamedTuple):
    """The examples of a split.

    Attributes:
        inputs: As stored (N, ...), such as uint8 images.
        target: Class indices (N,) int64.
        distributions: Distributions over classes (N, K) float32, on which training goes in place of `target`; or None.
    """

    inputs: Tensor
    target: Tensor
    distributions: Tensor | None = None

    def take(self, index: Tensor) -> Self:
        """The examples at the given positions."""
        return self._each(lambda part: part[index])

    def to(self, device: torch.device | str) -> Self:
        """The examples on a device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        distributions = None if self.distributions is None else change(self.distributions)
        return type(self)(change(self.inputs), change(self.target), distributions)


class Splits(NamedTuple):
    """The three splits of a dataset."""

    train: Examples
    val: Examples
    test: Examples


class Posterior(NamedTuple):
    """Known class distributions of examples: `probs` (N, K) float32, and `source`, where they are from."""

    probs: Tensor
    source: str


@dataclass(frozen=True)
class EvaluationSet:
    """A named set that is evaluated beside the test set.

    Attributes:
        name: Its name in logs, files and tables.
        kind: "ood" (no labels: every target is -1) or "shift" (labels of the test set's classes; it
            is scored like a test set and serves as out-of-distribution data as well).
        examples: Stored like the splits, so the data module's own transform applies.
        caveats: Lines about the set that every result repeats.
        classes: Which classes the set has (K,) bool, where it lacks some: the others are not scored. None for all.
    """

    name: str
    kind: Literal["ood", "shift"]
    examples: Examples
    caveats: tuple[str, ...] = ()
    classes: Tensor | None = None

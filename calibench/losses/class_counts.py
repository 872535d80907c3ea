"""Losses that know how often each class occurs in the training set."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from calibench.losses.base import PerExampleLoss


class ClassCountLoss(PerExampleLoss):
    """A loss that needs the training set's class counts, given by `on_fit_start` (this package).

    It keeps one number for each class, derived from the counts, in the buffer `per_class`, (K,)
    float64. The buffer is empty until `on_fit_start` is called; a checkpoint restores it.
    """

    per_class: Tensor
    fewest: ClassVar[int] = 1  # training examples of a class
    per_label = True  # counts are of one label

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("per_class", torch.empty(0, dtype=torch.float64))

    @abstractmethod
    def from_counts(self, counts: Tensor) -> Tensor:
        """Return the number to keep for each class, from the class counts: (K,) float64 -> (K,)."""

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Take the class counts, (K,), each at least `fewest`."""
        counts = class_counts.to(self.per_class.device, torch.float64)
        if counts.dim() != 1 or bool((counts < self.fewest).any()):
            raise ValueError(
                "`class_counts` must hold at least one training example of each class, "
                f"got {class_counts.tolist()}."
            )
        self.per_class = self.from_counts(counts)

    def for_classes(self, logits: Tensor) -> Tensor:
        """The buffer in the logits' type, (K,).

        Raises:
            ValueError: If `on_fit_start` has not been called, or with another number of classes.
        """
        if len(self.per_class) != logits.shape[1]:
            known = f"knows {len(self.per_class)} classes" if len(self.per_class) else "knows none"
            raise ValueError(
                f"{type(self).__name__} needs the training class counts (`on_fit_start`) of "
                f"{logits.shape[1]} classes, but {known}."
            )
        return self.per_class.to(logits.dtype)

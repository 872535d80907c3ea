"""The contract of a training loss: one obligation, three optional moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class CalibrationLoss(nn.Module, ABC):
    """A training loss: logits and targets in, one scalar out.

    Subclasses implement `forward`. A loss sees the *global* batch (all processes' rows), talks to no
    other process, reads the number of classes from `logits.shape[1]`, and returns the **mean** over the
    batch; the module multiplies by the batch size where a protocol sums.

    The three moments do nothing by default. Whatever a loss remembers between steps, and whatever it
    derives from the epoch, belongs in a registered buffer: then a resumed run is exact. Buffers follow
    the module's device but are never cast, so `bf16-true` training keeps them as they are.
    """

    @abstractmethod
    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            logits: Unnormalised scores, shape (N, K).
            target: Class indices in [0, K), shape (N,), int64.

        Returns:
            A scalar.
        """

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Called once before training with the number of training examples of each class, (K,) int64."""

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Called at the start of epoch 0, 1, ...; not repeated when a run resumes within an epoch."""

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Called after each validation epoch with the whole validation set's logits (N, K) and targets.

        The sanity check before training does not call it.
        """

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> CalibrationLoss:
        # nn.Module.to(dtype) casts floating buffers; a loss's state is moved, never cast.
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, *args, **kwargs)
        return self


def true_class(values: Tensor, target: Tensor) -> Tensor:
    """Pick `values[i, target[i]]`: (N, K) and (N,) -> (N,)."""
    return values.gather(1, target.unsqueeze(1)).squeeze(1)


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax of (N, K) logits, in at least float32 (autocast hands over bfloat16)."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits, dim=1, dtype=dtype)

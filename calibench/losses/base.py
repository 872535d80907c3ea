"""The contract of a training loss: one obligation, three optional moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isnan

import torch
from torch import Tensor

from calibench.ground.tensors import (
    TakesSavedShapes,
    check_class_indices,
    check_scores,
    check_target,
)


class CalibrationLoss(TakesSavedShapes, ABC):
    """A training loss: logits and targets in, one scalar out (this package).

    Subclasses implement `forward`. A loss sees the *global* batch (all processes' rows), talks to
    no other process, reads the number of classes from `logits.shape[1]`, and returns the **mean**
    over the batch; the module multiplies by the batch size where a protocol sums.

    The three moments do nothing by default. Whatever a loss remembers between steps, and whatever
    it derives from the epoch, belongs in a registered buffer: then a resumed run is exact. Buffers
    follow the module's device but are never cast, so `bf16-true` training keeps them as they are; a
    buffer whose length is known only at run time takes the checkpoint's.

    Calling a loss checks its input. Shapes and types are checked first, on every device. Values
    (targets out of range, NaN) are checked only on the CPU, and only after the loss has raised or
    come out as NaN. On an accelerator reading a value would make the device wait at every step:
    there an index out of range ends in the device's own assertion, and NaN logits give a NaN loss.
    """

    # Whether it sees each label alone, where an example has several, rather than all together.
    per_label: bool = False

    def __init__(self) -> None:
        super().__init__()  # hides nn.Module's *args, **kwargs from the command line

    @abstractmethod
    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            logits: Unnormalised scores, shape (N, K).
            target: Class indices in [0, K), shape (N,), int64.

        Returns:
            A scalar, in at least float32.
        """

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Called with the class counts of the training set, (K,) int64.

        Before training, and again before validating or testing: always before a checkpoint is loaded, as the
        length of a buffer may depend on the counts. It sets what follows from them and nothing else.
        """

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Called at the start of epoch 0, 1, ..., but not when a run resumes within an epoch."""

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Called after each validation epoch with all validation logits (N, K) and targets (N,).

        The sanity check before training does not call it.
        """

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """Check the batch, compute the loss, and name a NaN in the logits.

        Raises:
            TypeError: If the logits are not floating point or the target is not int64.
            ValueError: If a shape is wrong, the batch is empty, or (on the CPU) a value is.
        """
        check_batch(logits, target)
        try:
            loss: Tensor = super().__call__(logits, target)
        except (IndexError, RuntimeError):
            if target.device.type == "cpu":
                check_class_indices(target, logits.shape[1])
            raise
        if _is_readably_nan(loss):
            check_not_nan(logits)
        return loss


class PerExampleLoss(CalibrationLoss):
    """A loss that is the mean of one value per example (this package)."""

    @abstractmethod
    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss: (N, K) and (N,) -> (N,)."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch."""
        return self.per_example(logits, target).mean()


def _is_readably_nan(loss: Tensor) -> bool:
    if loss.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        return isnan(loss.detach())
    except RuntimeError:  # torch.func.vmap stands for many losses: none of them can be read
        return False


def check_batch(logits: Tensor, target: Tensor) -> None:
    """Raise if logits and target do not have the shapes and types of a batch."""
    check_scores(logits)
    check_target(target, logits)
    if target.dtype != torch.int64:  # what torch's own losses take
        raise TypeError(f"`target` must hold class indices as int64, got {target.dtype}.")
    if len(target) == 0:
        raise ValueError("the batch must hold at least one example, got none.")


def check_not_nan(logits: Tensor) -> None:
    """Raise if there is NaN in the logits."""
    rows = int(logits.isnan().any(dim=1).sum())
    if rows:
        raise ValueError(f"`logits` must not contain NaN, got it in {rows} of {len(logits)} rows.")

"""Callbacks of a run: training curve, seconds, progress, and guards that end it."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, LambdaCallback
from torch import Tensor

from calibench.runs import Claim, write_atomically
from calibench.training.module import NonFiniteLoss


class TrainingCurve(Checkpoint):
    """Writes metrics.csv, one row for each epoch; the checkpoint keeps the rows, so that a resume loses none.

    It is a Checkpoint by type only: Lightning calls these last, after the module has logged the epoch, and in their
    order, so this one comes before the one that saves.

    Args:
        path: The CSV file.
        extra: Further columns, read at the end of every epoch; no callback can monitor them.
    """

    def __init__(self, path: Path, extra: Mapping[str, float] | None = None) -> None:
        self.path = path
        self.extra = {} if extra is None else extra
        self.rows: list[dict[str, float]] = []

    def state_dict(self) -> dict[str, Any]:
        """The rows so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the rows."""
        self.rows = state_dict["rows"]

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Add the epoch's row and write the file."""
        values = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        rate = float(trainer.optimizers[0].param_groups[0]["lr"])
        place = {"epoch": trainer.current_epoch, "step": trainer.global_step, "lr": rate}
        self.rows.append({**place, **values, **self.extra})
        if trainer.is_global_zero:
            self.write()

    def write(self) -> None:
        """Write all rows."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomically(self.path, text.getvalue().encode())


def claim_guard(claim: Claim) -> Callback:
    """A callback that ends a run whose folder another process took over, before later ones write into it."""
    return LambdaCallback(on_train_epoch_end=lambda trainer, pl_module: claim.check())


class NaNGuard(Callback):
    """Ends the run when the training loss is NaN or infinite, and reports the epoch and the step.

    On a CPU the loss is checked after every step. On a GPU the losses are kept and checked together, every
    `every_n_steps` steps and at the end of an epoch, so that no step waits for the host or launches a kernel.

    Args:
        every_n_steps: Steps between checks on devices where a check costs a synchronisation.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        self.every_n_steps = every_n_steps
        self._losses: list[Tensor] = []
        self._steps: list[int] = []

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *args: Any
    ) -> None:
        """Check the loss of a step; on a GPU keep it, and check all that were kept if it is time."""
        loss = outputs["loss"]
        if loss.device.type == "cpu":
            _check_finite(float(loss), trainer.current_epoch, trainer.global_step)
            return
        self._losses.append(loss)
        self._steps.append(trainer.global_step)
        if len(self._losses) == self.every_n_steps:
            self._check(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check the losses before the epoch's checkpoint is written."""
        self._check(trainer)

    def _check(self, trainer: L.Trainer) -> None:
        if not self._losses:
            return
        for step, loss in zip(self._steps, torch.stack(self._losses).tolist(), strict=True):
            _check_finite(loss, trainer.current_epoch, step)
        self._losses, self._steps = [], []


def _check_finite(loss: float, epoch: int, step: int) -> None:
    if not math.isfinite(loss):
        raise NonFiniteLoss(f"the training loss is not finite at epoch {epoch}, step {step}.")


class Timing(Callback):
    """Measures the seconds of each epoch with its validation; those before a resume are in `earlier`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.earlier: list[float] = []
        self._start = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The seconds so far."""
        return {"seconds": [*self.earlier, *self.seconds]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the seconds of the epochs before the resume."""
        self.earlier = state_dict["seconds"]

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop the clock."""
        self.seconds.append(time.perf_counter() - self._start)


def epoch_report(report: Callable[[int, int], None]) -> Callback:
    """A callback that calls a function with (epochs done, epochs in all) at the start, or resume, and after epochs."""
    return LambdaCallback(
        on_train_start=lambda trainer, _: report(trainer.current_epoch, trainer.max_epochs or 0),
        on_train_epoch_end=lambda trainer, _: report(
            trainer.current_epoch + 1, trainer.max_epochs or 0
        ),
    )

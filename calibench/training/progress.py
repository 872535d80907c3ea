"""Progress bar of a training run."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ProgressBar
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from calibench.ground.console import Terminal
from calibench.ground.output import say


class EpochProgress(ProgressBar):
    """One bar for the whole training in a terminal, or ten lines in a log file.

    It reads nothing from the device within an epoch, so it costs a step next to nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar: Progress | None = None
        self._lines = not sys.stderr.isatty()
        self._enabled = True
        self._moved = 0.0

    def disable(self) -> None:
        """Show nothing; Lightning calls this in every process but the first."""
        self._enabled = False

    def enable(self) -> None:
        """Show progress again."""
        self._enabled = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the bar."""
        super().on_train_start(trainer, pl_module)
        if self._enabled and trainer.current_epoch:
            where = f"at epoch {trainer.current_epoch + 1} of {trainer.max_epochs}"
            say(f"calibench: the run goes on {where} (--overwrite true starts anew)", to=sys.stderr)
        if not self._enabled or self._lines:
            return
        columns = (
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )  # fmt: skip
        self._bar = Progress(*columns, console=Terminal(stderr=True), transient=True)
        self._bar.add_task("", total=trainer.max_epochs, completed=trainer.current_epoch)
        self._bar.start()

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        """Move the bar within an epoch, at most five times a second."""
        if self._bar is None or time.monotonic() - self._moved < 0.2:
            return
        self._moved = time.monotonic()
        progress = trainer.fit_loop.epoch_loop.batch_progress.current.ready / max(
            1, int(trainer.num_training_batches)
        )
        self._bar.update(
            self._bar.task_ids[0], completed=round(trainer.current_epoch + progress, 2)
        )

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show the metrics of the epoch."""
        if not self._enabled:
            return
        done, total = trainer.current_epoch + 1, trainer.max_epochs or 0
        values = {
            name: float(trainer.callback_metrics[name])
            for name in ("val/error", "val/nll")
            if name in trainer.callback_metrics
        }
        text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, description=text)
        elif self._lines and (done == total or done % max(1, total // 10) == 0):
            say(f"epoch {done}/{total}  {text}", to=sys.stderr)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Close the bar."""
        self._close()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        """Close the bar before a message is printed."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

"""Callbacks of a run: training curve, seconds, progress, and guards that end it."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, LambdaCallback
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from calibench.data import ClassificationDataModule
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_argument
from calibench.messages.terminal import Terminal
from calibench.runs import Claim, write_atomically
from calibench.runs.durations import RunDuration, describe_seconds
from calibench.tables.text import rows_csv
from calibench.training.module import NonFiniteLoss


class TrainingCurve(Checkpoint):
    """Writes metrics.csv, one row for each epoch; the checkpoint keeps the rows, so that a resume loses none.

    It is a Checkpoint by type only: Lightning calls these last, after the module has logged the epoch, and in their
    order, so this one comes before the one that saves. The columns `extra` are read at the end of every epoch; no
    callback can monitor them.
    """

    def __init__(self, path: Path, extra: Mapping[str, float] | None = None) -> None:
        self.path, self.extra = path, {} if extra is None else extra  # a mapping that fills later
        self.rows: list[dict[str, float]] = []
        self._validated = -1  # the last epoch with a validation

    def state_dict(self) -> dict[str, list[dict[str, float]]]:
        """The rows so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, list[dict[str, float]]]) -> None:
        """Restore the rows."""
        self.rows = state_dict["rows"]

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Note that this epoch is validated: Lightning keeps the values of the last validation for later ones."""
        self._validated = trainer.current_epoch

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Add the epoch's row and write the file; an epoch without validation has no validation numbers."""
        values = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        if self._validated != trainer.current_epoch:
            values = {name: values[name] for name in values if not name.startswith("val/")}
        rate = float(trainer.optimizers[0].param_groups[0]["lr"])
        place = {"epoch": trainer.current_epoch, "step": trainer.global_step, "lr": rate}
        self.rows.append({**place, **values, **self.extra})
        self._write(trainer, durable=False)  # a checkpoint holds the rows, too

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the file for good."""
        if self.rows:
            self._write(trainer, durable=True)

    def _write(self, trainer: L.Trainer, *, durable: bool) -> None:
        if trainer.is_global_zero:
            write_atomically(self.path, rows_csv(self.rows).encode(), durable=durable)


def claim_guard(claim: Claim) -> Callback:
    """A callback that ends a run whose folder another process took over, before later ones write into it."""
    return LambdaCallback(on_train_epoch_end=lambda trainer, pl_module: claim.check())


class NaNGuard(Callback):
    """Ends the run when the training loss is NaN or infinite, and reports the epoch and the step.

    On a CPU the loss is checked after every step. On a GPU the losses are kept and checked together, every
    `every_n_steps` steps and at the end of an epoch, so that no step waits for the host or launches a kernel.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        self.every_n_steps = every_n_steps
        self._losses: list[tuple[int, Tensor]] = []

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *args: Any
    ) -> None:
        """Check the loss of a step; on a GPU keep it, and check all that were kept if it is time."""
        self._losses.append((trainer.global_step, outputs["loss"]))
        on_cpu = outputs["loss"].device.type == "cpu"
        if len(self._losses) == (1 if on_cpu else self.every_n_steps):
            self.on_train_epoch_end(trainer, pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check the losses before the epoch's checkpoint is written."""
        values = torch.stack([loss for _, loss in self._losses]).tolist() if self._losses else []
        for (step, _), value in zip(self._losses, values, strict=True):
            if not math.isfinite(value):
                place = f"epoch {trainer.current_epoch}, step {step}"
                raise NonFiniteLoss(f"the training loss is not finite at {place}.")
        self._losses = []


class Timing(Callback):
    """Measures the seconds of each epoch with its validation; those before a resume are in `earlier`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.earlier: list[float] = []
        self._start = 0.0

    def state_dict(self) -> dict[str, list[float]]:
        """The seconds so far."""
        return {"seconds": [*self.earlier, *self.seconds]}

    def load_state_dict(self, state_dict: dict[str, list[float]]) -> None:
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


class DataInventory(Callback):
    """Print what a user's own data hold, a line each, before training, in the first process (this package)."""

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print the lines of the data module."""
        if trainer.is_global_zero:
            data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
            say(*(f"data: {line}" for line in data.inventory), to=sys.stderr)


MEASURED_SECONDS = 1.0  # of the first epoch, before it is said how long all take


class EpochProgress(Callback):
    """One bar for the whole training in a terminal, or ten lines in a log file, in the first process.

    It reads nothing from the device within an epoch, so it costs a step next to nothing. How long the training takes
    is said before the first epoch by the finished runs of the same benchmark and network, or else in the first epoch by
    its first steps; in a log file each line says how long is left.

    Args:
        duration: The mean duration of such runs; None without any.
    """

    def __init__(self, duration: RunDuration | None = None) -> None:
        self._bar: Progress | None = None
        self._moved = 0.0
        self._duration = duration
        self._began = self._first_step = time.monotonic()
        self._first_epoch = 0
        self._is_said = False

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the bar."""
        if trainer.is_global_zero and trainer.current_epoch:
            place = f"at epoch {trainer.current_epoch + 1} of {trainer.max_epochs}"
            anew = spell_argument("overwrite", "true", python="True")
            say(f"calibench: the run goes on {place} ({anew} starts anew)", to=sys.stderr)
        self._began, self._first_epoch = time.monotonic(), trainer.current_epoch
        if self._duration is not None and (epochs := self._epochs_left(trainer)):
            seconds = describe_seconds(self._duration.seconds(epochs))
            self._say(
                trainer,
                f"about {seconds} for {epochs} epochs and the evaluation, as finished runs took",
            )
        if not trainer.is_global_zero or not sys.stderr.isatty():
            return
        columns = (
            "training", BarColumn(), MofNCompleteColumn(), "epochs", TimeElapsedColumn(), "left", TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )  # fmt: skip
        self._bar = Progress(*columns, console=Terminal(stderr=True), transient=True)
        self._bar.add_task("", total=trainer.max_epochs, completed=trainer.current_epoch)
        self._bar.start()

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        """Move the bar within an epoch, at most five times a second; say by the first steps how long it takes."""
        if not self._is_said:
            self._say_by_steps(trainer)
        if self._bar is None or time.monotonic() - self._moved < 0.2:
            return
        self._moved = time.monotonic()
        batches = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        epochs_done = trainer.current_epoch + batches / max(1, int(trainer.num_training_batches))
        self._bar.update(self._bar.task_ids[0], completed=round(epochs_done, 2))

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show the metrics of the epoch."""
        epochs_done, total = trainer.current_epoch + 1, trainer.max_epochs or 0
        logged = trainer.callback_metrics
        names = (name for name in ("val/error", "val/nll") if name in logged)
        text = "  ".join(f"{name} {float(logged[name]):.4f}" for name in names)
        epoch_seconds = (time.monotonic() - self._began) / (epochs_done - self._first_epoch)
        left = epoch_seconds * (total - epochs_done)
        self._say(
            trainer, f"about {describe_seconds(left)} for the other {total - epochs_done} epochs"
        )
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=epochs_done, description=text)
        elif trainer.is_global_zero and (
            epochs_done == total or epochs_done % max(1, total // 10) == 0
        ):
            remaining = f"  about {describe_seconds(left)} left" if epochs_done < total else ""
            say(f"epoch {epochs_done}/{total}  {text}{remaining}", to=sys.stderr)

    def _say_by_steps(self, trainer: L.Trainer) -> None:
        """Say how long the epochs take, once a second of the first epoch is over; its first step is no measure."""
        steps = trainer.fit_loop.epoch_loop.batch_progress.current.ready - 1
        if steps < 1:
            self._first_step = time.monotonic()
            return
        elapsed = time.monotonic() - self._first_step
        if elapsed >= MEASURED_SECONDS and (epochs := self._epochs_left(trainer)):
            seconds = elapsed / steps * float(trainer.num_training_batches) * epochs
            if math.isfinite(seconds):
                text = f"about {describe_seconds(seconds)} for {epochs} epochs, without validation and evaluation"
                self._say(trainer, text)

    def _epochs_left(self, trainer: L.Trainer) -> int:
        """Epochs that are left; 0 where the trainer has no last one."""
        return max(0, (trainer.max_epochs or 0) - trainer.current_epoch)

    def _say(self, trainer: L.Trainer, text: str) -> None:
        """Say how long the training takes, once, in the first process; short trainings need no such line."""
        if self._is_said:
            return
        self._is_said = True
        if not trainer.is_global_zero or text.startswith("about 0:0"):
            return
        if self._bar is not None:
            self._bar.console.print(f"calibench: {text}", soft_wrap=True)
        else:
            say(f"calibench: {text}", to=sys.stderr)

    def on_train_end(self, *_: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_exception(self, *_: Any) -> None:
        """Close the bar before a message is printed."""
        self.on_train_end()

"""Interruption of a run by Ctrl-C, SIGTERM or SIGHUP, reported as what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lightning.pytorch as L
from lightning.pytorch.callbacks import Callback

from calibench.ground.processes import unwinding


class Interruption(Callback):
    """Remembers the exception that ended a run, as Lightning turns Ctrl-C and SIGTERM into its own exit codes."""

    def __init__(self) -> None:
        self.exception: BaseException | None = None

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        """Keep the first exception."""
        self.exception = self.exception or exception


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let SIGTERM and SIGHUP unwind as Ctrl-C does; yields the callback for the trainer."""
    interruption = Interruption()
    with unwinding():
        try:
            yield interruption
        except SystemExit as error:  # Lightning raises it for Ctrl-C
            ctrl_c = isinstance(interruption.exception, KeyboardInterrupt)
            raise (KeyboardInterrupt if ctrl_c else error) from None

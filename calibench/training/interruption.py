"""Ctrl-C, SIGTERM and SIGHUP: what ended a run, told as what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lightning.pytorch as L
from lightning.pytorch.callbacks import Callback

from calibench.processes import unwinding


class Interruption(Callback):
    """Remembers what ended a run: Lightning turns Ctrl-C and SIGTERM into exit codes of its own."""

    def __init__(self) -> None:
        self.exception: BaseException | None = None

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        """Keep the first exception."""
        self.exception = self.exception or exception


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let SIGTERM and SIGHUP unwind like Ctrl-C; give the callback that tells what ended a run inside the trainer."""
    interruption = Interruption()
    with unwinding():
        try:
            yield interruption
        except SystemExit as error:  # Lightning's answer to Ctrl-C
            ctrl_c = isinstance(interruption.exception, KeyboardInterrupt)
            raise (KeyboardInterrupt if ctrl_c else error) from None

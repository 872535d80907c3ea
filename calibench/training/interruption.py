"""Ctrl-C and SIGTERM: what ended a run, told as what it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import lightning.pytorch as L
from lightning.pytorch.callbacks import Callback

from calibench.config import Terminated


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
    """Let SIGTERM unwind like Ctrl-C; give the callback that tells what ended a run inside the trainer."""

    def terminate(*_: Any) -> NoReturn:
        raise Terminated

    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield interruption
        return
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield interruption
    except SystemExit as error:  # Lightning's answer to Ctrl-C
        raise (
            KeyboardInterrupt if isinstance(interruption.exception, KeyboardInterrupt) else error
        ) from None
    finally:
        signal.signal(signal.SIGTERM, previous)

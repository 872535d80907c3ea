"""Processes that tests start: waited for as long as this machine needs now, and ended whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

IDLE = 0.1  # seconds that `_WORK` takes on a machine that does nothing else
_WORK = "import json, argparse, subprocess, multiprocessing"


def patience(seconds: float) -> float:
    """So many seconds of an idle machine, on this one as it is now."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", _WORK], check=True)
    return seconds * max(1.0, (time.perf_counter() - started) / IDLE)


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What a condition gives as soon as it gives something.

    The deadline is looked at anew when it is over: a machine that has become slower since gets more time.
    """
    started, allowed = time.monotonic(), seconds
    while not (found := condition()):
        if time.monotonic() - started > allowed:
            before, allowed = allowed, max(allowed, patience(seconds))
            assert allowed > before, f"waited in vain for {allowed:.0f} s"
        time.sleep(0.02)
    return found


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own; it and what it started is gone at the end."""
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

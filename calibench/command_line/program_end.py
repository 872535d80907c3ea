"""End of the program: what Python does at its end, without taking apart a million objects of torch one by one."""

import atexit
import multiprocessing
import os
import sys
import threading
from typing import NoReturn

_AT_WORK = ("coverage", "wandb", "mlflow", "tensorboard")
"""Packages that do more at the end than what they registered for it: measuring, sending."""


def can_end_at_once() -> bool:
    """Whether nothing but this thread is left: no other thread that Python would wait for, no process, no logger."""
    threads = (thread for thread in threading.enumerate() if not thread.daemon)
    if any(thread is not threading.current_thread() for thread in threads):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    traced = sys.gettrace() is not None or sys.getprofile() is not None
    is_at_work = any(name in sys.modules for name in _AT_WORK)
    return not (traced or is_at_work or multiprocessing.active_children())


def end_program(code: int) -> NoReturn:
    """End the process with a code: registered functions are called, both streams flushed, and that is all.

    A second of the four that a verb with torch takes went by while Python took its modules apart.
    """
    atexit._run_exitfuncs()
    code = _flush_streams(code)
    os._exit(code)


def _flush_streams(code: int) -> int:
    """Flush stdout and stderr; 1 and a line if what was printed cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or 1
        broken = isinstance(error, BrokenPipeError)
        text = "the output was closed" if broken else str(error)
        try:
            sys.stderr.write(f"calibench: {text}\n")
        except OSError:
            return code
    try:
        sys.stderr.flush()
    except OSError:
        code = code or 1
    return code

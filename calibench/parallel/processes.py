"""Processes: independent work in several of them, and their end by a signal or with their parent."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, NoReturn, TypeVar

# What ends a process from outside, but for Ctrl-C: somebody's `kill`, a scheduler, a closed terminal.
TERMINATIONS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

_IMPORTED: dict[str, None] = {}  # what processes of `warm_context` find imported

T = TypeVar("T")
R = TypeVar("R")

Mapped = Callable[..., Iterator[Any]]
"""Calls a function for each of several items as `map` does, in order; perhaps in other processes."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP (a closed terminal) arrived: it unwinds like Ctrl-C; the exit code is 128 + its number."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(f"terminated ({signal.Signals(number).name})")
        self.number = number


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    processes: int,
    imports: Sequence[str] = (),
    start: Callable[[], None] | None = None,
) -> Iterator[R]:
    """Call a function for each item, in several processes; yields the results in the order of the items.

    It is importable, like its argument and its result, and nothing that it does to its arguments comes back. With one
    process, or one item, it is this one; with more, a script that calls this needs the guard of every script
    that uses `multiprocessing`: `if __name__ == "__main__":`. Modules that take long to import are imported once, and
    `start` is called first in every process but this one.
    """
    with workers(min(processes, len(items)), imports=imports, start=start) as mapped:
        yield from mapped(function, items)


@contextmanager
def workers(
    processes: int, *, imports: Sequence[str] = (), start: Callable[[], None] | None = None
) -> Iterator[Mapped]:
    """Processes that stay until the end of the block, as a `map` over them; arguments as in `map_in_processes`."""
    if processes < 2:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor

    context = start_importing(imports)
    with ProcessPoolExecutor(
        processes, context, initializer=_start_worker, initargs=(start,)
    ) as pool:
        yield pool.map


def start_importing(imports: Sequence[str]) -> Any:
    """Start importing, in the background, the modules that processes of the returned context will need.

    Those asked for until the first process starts count.
    """
    context = warm_context(imports)
    if context.get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()
    return context


def warm_context(imports: Sequence[str]) -> Any:
    """The `multiprocessing` context of processes that find modules imported, where the system can fork.

    They are imported when the first process starts, with those of earlier calls.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    _IMPORTED.update(dict.fromkeys(imports))
    context.set_forkserver_preload(list(_IMPORTED))
    return context


@contextmanager
def without_main_module() -> Iterator[None]:
    """Processes that start meanwhile do not run the script that starts them: it needs no guard.

    For processes that get plain values alone: they know no class and no function that the script defines.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def keep_imports() -> None:
    """Call this first in a process that was forked: the collector of cycles leaves alone what was there before.

    It is a million objects once torch and Lightning are imported: half a second for each full collection, and a copy of
    the memory that the process shares with the others.
    """
    gc.freeze()


def _start_worker(start: Callable[[], None] | None) -> None:
    keep_imports()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    end_with_parent()
    if start is not None:
        start()


@contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Terminated` while inside, so that they unwind the stack as Ctrl-C does.

    The first one counts: what comes later, as a closed terminal sends one signal and the parent another, does not
    interrupt the unwinding. A signal that is ignored, as under `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    earlier = {number: signal.getsignal(number) for number in TERMINATIONS}
    numbers = [number for number in earlier if earlier[number] not in (signal.SIG_IGN, _unwind)]
    for number in numbers:
        signal.signal(number, _unwind)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, earlier[number] or signal.SIG_DFL)


def _unwind(received: int, *_: object) -> NoReturn:
    for number in TERMINATIONS:
        signal.signal(number, signal.SIG_IGN)
    raise Terminated(received)


def end_with_parent(grace: float = 10.0) -> None:
    """End this process when the one that started it is gone, even if that one was killed.

    It gets a SIGTERM then, and as many seconds as `grace` says to answer it.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent, grace), daemon=True).start()


def _end_after(parent: BaseProcess, grace: float) -> None:
    parent.join()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(grace)
    os._exit(128 + signal.SIGTERM)


def cause_of_death(code: int) -> str:
    """The cause of a child process's death, from its exit code: `was killed by signal 9 (SIGKILL; out of memory?)`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    guess = "; out of memory?" if name == "SIGKILL" else ""
    return f"was killed by signal {-code} ({name}{guess})"

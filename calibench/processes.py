"""Independent work spread over processes, with a bar for who waits."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    processes: int,
    imports: Sequence[str] = (),
    start: Callable[[], None] | None = None,
) -> Iterator[R]:
    """The function's results, in the order of the items.

    With more than one process, a script that calls this needs the guard of every script that uses
    `multiprocessing`: `if __name__ == "__main__":`.

    Args:
        function: Importable, like its argument and its result; nothing it does to its arguments comes back.
        items: Its arguments.
        processes: How many work at a time; with one, or one item, it is this one.
        imports: Modules that all processes need and take long to import: it is done once.
        start: Called first in every process but this one.
    """
    if min(processes, len(items)) < 2:
        yield from map(function, items)
        return
    context = prepared(imports)
    workers = min(processes, len(items))
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(start,)) as pool:
        yield from pool.map(function, items)


def prepared(imports: Sequence[str]) -> Any:
    """Start importing what processes will need, beside what this one does meanwhile.

    Args:
        imports: As `spread` takes them. Those of the first call count.

    Returns:
        The `multiprocessing` context of the processes.
    """
    context = warm_context(imports)
    if context.get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()
    return context


def warm_context(imports: Sequence[str]) -> Any:
    """The `multiprocessing` context of processes that find modules imported, where the system can fork.

    Args:
        imports: As `spread` takes them; imported when the first process starts.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(imports))
    return context


def _begin(start: Callable[[], None] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    if start is not None:
        start()


def watched(results: Iterator[R], total: int, title: str) -> Iterator[R]:
    """The same results, with a bar on stderr; none where that is no terminal, or for one result."""
    if total < 2 or not sys.stderr.isatty():
        yield from results
        return
    from rich.progress import Progress

    from calibench.printing.terminal import Terminal

    with Progress(console=Terminal(stderr=True), transient=True) as bar:
        yield from bar.track(results, total=total, description=title)

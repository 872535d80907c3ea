"""Threads for independent pieces of work."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def use_threads(count: int) -> None:
    """Let torch, and the libraries of linear algebra that are loaded, use so many threads from now on.

    Torch's own number says nothing to those of numpy and scipy. Processes side by side, each with as many threads as
    there are cores, take several times as long.
    """
    torch.set_num_threads(count)
    threadpool_limits(count)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and the libraries of linear algebra from splitting their operations over cores.

    Operations of a few thousand numbers, one after the other, take up to ten times as long on threads that wait for a
    core which another process uses.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _linear_algebra:
            yield
    finally:
        torch.set_num_threads(threads)


class _OnOneThread:
    """Limits the libraries of linear algebra from the first `with` that is entered to the last that is left.

    To look for the libraries takes milliseconds, and floors are computed for each metric on its own.
    """

    def __init__(self) -> None:
        self._users, self._change = 0, Lock()

    def __enter__(self) -> None:
        with self._change:
            if not self._users:
                self._limit = threadpool_limits(1)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._users -= 1
            if not self._users:
                self._limit.restore_original_limits()


_linear_algebra = _OnOneThread()


def in_threads(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """`map` with up to `jobs` threads; with more than one, each is `one_thread`.

    Torch, numpy and scikit-learn let go of the interpreter while they compute.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        with one_thread():
            yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)

"""Threads for independent pieces of work."""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


def use_threads(count: int) -> None:
    """Let torch, and the libraries of linear algebra that are loaded, use so many threads from now on.

    Torch's own number says nothing to those of numpy and scipy. Processes side by side, each with as many threads as
    there are cores, take several times as long.
    """
    torch.set_num_threads(count)
    _libraries(len(sys.modules)).limit(limits=count)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and the libraries of linear algebra from splitting their operations over cores.

    Operations of a few thousand numbers, one after the other, take up to ten times as long on threads that wait for a
    core which another process uses.
    """
    if _is_limited.get():  # to set the libraries' number takes as long as such an operation
        yield
        return
    threads, token = torch.get_num_threads(), _is_limited.set(True)
    torch.set_num_threads(1)
    try:
        with _libraries(len(sys.modules)).limit(limits=1):
            yield
    finally:
        torch.set_num_threads(threads)
        _is_limited.reset(token)


_is_limited = ContextVar("whether all of it runs on one thread", default=False)


class OneThreadOfNumpy:
    """Context in which numpy and scipy compute on one thread; torch keeps its number, as its operations are larger.

    OpenBLAS splits a product of 10,000 numbers, or the factorisation of a small matrix, over all cores, and its threads
    wait for the next: a search that makes thousands of them between two operations of torch takes two to five times its
    time where another process uses a core. Contexts may overlap in several threads: the last one ends the limit.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                libraries = _libraries(len(sys.modules)).select(internal_api="openblas")
                self._limit = libraries.limit(limits=1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


one_thread_of_numpy = OneThreadOfNumpy()


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries of linear algebra, which come with modules: to look for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  brings one of its own, whose threads would wait for work while others compute

    return ThreadpoolController()


def in_threads(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """`map` with up to `jobs` threads; with more than one, each is `one_thread`, with the caller's context variables.

    Torch, numpy and scikit-learn let go of the interpreter while they compute.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs) as pool, one_thread():
        pieces = [(copy_context(), item) for item in items]
        yield from pool.map(lambda piece: piece[0].run(work, piece[1]), pieces)

"""Few draws for the floors of calibration errors: with all, they take half the time of a test's short run.

Importing this module takes few, so that processes which find it imported do (`tests.warm`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calibench.metrics import LipschitzCalibrationError, SmoothCalibrationError
from calibench.metrics.bins import ErrorOfCells
from calibench.metrics.smoothing import SmoothError

FEW = 9
_ALL = {
    cls: cls.draws
    for cls in (ErrorOfCells, SmoothError, SmoothCalibrationError, LipschitzCalibrationError)
}


@contextmanager
def all_draws() -> Iterator[None]:
    """As many as users have, inside."""
    for metric, draws in _ALL.items():
        metric.draws = draws
    try:
        yield
    finally:
        _take_few()


@contextmanager
def few_draws() -> Iterator[None]:
    """Few inside, where a module has as many as users have."""
    _take_few()
    try:
        yield
    finally:
        for metric, draws in _ALL.items():
            metric.draws = draws


def _take_few() -> None:
    for metric in _ALL:
        metric.draws = FEW


_take_few()

"""What a fit warns of, and where these warnings are silenced: in one thread, while others go on as they are."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class ConvergenceWarning(RuntimeWarning):
    """An optimiser failed: the calibrator keeps what had been reached, which is not the optimum."""


class FewExamplesWarning(UserWarning):
    """Parameters outnumber the examples, or a class with parameters of its own has fewer than five."""


class BoundWarning(UserWarning):
    """A fit ended at a bound of what it may find, a temperature of 0.01 say: its optimum lies beyond."""


ALL_FIT_WARNINGS = (BoundWarning, ConvergenceWarning, FewExamplesWarning)

_silent: ContextVar[tuple[type[Warning], ...]] = ContextVar("silent warnings", default=())


@contextmanager
def silence_fits(*categories: type[Warning]) -> Iterator[None]:
    """Let fits go without warnings of these categories, of all that there are if none is named.

    `warnings.catch_warnings` changes the filters of the whole process: threads that fit side by side and leave it in
    another order than they came would warn of what is silenced, and stay silent afterwards.
    """
    token = _silent.set(_silent.get() + (categories or ALL_FIT_WARNINGS))
    try:
        yield
    finally:
        _silent.reset(token)


def warn_of_fit(text: str, category: type[Warning], stacklevel: int) -> None:
    """`warnings.warn`, unless the category is silenced here."""
    if not issubclass(category, _silent.get()):
        warnings.warn(text, category, stacklevel=stacklevel + 1)


def warn_unless_converged(measure: str, value: float, tolerance: float = 1e-5) -> None:
    """Warn unless a measure of the distance from an optimum is small; NaN is not.

    An optimiser also reports failure where only rounding keeps it from going on, so its word does not decide.
    """
    if not value <= tolerance:
        text = f"A fit ended before its optimum: {measure} is {value:.1e}, above {tolerance:.0e}."
        warn_of_fit(text, ConvergenceWarning, stacklevel=3)

"""Warnings of fits: one that ended before its optimum, and one with too few examples for its parameters."""

from __future__ import annotations

import warnings


class ConvergenceWarning(RuntimeWarning):
    """An optimiser failed: the calibrator keeps what had been reached, which is not the optimum."""


class FewExamplesWarning(UserWarning):
    """Parameters outnumber the examples, or a class that has its own is absent: another form is for so few."""


def warn_unless_converged(measure: str, value: float, tolerance: float = 1e-5) -> None:
    """Warn unless a measure of the distance from an optimum is small.

    An optimiser also reports failure where only rounding keeps it from going on, so its word does not decide.

    Args:
        measure: What `value` is, for the message.
        value: Zero at the optimum; NaN counts as far from it.
        tolerance: Up to here the optimum counts as found.
    """
    if not value <= tolerance:
        warnings.warn(
            f"A fit ended before its optimum: {measure} is {value:.1e}, above {tolerance:.0e}.",
            ConvergenceWarning,
            stacklevel=3,
        )

"""The metrics of every run: their classes, by which streams of batches are scored, and their formulas of a whole set.

Files are scored by the formulas, since to import torchmetrics takes several seconds; a test holds the two to the same
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibench.metrics.cells import ErrorOfCells
from calibench.metrics.classwise_error import ClasswiseError
from calibench.metrics.equal_mass_error import CUTS, EqualMassError
from calibench.metrics.equal_width_error import EqualWidthError
from calibench.metrics.smooth_error import SmoothError

BINNED = {"adaptive_ece": EqualMassError, "classwise_ece": ClasswiseError, "ece": EqualWidthError}

Formula = tuple[str, int | None, ErrorOfCells]
"""Name, number of bins if it has any, and formula of a calibration error."""


def errors(n_bins: Sequence[int]) -> Iterator[Formula]:
    """The calibration errors of the panel."""
    for name, formula in BINNED.items():
        yield from ((name, number, formula(number)) for number in n_bins)
    yield "smooth_ece", None, SmoothError()


def errors_as_coded(n_bins: Sequence[int]) -> Iterator[Formula]:
    """The binned errors whose public code (Mukhoti et al. 2020, which papers copy) is not their formula."""
    for number in n_bins:
        yield "adaptive_ece_reference", number, EqualMassError(number, CUTS["reference"])
        yield "classwise_ece_reference", number, ClasswiseError(number, reference=True)

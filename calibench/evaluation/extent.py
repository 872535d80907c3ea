"""Extent of an evaluation: which of its numbers are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from calibench.tables.metric_titles import HEADLINE

if TYPE_CHECKING:  # it imports torch
    from calibench.evaluation.floors import Claims

Numbers = Literal["every", "printed", "headline"]


@dataclass(frozen=True)
class Extent:
    """How much of an evaluation is computed: the one value that decides it, from a verb down to a metric.

    Attributes:
        numbers: "every": also what no table of an evaluation shows, which is numbers of the validation set (calibrators
            are fitted on it anyway), of further numbers of bins, and intervals of the parts of the raw NLL; "printed":
            what the tables show; "headline": the few metrics of a single test set, without the parts of its NLL.
        verdicts: Whether the calibration of each labelled set, raw and after each calibrator, is judged.
        draws: Calibrated models that are drawn for a floor at most; a thousand if None.
        claims: Claimed numbers of all sets, raw and after each calibrator: no more is drawn for a verdict than proves
            the claimed one.
    """

    numbers: Numbers = "every"
    verdicts: bool = False
    draws: int | None = None
    claims: Claims | None = None

    @property
    def has_unprinted(self) -> bool:
        """Whether numbers are computed that no table of an evaluation shows."""
        return self.numbers == "every"

    @property
    def panel(self) -> Sequence[str] | None:
        """The metrics of every run that are computed; all, and the parts of the raw NLL, if None."""
        return HEADLINE if self.numbers == "headline" else None

    def select_bins(self, n_bins: Sequence[int]) -> list[int]:
        """The numbers of bins that are computed, of those that were given: tables show the first."""
        return list(n_bins if self.has_unprinted else n_bins[:1])


EVERY_NUMBER = Extent()
"""What a run keeps in its file."""

"""Histogram binning (Zadrozny & Elkan 2001)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators.one_vs_rest import WeightedOneVsRest
from calibench.ground.arguments import non_negative, one_of, positive_integer
from calibench.ground.binning import equal_mass_ends, equal_width_edges


def inner_width_edges(score: Tensor, n_bins: int) -> Tensor:
    """Inner edges of equal-width bins of [0, 1], (n_bins - 1,)."""
    return equal_width_edges(n_bins, dtype=score.dtype)[1:-1]


def midway_mass_edges(score: Tensor, n_bins: int) -> Tensor:
    """Inner edges midway between equal parts of the sorted scores; a bin within a tie is empty."""
    ordered, ends = score.sort().values, equal_mass_ends(len(score), n_bins)
    inner = ends[ends < len(score)]
    return (ordered[inner - 1] + ordered[inner]) / 2


EDGES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "equal_width": inner_width_edges,
    "equal_mass": midway_mass_edges,
}


class HistogramBinning(WeightedOneVsRest):
    """Histogram binning of each class against the rest (Zadrozny & Elkan 2001).

    The calibrated p_k is the frequency of class k in the bin of p_k; rows are normalised. A bin
    that saw no example gives 0, as in the code of Guo et al. (2017) (others use its midpoint).
    Without `shrinkage` exact zeros stay (log-probability -inf) unless `smoothing` is positive. Bins of equal mass hold
    equally many examples, whatever these weigh.

    Args:
        n_bins: Number of right-closed bins, (lower, upper].
        mode: `"equal_width"` bins of [0, 1], or `"equal_mass"` bins of each class's scores.
        smoothing: Added to a bin's hits and to its misses (Laplace); 0 is the method as published.
        shrinkage: As for `Calibrator`.

    Raises:
        ValueError: If an argument is out of its range or `mode` is unknown.
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        mode: Literal["equal_width", "equal_mass"] = "equal_width",
        smoothing: float = 0.0,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        non_negative("smoothing", smoothing)
        one_of("mode", mode, EDGES)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.mode = mode
        self.smoothing = smoothing

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        edges = EDGES[self.mode](score, self.n_bins)
        bins = torch.bucketize(score, edges)
        count = bins.bincount(share, minlength=len(edges) + 1)
        hits = bins[hit].bincount(share[hit], minlength=len(edges) + 1)
        total = count + 2 * self.smoothing
        frequency = (hits + self.smoothing) / total
        return edges, torch.where(total > 0, frequency, 0.0)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots)]

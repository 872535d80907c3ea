"""Equal-width and equal-mass bins: the only ones of this package.

Bins are right-closed, (lower, upper], and the first one also contains its lower edge, so confidence
0 and confidence 1 both belong to real bins. Equal values are always in one bin. `equal_width_bin`
and `equal_mass_bin` give the bin of each value, as the metrics have it; `equal_mass_cuts` gives the
same equal-mass bins as positions in sorted values. What public code does otherwise has a name that
says so (`reference_mass_cuts`, `order_statistic_cuts`).
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from calibench.tensors.arrays import Floats, Integers

_FEW_BINS = 64


def equal_width_edges(
    n_bins: int, *, dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> Tensor:
    """Edges k / n_bins of equal-width bins of [0, 1], (n_bins + 1,): float64 quotients rounded to float32."""
    edges = torch.arange(n_bins + 1, dtype=torch.float64) / n_bins
    return edges.float().to(device, dtype)


def equal_width_bin(values: Tensor, n_bins: int) -> Tensor:
    """Index of the right-closed equal-width bin of [0, 1] of each value; any shape, int64.

    Values and edges are compared in float32, whatever the type of the values: decimals lie where exact arithmetic puts
    them (0.7 on the edge 7 / 10, as a float64, as a float32 and as 1 - 0.3), and softmax outputs in float32 where the
    reference code of the calibration literature puts them. What is summed in a bin keeps its own precision.
    """
    if values.device.type == "cpu" and n_bins <= _FEW_BINS:
        return torch.from_numpy(equal_width_bin_of_array(values.detach().float().numpy(), n_bins))
    edges = equal_width_edges(n_bins, dtype=torch.float32, device=values.device)
    return torch.bucketize(values.float().contiguous(), edges[1:-1])


def equal_width_bin_of_array(values: Floats, n_bins: int) -> Integers:
    """`equal_width_bin` of a floating array of numpy; int64."""
    return places_among_edges(values.astype(np.float32, copy=False), _inner_edges(n_bins))


def cut_equal_width(ordered: Floats, n_bins: int) -> Integers:
    """Positions 0, ..., N at which sorted float32 values (N,) are cut into equal-width bins, (n_bins + 1,)."""
    inner = np.searchsorted(ordered, _inner_edges(n_bins), side="right")
    return np.concatenate([[0], inner, [len(ordered)]])


def cut_distinct(ordered: Floats | Integers) -> Integers:
    """Positions 0, ..., N at which sorted values (N,), N >= 1, are cut into equal ones."""
    return np.concatenate([[0], np.flatnonzero(ordered[1:] > ordered[:-1]) + 1, [len(ordered)]])


def places_among_edges(values: Floats, edges: Floats, *, right: bool = False) -> Integers:
    """Numbers of ascending edges below each value, with `right` also of those equal to it; NaN is above all; int64.

    Few edges are compared with all values, one after the other: several times as fast as a search for each value.
    """
    if len(edges) >= _FEW_BINS:
        places: Integers = edges.searchsorted(values, side="right" if right else "left")
        return places
    above, is_above = np.zeros(values.shape, np.uint8), np.less if right else np.less_equal
    for edge in edges:
        above += is_above(values, edge).view(np.uint8)
    return np.subtract(len(edges), above, dtype=np.int64)


def first_inner_edge(n_bins: int) -> float:
    """The edge above which values do not lie in the first of equal-width bins of [0, 1]; 1 of one bin."""
    return float(next(iter(_inner_edges(n_bins)), 1.0))


@lru_cache(maxsize=64)
def _inner_edges(n_bins: int) -> Floats:
    edges: Floats = equal_width_edges(n_bins, dtype=torch.float32)[1:-1].numpy()
    return edges


def equal_mass_ends(n: int, n_bins: int) -> Tensor:
    """Where pieces of nearly equal length of n sorted values end, the longer ones first: `numpy.array_split`.

    Returns:
        Ends in 0 ... n, (n_bins,) int64; those of the last pieces are n where n < n_bins.
    """
    size, larger = divmod(n, n_bins)
    bins = torch.arange(1, n_bins + 1)
    return bins * size + bins.clamp(max=larger)


def equal_mass_bin(values: Tensor, n_bins: int) -> Tensor:
    """Index of the equal-mass bin of each value among all of them, (N,) -> (N,) int64.

    The bins are those of `equal_mass_cuts`: equal values that a cut would split lie in the
    bin in which they begin, and bins that they fill hold nothing.
    """
    if len(values) == 0:
        return torch.zeros(0, dtype=torch.int64, device=values.device)
    ordered = values.sort().values
    upper_edges = ordered[equal_mass_ends(len(values), n_bins).to(values.device) - 1]
    return torch.searchsorted(upper_edges, values)


def equal_mass_cuts(ordered: Tensor, n_bins: int) -> list[int]:
    """Cut sorted values (N,) into at most `n_bins` pieces of nearly equal length that split no tie.

    A cut of `equal_mass_ends` that falls between equal values moves up to the last of them (so do
    the bins of Kumar et al. 2019's code).

    Returns:
        Positions 0 = c_0 <= c_1 <= ... = N; bin b holds `ordered[c_b:c_{b+1}]`, perhaps nothing.
    """
    if len(ordered) == 0:
        return [0, 0]
    ends = equal_mass_ends(len(ordered), n_bins).to(ordered.device)
    cuts = torch.searchsorted(ordered, ordered[ends - 1], right=True)
    return [0, *cuts.tolist()]


def order_statistic_cuts(ordered: Tensor, n_bins: int) -> list[int]:
    """The bins of MDCA's ACE code (Hebbalaguppe et al. 2022), as positions in sorted values (N,).

    Edges are the order statistics k (N // n_bins), k = 0 ... n_bins - 1, and 1; bins are (lower,
    upper], so what equals the smallest value lies before the first cut.
    """
    n, device = len(ordered), ordered.device
    if n == 0:
        return [0, 0]
    edges = ordered[torch.arange(n_bins, device=device) * (n // n_bins)]
    cuts = torch.searchsorted(ordered, edges, right=True)
    return [*cuts.tolist(), n]


def reference_mass_edges(ordered: Tensor, n_bins: int) -> Tensor:
    """The edges of Mukhoti et al. 2020's AdaECE code for sorted values (N,), N >= 1.

    numpy.interp(numpy.linspace(0, N, n_bins + 1), numpy.arange(N), ordered): linear between order
    statistics; the first is the smallest value and the last the largest.

    Returns:
        The edges, (n_bins + 1,) float64.
    """
    last = len(ordered) - 1
    position = torch.arange(n_bins + 1, dtype=torch.float64, device=ordered.device)
    position = (position * (len(ordered) / n_bins)).clamp(max=last)
    below = position.long()
    lower, upper = ordered[below].double(), ordered[(below + 1).clamp(max=last)].double()
    return lower + (upper - lower) * (position - below)


def reference_mass_cuts(ordered: Tensor, n_bins: int) -> list[int]:
    """The bins of Mukhoti et al. 2020's AdaECE code, as positions in sorted values (N,).

    Bins are (lower, upper] between `reference_mass_edges` held in the values' dtype, so what equals
    the smallest value lies before the first cut.
    """
    if len(ordered) == 0:
        return [0, 0]
    edges = reference_mass_edges(ordered, n_bins).to(ordered.dtype)
    cuts: list[int] = torch.searchsorted(ordered, edges, right=True).tolist()
    return cuts

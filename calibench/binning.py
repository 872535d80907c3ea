"""Equal-width and equal-mass bins as tensor functions, for metrics, calibrators and adaptive losses.

Bins are right-closed, (lower, upper], and the first one also contains its lower edge, so confidence 0
and confidence 1 both belong to real bins.
"""

from __future__ import annotations

import torch
from torch import Tensor


def check_n_bins(n_bins: int) -> int:
    """Return `n_bins` or raise a ValueError if it is not a positive integer."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 1:
        raise ValueError(f"`n_bins` must be a positive integer, got {n_bins!r}.")
    return n_bins


def equal_width_bin(values: Tensor, n_bins: int) -> Tensor:
    """Index of the right-closed equal-width bin of [0, 1] of each value; any shape, int64.

    The edges are those of `torch.linspace(0, 1, n_bins + 1)` in float32, as in the reference code of the
    calibration literature, so a value that lies on an edge falls where the published numbers put it.
    """
    edges = torch.linspace(0, 1, n_bins + 1, dtype=torch.float32, device=values.device)
    inner = edges[1:-1].to(torch.promote_types(values.dtype, torch.float32))
    return torch.bucketize(values.to(inner.dtype), inner)

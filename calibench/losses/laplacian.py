"""Sums over all pairs of a batch with a Laplacian kernel, in O(N log N)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

NARROWEST = 0.01  # exp(0.5 / width), the largest factor below, must stay far from float32's limit


def laplacian_sums(position: Tensor, values: Tensor, *, width: float) -> Tensor:
    """Laplacian kernel sums of `values` at every position, sum_j exp(-|s_i - s_j| / width) v_cj.

    The kernel is exp(-s_i / width) exp(s_j / width) for s_j <= s_i and the mirror image above, so
    the sum over all j is two running sums over the sorted positions.

    At equal positions it is differentiated as on one side; in sums over all pairs, sum_ij v_i k_ij
    v_j, the two sides cancel, and the kernel's derivative is 0 there as autograd has it for |0|.

    Args:
        position: s, shape (N,), in [0, 1].
        values: v, shape (C, N).
        width: Kernel width, at least 0.01.

    Returns:
        The sums, shape (C, N).
    """
    ordered, order = (position - 0.5).sort()
    values = values[:, order]
    rise, fall = torch.exp(ordered / width), torch.exp(-ordered / width)
    rising = F.pad((values * rise).cumsum(dim=1), (1, 0))
    falling = F.pad((values * fall).flip(1).cumsum(dim=1), (1, 0)).flip(1)
    up_to = torch.searchsorted(ordered.detach(), ordered.detach(), right=True)  # ties included
    return (fall * rising[:, up_to] + rise * falling[:, up_to])[:, order.argsort()]

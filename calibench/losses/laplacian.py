"""Sums over all pairs of a batch with a Laplacian kernel, in O(N log N)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

NARROWEST = 0.01  # exp(0.5 / width), the largest factor below, must stay far from float32's limit


def laplacian_sums(position: Tensor, values: Tensor, *, width: float) -> tuple[Tensor, Tensor]:
    """Kernel sums of `values` at every position, and how they change along it.

    k_ij = exp(-|s_i - s_j| / width) is exp(-s_i / width) exp(s_j / width) for s_j <= s_i and the
    mirror image above, so the sum over all j is two running sums over the sorted positions.

    Args:
        position: s, shape (N,), in [0, 1].
        values: v, shape (C, N).
        width: Kernel width, at least 0.01.

    Returns:
        sum_j k_ij v_cj, and its derivative by s_i with the values held constant; (C, N) each. At
        equal positions the kernel's derivative is taken as 0, as autograd does for |0|.
    """
    ordered, order = (position - 0.5).sort()
    values = values.index_select(1, order)
    rise = torch.exp(ordered / width)
    fall = rise.reciprocal()
    rising = F.pad(torch.cumsum(values * rise, dim=1), (1, 0))
    falling = F.pad(torch.cumsum((values * fall).flip(1), dim=1), (1, 0)).flip(1)
    below = torch.searchsorted(ordered, ordered)  # how many lie strictly below
    up_to = torch.searchsorted(ordered, ordered, right=True)
    above = rise * falling.index_select(1, up_to)
    total = fall * rising.index_select(1, up_to) + above
    slope = (above - fall * rising.index_select(1, below)) / width
    index = order.expand_as(total)
    return torch.empty_like(total).scatter_(1, index, total), slope.scatter(1, index, slope)


def kernel_energy(
    position: Tensor, values: Tensor, rates: Tensor, mixing: Tensor, *, width: float
) -> tuple[Tensor, Tensor]:
    """sum_ij k_ij v_i' M v_j of a symmetric M, with its derivative by the positions.

    Args:
        position: s, shape (N,), in [0, 1].
        values: v as functions of their own position, shape (C, N).
        rates: The derivative of each value by its position, shape (C, N).
        mixing: M, shape (C, C).
        width: Kernel width, at least 0.01.

    Returns:
        The energy, (), and its derivative by each position, (N,).
    """
    sums = torch.stack(laplacian_sums(position, values, width=width), dim=1)
    # no matrix product: autocast and TF32 would round it
    total, slope = (mixing[:, :, None, None] * sums).sum(dim=1).unbind(dim=1)
    return (values * total).sum(), 2 * (rates * total + values * slope).sum(dim=0)

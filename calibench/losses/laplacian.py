"""Sums over all pairs of a batch with a Laplacian kernel, in O(N log N)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

NARROWEST = 0.01  # exp(0.5 / width), the largest factor below, must stay far from float32's limit


class _Scan:
    """Kernel sums from the left and from the right over positions sorted once.

    exp(-|s_i - s_j| / width) is exp(-s_i / width) exp(s_j / width) for s_j <= s_i and the mirror
    image above, so the sum over all j is two running sums.
    """

    def __init__(self, position: Tensor, width: float) -> None:
        ordered, self.order = (position - 0.5).sort()
        self.place = torch.empty_like(self.order).scatter_(
            0, self.order, torch.arange(len(position), device=position.device)
        )
        self.rise = torch.exp(ordered / width)
        self.fall = self.rise.reciprocal()
        self.below = torch.searchsorted(ordered, ordered)  # how many lie strictly below
        self.up_to = torch.searchsorted(ordered, ordered, right=True)

    def total_and_tilt(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """sum_j k_ij v_j and sum_j sign(s_i - s_j) k_ij v_j: (C, N) -> (C, N) and (C, N).

        In the second, equal positions count 0.
        """
        ordered = values.index_select(1, self.order)
        rising = F.pad(torch.cumsum(ordered * self.rise, dim=1), (1, 0))
        falling = F.pad(torch.cumsum((ordered * self.fall).flip(1), dim=1), (1, 0)).flip(1)
        above = self.rise * falling.index_select(1, self.up_to)
        below = self.fall * rising.index_select(1, self.below)
        up_to = self.fall * rising.index_select(1, self.up_to)
        return (up_to + above).index_select(1, self.place), (below - above).index_select(
            1, self.place
        )


class _LaplacianProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, position: Tensor, values: Tensor, width: float) -> Tensor:
        scan = _Scan(position, width)
        total, tilt = scan.total_and_tilt(values)
        ctx.scan, ctx.width = scan, width
        ctx.save_for_backward(values, tilt)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        values, tilt = ctx.saved_tensors
        grad_total, grad_tilt = ctx.scan.total_and_tilt(grad)
        slope = grad * tilt + values * grad_tilt
        return slope.sum(dim=0) / -ctx.width, grad_total, None


def laplacian_product(position: Tensor, values: Tensor, *, width: float) -> Tensor:
    """sum_j exp(-|s_i - s_j| / width) v_cj for every i, without the N x N matrix.

    Equal to the matrix product, gradient included (at equal positions the kernel's derivative is
    taken as 0, as autograd does for |0|). Differentiable once.

    Args:
        position: s, shape (N,), in [0, 1].
        values: v, shape (C, N).
        width: Kernel width, at least 0.01.

    Returns:
        Shape (C, N).
    """
    product: Tensor = _LaplacianProduct.apply(  # type: ignore[no-untyped-call]
        position, values, width
    )
    return product

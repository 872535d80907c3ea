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

    exp(-|s_i - s_j| / width) splits into exp(-s_i / width) exp(s_j / width) for s_j <= s_i and its
    mirror image, so a sum over all j is two running sums.
    """

    def __init__(self, position: Tensor, width: float) -> None:
        centred = position - 0.5
        self.order = centred.argsort()
        ordered = centred[self.order]
        self.rise, self.fall = torch.exp(ordered / width), torch.exp(-ordered / width)
        self.below = torch.searchsorted(ordered, ordered)  # how many lie strictly below
        self.up_to = torch.searchsorted(ordered, ordered, right=True)

    def _from_left(self, values: Tensor, end: Tensor) -> Tensor:
        running = F.pad(torch.cumsum(values * self.rise, dim=1), (1, 0))
        return self.fall * running[:, end]

    def _from_right(self, values: Tensor) -> Tensor:
        running = F.pad(torch.cumsum((values * self.fall).flip(1), dim=1), (1, 0)).flip(1)
        return self.rise * running[:, self.up_to]

    def total(self, values: Tensor) -> Tensor:
        """sum_j k_ij v_j: (C, N) -> (C, N)."""
        ordered = values[:, self.order]
        return self._back(self._from_left(ordered, self.up_to) + self._from_right(ordered))

    def tilt(self, values: Tensor) -> Tensor:
        """sum_j sign(s_i - s_j) k_ij v_j: (C, N) -> (C, N); equal positions count 0."""
        ordered = values[:, self.order]
        return self._back(self._from_left(ordered, self.below) - self._from_right(ordered))

    def _back(self, ordered: Tensor) -> Tensor:
        original: Tensor = torch.empty_like(ordered).index_copy_(1, self.order, ordered)
        return original


class _LaplacianProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, position: Tensor, values: Tensor, width: float) -> Tensor:
        scan = _Scan(position, width)
        ctx.scan, ctx.width = scan, width
        ctx.save_for_backward(values)
        return scan.total(values)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (values,) = ctx.saved_tensors
        slope = grad * ctx.scan.tilt(values) + values * ctx.scan.tilt(grad)
        return -slope.sum(dim=0) / ctx.width, ctx.scan.total(grad), None


def laplacian_product(position: Tensor, values: Tensor, *, width: float) -> Tensor:
    """sum_j exp(-|s_i - s_j| / width) v_cj for every i, without the N x N matrix.

    Equal to the matrix product, gradient included (at equal positions the kernel's derivative is
    taken as 0, as autograd does for |0|). Not differentiable twice.

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

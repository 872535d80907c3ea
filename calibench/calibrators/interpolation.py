"""Piecewise linear interpolation between knots."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def padded(rows: list[Tensor], fill: float | None = None, minimum: int = 0) -> Tensor:
    """Stack 1-D tensors of different lengths, filled up with `fill` or with their last entry."""
    width = max(minimum, *(len(row) for row in rows))
    fills = [row[-1].item() if fill is None else fill for row in rows]
    return torch.stack(
        [F.pad(row, (0, width - len(row)), value=end) for row, end in zip(rows, fills, strict=True)]
    )


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear function through (knots, values), constant outside, at `x` of any shape.

    Args:
        x: Where to evaluate.
        knots: Strictly increasing, (M,), M >= 2; trailing inf entries are padding.
        values: Function values at the knots, (M,), the last one repeated on the padding.
    """
    right = torch.bucketize(x, knots, right=True).clamp(1, len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    share = ((x - low) / (high - low)).clamp(0, 1)
    return torch.lerp(values[right - 1], values[right], share)

"""Generated corruptions, with the constants of CIFAR-10-C (Hendrycks and Dietterich 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

GAUSSIAN_NOISE_STD = (0.04, 0.06, 0.08, 0.09, 0.10)  # severities 1 to 5, on the [0, 1] scale


def gaussian_noise(images: Tensor, *, severity: int, seed: int) -> Tensor:
    """Add clipped Gaussian noise.

    The official archive draws from an unseeded generator, so its pixels cannot be repeated; its
    distribution can.

    Args:
        images: Values in [0, 1], any shape.
        severity: 1 to 5.
        seed: What the noise is drawn from.

    Raises:
        ValueError: `severity` is not one of 1 to 5.
    """
    if severity not in range(1, 6):
        raise ValueError(f"`severity` must be 1 to 5, got {severity}.")
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator) * GAUSSIAN_NOISE_STD[severity - 1]
    return (images + noise).clamp(0, 1)

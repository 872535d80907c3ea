"""Kernel sums in O(N log N) against the N x N matrix."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from calibench.losses.laplacian import kernel_energy, laplacian_sums

POSITIONS = {
    "distinct": torch.rand(50, dtype=torch.float64),
    "ties": torch.randint(5, (50,)).double() / 4,
    "equal": torch.ones(50, dtype=torch.float64),
    "ends": torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5], dtype=torch.float64),
    "one": torch.tensor([0.3], dtype=torch.float64),
}


def matrix(position: Tensor, width: float) -> Tensor:
    return torch.exp(-(position[:, None] - position).abs() / width)


@pytest.mark.parametrize("width", [0.01, 0.4, 10.0])
@pytest.mark.parametrize("kind", POSITIONS)
def test_sums_and_their_slopes(kind: str, width: float) -> None:
    position = POSITIONS[kind]
    values = torch.randn(2, len(position), dtype=torch.float64)
    total, slope = laplacian_sums(position, values, width=width)
    kernel = matrix(position, width)
    tilt = -(position[:, None] - position).sign() * kernel / width
    torch.testing.assert_close(total, values @ kernel, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slope, values @ tilt.T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", POSITIONS)
def test_energy_and_its_slope(kind: str) -> None:
    position = POSITIONS[kind].clone().requires_grad_()
    mixing = torch.tensor([[1.5, -0.7], [-0.7, 0.2]], dtype=torch.float64)
    values = torch.stack([position.sin(), 1 - 3 * position])
    rates = torch.stack([position.cos(), torch.full_like(position, -3.0)])
    expected = (mixing * (values @ matrix(position, 0.4) @ values.T)).sum()
    (by_position,) = torch.autograd.grad(expected, position)
    with torch.no_grad():
        energy, slope = kernel_energy(position, values, rates, mixing, width=0.4)
    torch.testing.assert_close(energy, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slope, by_position, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("width", [0.01, 0.4])
def test_float32(width: float) -> None:
    position, values = torch.rand(2000), torch.randn(1, 2000)
    ours, _ = laplacian_sums(position, values, width=width)
    kernel = matrix(position.double(), width)
    scale = values.abs().double() @ kernel
    assert ((ours - values.double() @ kernel).abs() / scale).max() < 2e-6


def test_a_million_pairs_squared_is_no_matrix() -> None:
    """N = 200,000 would be a matrix of 160 GB."""
    position, values = torch.rand(200_000), torch.ones(1, 200_000)
    start = time.process_time()
    laplacian_sums(position, values, width=0.4)
    assert time.process_time() - start < 20

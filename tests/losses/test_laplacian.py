"""Kernel sums in O(N log N) against the N x N matrix."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from calibench.losses.laplacian import laplacian_product


def matrix_product(position: Tensor, values: Tensor, width: float) -> Tensor:
    return values @ torch.exp(-(position[:, None] - position).abs() / width)


@pytest.mark.parametrize("width", [0.01, 0.4, 10.0])
@pytest.mark.parametrize("kind", ["distinct", "ties", "equal", "ends", "one"])
def test_value_and_gradient(kind: str, width: float) -> None:
    position = (
        {
            "distinct": torch.rand(50, dtype=torch.float64),
            "ties": torch.randint(5, (50,)) / 4.0,
            "equal": torch.full((50,), 1.0),
            "ends": torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5]),
            "one": torch.tensor([0.3]),
        }[kind]
        .double()
        .requires_grad_()
    )
    values = torch.randn(2, len(position), dtype=torch.float64, requires_grad=True)
    ours = laplacian_product(position, values, width=width)
    expected = matrix_product(position, values, width)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    along = torch.randn_like(ours)
    got = torch.autograd.grad(ours, (position, values), along)
    wanted = torch.autograd.grad(expected, (position, values), along)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_gradcheck() -> None:
    position = torch.rand(8, dtype=torch.float64, requires_grad=True)
    values = torch.randn(1, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s, v: laplacian_product(s, v, width=0.2), (position, values)
    )


@pytest.mark.parametrize("width", [0.01, 0.4])
def test_float32(width: float) -> None:
    position, values = torch.rand(2000), torch.randn(1, 2000)
    ours = laplacian_product(position, values, width=width)
    exact = matrix_product(position.double(), values.double(), width)
    scale = matrix_product(position.double(), values.abs().double(), width)
    assert ((ours - exact).abs() / scale).max() < 2e-6


def test_a_million_pairs_squared_is_no_matrix() -> None:
    """N = 200,000 would be a matrix of 160 GB."""
    position, values = torch.rand(200_000).requires_grad_(), torch.ones(1, 200_000)
    start = time.process_time()
    laplacian_product(position, values, width=0.4).sum().backward()
    assert time.process_time() - start < 20

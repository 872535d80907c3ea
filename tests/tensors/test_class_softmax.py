"""Softmax over few classes takes another path, with torch's values and gradients."""

from __future__ import annotations

import pytest
import torch

from calibench.tensors import class_softmax


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("k", [2, 15, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_torch(name: str, k: int, dtype: torch.dtype) -> None:
    logits = 9 * torch.randn(40, k, dtype=dtype, generator=torch.Generator().manual_seed(k))
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    values, expected = (
        getattr(class_softmax, f"{name}_over_classes")(ours),
        getattr(torch, name)(theirs, 1),
    )
    torch.testing.assert_close(values, expected)
    assert values.is_contiguous()
    for result in (values, expected):
        result.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)

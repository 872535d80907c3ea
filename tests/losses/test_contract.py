"""What every exported loss promises, whatever it computes."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor

import calibench.losses
from calibench.losses import CalibrationLoss

REQUIRED = {"gamma": 2.0}

CLASSES = [
    value
    for name in calibench.losses.__all__
    if inspect.isclass(value := getattr(calibench.losses, name)) and not inspect.isabstract(value)
]


def build(cls: type[CalibrationLoss]) -> CalibrationLoss:
    """The loss with its defaults, and a plain value for each argument that has none."""
    parameters = inspect.signature(cls).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    return cls(**{name: REQUIRED[name] for name in needed})


@pytest.fixture(params=CLASSES, ids=lambda cls: cls.__name__)
def loss(request: pytest.FixtureRequest) -> CalibrationLoss:
    return build(request.param)


def batch(n: int = 24, k: int = 6, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n * 1000 + k)
    logits = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(k, (n,), generator=generator)


def value_and_grad(loss: CalibrationLoss, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


def test_names_are_sorted_and_exist() -> None:
    names = calibench.losses.__all__
    assert names == sorted(names, key=lambda name: (not name[0].isupper(), name))
    assert all(hasattr(calibench.losses, name) for name in names)


def test_value_is_a_scalar_with_gradient(loss: CalibrationLoss) -> None:
    value, grad = value_and_grad(loss, *batch())
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert grad.abs().sum() > 0


def test_adding_a_constant_to_a_row_changes_nothing(loss: CalibrationLoss) -> None:
    logits, target = batch()
    shifted = logits + 10 * torch.randn(len(logits), 1, dtype=torch.float64)
    torch.testing.assert_close(loss(shifted, target), loss(logits, target), rtol=1e-10, atol=1e-12)


def test_permuting_the_batch_permutes_the_gradient(loss: CalibrationLoss) -> None:
    logits, target = batch()
    order = torch.randperm(len(target))
    value, grad = value_and_grad(loss, logits, target)
    value_p, grad_p = value_and_grad(loss, logits[order], target[order])
    torch.testing.assert_close(value_p, value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(grad_p, grad[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_finite_where_the_logits_saturate(loss: CalibrationLoss, scale: float) -> None:
    logits, target = batch(dtype=torch.float32)
    for rows in (logits.sign() * scale, logits / logits.abs().amax() * scale):
        value, grad = value_and_grad(loss, rows, target)
        assert value.isfinite()
        assert grad.isfinite().all()


def test_bfloat16_is_computed_in_float32(loss: CalibrationLoss) -> None:
    logits, target = batch(dtype=torch.bfloat16)
    expected, _ = value_and_grad(loss, logits.float(), target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, grad = value_and_grad(loss, logits, target)
    assert value.dtype == torch.float32
    assert grad.dtype == torch.bfloat16
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)


TWO = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        (torch.zeros(2), TWO, ValueError, "`logits` must have the shape"),
        (torch.zeros(2, 1), TWO, ValueError, "K >= 2"),
        (torch.zeros(2, 4, dtype=torch.int64), TWO, TypeError, "must be floating point"),
        (torch.zeros(2, 4), TWO.float(), TypeError, "`target` must hold class indices"),
        (torch.zeros(3, 4), TWO, ValueError, r"must have the shape \(3,\)"),
        (torch.zeros(0, 4), TWO[:0], ValueError, "at least one example"),
        (torch.zeros(2, 4), TWO + 3, ValueError, r"lie in \[0, 4\), got values from 3 to 4"),
        (torch.zeros(2, 4), TWO - 1, ValueError, "got values from -1 to 0"),
        (torch.tensor([[0.0, torch.nan], [0.0, 1.0]]), TWO, ValueError, "1 of 2 rows"),
    ],
)
def test_bad_batches_are_named(
    loss: CalibrationLoss, logits: Tensor, target: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loss(logits, target)


def test_arguments_are_keyword_only(loss: CalibrationLoss) -> None:
    parameters = inspect.signature(type(loss)).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)


def test_docstring_is_one_short_line_with_its_source(loss: CalibrationLoss) -> None:
    first = (type(loss).__doc__ or "").splitlines()[0]
    assert len(first) <= 95
    assert first.endswith(").")

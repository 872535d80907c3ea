"""What every exported loss promises, whatever it computes."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import Tensor, nn

import calibench.losses
from calibench.losses import CalibrationLoss
from tests.losses.examples import (
    K,
    batch,
    exported_classes,
    fresh_losses,
    live,
    live_losses,
    value_and_grad,
)

NAMES = list(fresh_losses())


@pytest.fixture(params=NAMES)
def loss(request: pytest.FixtureRequest) -> CalibrationLoss:
    return live(fresh_losses()[request.param])


def test_names_are_sorted_and_exist() -> None:
    names = calibench.losses.__all__
    assert names == sorted(names, key=lambda name: (not name[0].isupper(), name))
    assert all(hasattr(calibench.losses, name) for name in names)


def test_every_exported_class_is_an_example() -> None:
    assert {type(loss) for loss in fresh_losses().values()} == set(exported_classes())


def test_value_is_a_scalar_with_gradient(loss: CalibrationLoss) -> None:
    value, grad = value_and_grad(loss, *batch())
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert grad.abs().sum() > 0


# These hold a factor constant on purpose; tests/losses/test_gradient_reweighting.py checks them.
CONSTANT_FACTOR = {"BSCEGRALoss", "FocalGRALoss", "FLSDGRALoss", "DualFocalGRALoss"}
CONSTANT_FACTOR |= {"ECEWeightedLoss"}


@pytest.mark.parametrize("name", [n for n in NAMES if n.split()[0] not in CONSTANT_FACTOR])
def test_gradient_is_the_values_slope(name: str) -> None:
    loss = live(fresh_losses()[name])
    logits, target = batch(7)
    assert torch.autograd.gradcheck(loss, (logits.requires_grad_(), target))


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


@pytest.mark.parametrize("name", NAMES)
def test_permuting_the_classes_permutes_the_gradient(name: str) -> None:
    logits, target = batch()
    counts = torch.tensor([500, 200, 90, 40, 15, 7])
    validation = batch(200, seed=1)
    order = torch.randperm(K)
    results = []
    for permuted in (torch.arange(K), order):
        loss = fresh_losses()[name]
        inverse = permuted.argsort()
        loss.on_fit_start(counts[permuted])
        loss.on_validation_epoch_end(validation[0][:, permuted], inverse[validation[1]])
        loss.on_train_epoch_start(1, 3)
        value, grad = value_and_grad(loss, logits[:, permuted], inverse[target])
        results.append((value, grad[:, inverse]))
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-12)


def saturated(scale: float) -> list[Tensor]:
    logits, target = batch(dtype=torch.float32)
    perfect = nn.functional.one_hot(target, K) * scale
    tied = torch.zeros_like(logits)
    return [logits.sign() * scale, logits / logits.abs().amax() * scale, perfect, -perfect, tied]


@pytest.mark.parametrize("scale", [50.0, 1e2, 1e4])
def test_finite_where_the_logits_saturate(loss: CalibrationLoss, scale: float) -> None:
    _, target = batch()
    for rows in saturated(scale):
        value, grad = value_and_grad(loss, rows, target)
        assert value.isfinite()
        assert grad.isfinite().all()


@pytest.mark.parametrize("n", [1, 2])
def test_smallest_batches_are_finite(loss: CalibrationLoss, n: int) -> None:
    for target in (torch.zeros(n, dtype=torch.int64), torch.arange(n)):
        value, grad = value_and_grad(loss, batch(n, dtype=torch.float32)[0], target)
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


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_a_cast_and_a_checkpoint(name: str) -> None:
    loss = live(fresh_losses()[name])
    logits, target = batch()
    before = {name: buffer.clone() for name, buffer in loss.named_buffers()}
    expected = loss(logits, target)
    file = io.BytesIO()
    torch.save(nn.ModuleList([loss]).to(torch.bfloat16).state_dict(), file)
    file.seek(0)
    # a new process: same constructor, no moment called
    restored = nn.ModuleList([fresh_losses()[name]])
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert dict(restored[0].named_buffers()).keys() == before.keys()
    for buffer_name, buffer in restored[0].named_buffers():
        assert torch.equal(buffer, before[buffer_name])
        assert buffer.dtype == before[buffer_name].dtype
    assert torch.equal(restored[0](logits, target), expected)


@pytest.mark.parametrize("name", NAMES)
def test_travels_to_another_process(name: str) -> None:
    """Spawning launchers pickle the module."""
    loss = live(fresh_losses()[name])
    copied = pickle.loads(pickle.dumps(loss))
    assert torch.equal(copied(*batch()), loss(*batch()))


def test_training_needs_no_host_synchronisation() -> None:
    """On the meta device any look at a value raises, as `.item()` does."""
    for name, loss in live_losses().items():
        moved = copy.deepcopy(loss).to("meta")
        logits = torch.empty(8, K, device="meta", requires_grad=True)
        value = moved(logits, torch.empty(8, dtype=torch.int64, device="meta"))
        value.backward()
        assert value.shape == (), name


TWO = torch.tensor([0, 1])
NAN = torch.tensor([[0.0, 1.0, torch.nan, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        (torch.zeros(2), TWO, ValueError, "`logits` must have the shape"),
        (torch.zeros(2, 1), TWO, ValueError, "K >= 2"),
        (torch.zeros(2, K, dtype=torch.int64), TWO, TypeError, "must be floating point"),
        (torch.zeros(2, K), TWO.float(), TypeError, "`target` must hold class indices"),
        (torch.zeros(3, K), TWO, ValueError, r"must have the shape \(3,\)"),
        (torch.zeros(0, K), TWO[:0], ValueError, "at least one example"),
        (torch.zeros(2, K), TWO + 5, ValueError, r"lie in \[0, 6\), got values from 5 to 6"),
        (torch.zeros(2, K), TWO - 1, ValueError, "got values from -1 to 0"),
        (torch.zeros(2, K), TWO * -100, ValueError, "got values from -100 to 0"),
        (NAN, TWO, ValueError, "must not contain NaN, got it in 1 of 2 rows"),
    ],
)
def test_bad_batches_are_named(
    loss: CalibrationLoss, logits: Tensor, target: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loss(logits, target)


@pytest.mark.parametrize("cls", exported_classes())
def test_arguments_are_keyword_only_and_typed(cls: type[CalibrationLoss]) -> None:
    parameters = inspect.signature(cls).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY and p.annotation is not p.empty for p in parameters)


@pytest.mark.parametrize("cls", exported_classes())
def test_docstring_is_one_short_line_with_its_source(cls: type[CalibrationLoss]) -> None:
    first = (cls.__doc__ or "").splitlines()[0]
    assert len(first) <= 95
    assert first.endswith(").")

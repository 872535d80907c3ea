"""What every exported loss promises, whatever it computes."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections import defaultdict
from collections.abc import Sequence

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import calibench.losses
from calibench.losses import CalibrationLoss, PerExampleLoss
from tests.deterministic import AsOnADeterministicGpu
from tests.examples import Contract
from tests.losses.examples import (
    K,
    batch,
    exported_classes,
    fresh_loss,
    fresh_losses,
    live_losses,
    value_and_grad,
)

EXAMPLES_OF: dict[str, list[str]] = defaultdict(list)
for example, loss in fresh_losses().items():
    EXAMPLES_OF[type(loss).__name__].append(example)
CONTRACT = Contract(EXAMPLES_OF)


def test_names_are_sorted_and_exist() -> None:
    names = calibench.losses.__all__
    assert names == sorted(names, key=lambda name: (not name[0].isupper(), name))
    assert all(hasattr(calibench.losses, name) for name in names)


def test_every_exported_class_is_an_example() -> None:
    assert {type(loss) for loss in fresh_losses().values()} == set(exported_classes())


@CONTRACT.rule()
def value_is_a_scalar_with_gradient(name: str) -> None:
    with AsOnADeterministicGpu(of_a_batch=True):
        value, grad = value_and_grad(live_losses()[name], *batch())
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert grad.abs().sum() > 0


def all_kinds(logits: Tensor, target: Tensor) -> list[tuple[object, ...]]:
    """Logits and class numbers as arrays, data frames and lists."""
    scores, numbers = logits.numpy(), target.numpy()
    frame = pd.DataFrame(scores, columns=[f"class {k}" for k in range(K)])
    names = pd.Series(f"class {k}" for k in numbers)
    return [(scores, numbers.astype("int32")), (frame, names), (scores.tolist(), numbers.tolist())]


@CONTRACT.rule()
def arrays_frames_and_lists_give_a_float(name: str) -> None:
    expected = float(live_losses()[name](*batch(9)))
    for given in all_kinds(*batch(9)):
        value = live_losses()[name](*given)
        assert isinstance(value, float)
        assert value == pytest.approx(expected)


# These hold a factor constant on purpose; tests/losses/test_gradient_reweighting.py checks them.
CONSTANT_FACTOR = {"BSCEGRALoss", "FocalGRALoss", "FLSDGRALoss", "DualFocalGRALoss"}
CONSTANT_FACTOR |= {"ECEWeightedLoss", "ACLSLoss"}
BATCH_COUPLED = {cls.__name__ for cls in exported_classes() if not issubclass(cls, PerExampleLoss)}


@CONTRACT.rule(but=CONSTANT_FACTOR)
def gradient_is_the_values_slope(name: str) -> None:
    logits, target = batch(5)
    assert torch.autograd.gradcheck(live_losses()[name], (logits.requires_grad_(), target))


HARD = {type(loss).__name__ for loss in fresh_losses().values() if not loss.accepts_soft_targets}


def distributions(n: int) -> Tensor:
    """Targets (n, K) of which most classes have no share."""
    shares = torch.rand(n, K, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    shares = (
        torch.where(shares > 0.6, shares, 0.0) + torch.eye(K, dtype=torch.float64).repeat(n, 1)[:n]
    )
    return shares / shares.sum(1, keepdim=True)


@CONTRACT.rule(but=HARD)
def a_distribution_on_one_class_is_that_class_and_the_loss_is_linear_in_it(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch(9)
    sure = torch.nn.functional.one_hot(target, K).double()
    torch.testing.assert_close(loss(logits, sure), loss(logits, target))
    spread = distributions(9)
    between = loss(logits, 0.3 * sure + 0.7 * spread)
    torch.testing.assert_close(between, 0.3 * loss(logits, sure) + 0.7 * loss(logits, spread))


@CONTRACT.rule(but={*EXAMPLES_OF} - HARD)
def a_distribution_is_refused_in_a_line(name: str) -> None:
    with pytest.raises(TypeError, match="takes one class an example"):
        live_losses()[name](batch(9)[0], distributions(9))


def hessian_product(loss: CalibrationLoss, logits: Tensor, target: Tensor, along: Tensor) -> Tensor:
    leaf = logits.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(leaf, target), leaf, create_graph=True)
    (second,) = torch.autograd.grad((first * along).sum(), leaf)
    return second


@CONTRACT.rule(but=CONSTANT_FACTOR)
def second_derivative_is_the_gradients_slope(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch(7)
    along, step = torch.randn_like(logits), 1e-5
    ahead, behind = (
        value_and_grad(loss, logits + sign * step * along, target)[1] for sign in (1, -1)
    )
    expected = (ahead - behind) / (2 * step)
    ours = hessian_product(loss, logits, target, along)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-8)


@CONTRACT.rule()
def function_transforms(name: str) -> None:
    """torch.func sees the gradients that backward gives: grad, vmap, jacrev and what they compose to."""
    loss = live_losses()[name]
    batches = [batch(7, seed=seed) for seed in range(3)]
    logits, target = (torch.stack(part) for part in zip(*batches, strict=True))
    values, grads = (
        torch.stack(part)
        for part in zip(*(value_and_grad(loss, *pair) for pair in batches), strict=True)
    )
    torch.testing.assert_close(torch.func.grad(loss)(*batches[0]), grads[0])
    torch.testing.assert_close(torch.func.jacrev(loss)(*batches[0]), grads[0])
    torch.testing.assert_close(torch.func.vmap(loss)(logits, target), values)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(logits, target), grads)

    along = torch.randn_like(logits[0])
    hessian = torch.func.jacrev(torch.func.jacrev(loss))(*batches[0])
    product = hessian_product(loss, *batches[0], along)
    torch.testing.assert_close((hessian * along).sum(dim=(2, 3)), product)


@CONTRACT.rule(but=BATCH_COUPLED)
def gradients_of_each_example(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch(7)

    def of_one(row: Tensor, label: Tensor) -> Tensor:
        return loss.per_example(row.unsqueeze(0), label.unsqueeze(0)).squeeze(0)

    grads = torch.func.vmap(torch.func.grad(of_one))(logits, target)
    torch.testing.assert_close(grads / 7, value_and_grad(loss, logits, target)[1])
    jacobian = torch.func.jacrev(loss.per_example)(logits, target)
    torch.testing.assert_close(jacobian, torch.diag_embed(grads.T).permute(1, 2, 0))


def compiles_without_a_break(losses: Sequence[CalibrationLoss], *, with_gradient: bool) -> None:
    """One compiled graph of all these losses gives what they give without a compiler."""

    def values(logits: Tensor, target: Tensor) -> Tensor:
        return torch.stack([loss(logits, target) for loss in losses])

    results = []
    # without gradients the graph alone is looked at
    backend = "aot_eager" if with_gradient else "eager"
    compiled = torch.compile(values, backend=backend, fullgraph=True, dynamic=False)
    for function in (compiled, values):
        logits, target = batch(7)
        value = function(logits.requires_grad_(with_gradient), target)
        if with_gradient:
            (value * torch.arange(1, len(losses) + 1)).sum().backward()
        results.append((value.detach(), logits.grad))
    torch.compiler.reset()
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)


# Losses of a kind are written alike: a long tail, a memory, coupled batches, a reweighted gradient, ranks, bins.
COMPILED = (
    "AdaFocalLoss", "BSCEGRALoss", "CrossEntropyLoss", "CorrectnessRankingLoss", "ECEWeightedLoss", "FocalCalibrationLoss",
    "GenerativeCrossEntropy", "LDAMLoss", "MMCELoss", "SoftBinnedECELoss",
)  # fmt: skip


@pytest.mark.slow
def test_a_class_of_each_kind_compiles() -> None:
    one_of_each = {type(loss).__name__: loss for loss in live_losses().values()}
    compiles_without_a_break([one_of_each[name] for name in COMPILED], with_gradient=False)


@pytest.mark.slow
def test_every_variant_compiles_with_its_gradient() -> None:
    compiles_without_a_break(list(live_losses().values()), with_gradient=True)


# the size of the logits themselves is what these are about
OF_LOGITS_SIZE = {"LogitNormLoss", "ACLSLoss"}


@CONTRACT.rule(but=OF_LOGITS_SIZE)
def adding_a_constant_to_a_row_changes_nothing(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch()
    shifted = logits + 10 * torch.randn(len(logits), 1, dtype=torch.float64)
    torch.testing.assert_close(loss(shifted, target), loss(logits, target), rtol=1e-10, atol=1e-12)


# it pairs neighbours, of a batch whose order is random
PAIRS_NEIGHBOURS = {"CorrectnessRankingLoss"}


@CONTRACT.rule(but=PAIRS_NEIGHBOURS)
def permuting_the_batch_permutes_the_gradient(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch()
    order = torch.randperm(len(target))
    value, grad = value_and_grad(loss, logits, target)
    value_p, grad_p = value_and_grad(loss, logits[order], target[order])
    torch.testing.assert_close(value_p, value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(grad_p, grad[order], rtol=1e-9, atol=1e-12)


# to it the classes are numbers
IN_ORDER = {"MaxEntLoss"}


@CONTRACT.rule(but=IN_ORDER)
def permuting_the_classes_permutes_the_gradient(name: str) -> None:
    logits, target = batch()
    counts = torch.tensor([500, 200, 90, 40, 15, 7])
    validation = batch(200, seed=1)
    order = torch.randperm(K)
    results = []
    for permuted in (torch.arange(K), order):
        loss = fresh_loss(name)
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


def finite(loss: CalibrationLoss, logits: Tensor, target: Tensor) -> Tensor:
    """The gradient, after a look at the value and at itself."""
    value, grad = value_and_grad(loss, logits, target)
    assert value.isfinite()
    assert grad.isfinite().all()
    return grad


@CONTRACT.rule()
def finite_where_the_logits_saturate(name: str) -> None:
    _, target = batch()
    for scale in (50.0, 1e2, 1e4):
        for rows in saturated(scale):
            finite(live_losses()[name], rows, target)


# a masked class has a share of the smoothed target, or a distance to the largest logit: inf, as torch has it
INFINITE_WHERE_MASKED = {"LabelSmoothingLoss", "MarginLoss", "ACLSLoss"}


@CONTRACT.rule(but=INFINITE_WHERE_MASKED)
def a_class_masked_in_the_whole_batch_has_no_gradient(name: str) -> None:
    logits, target = batch(dtype=torch.float32)
    logits[:, -1] = -torch.inf
    grad = finite(live_losses()[name], logits, target % (K - 1))
    assert (grad[:, -1] == 0).all()
    assert grad.abs().sum() > 0


@CONTRACT.rule()
def smallest_batches_are_finite(name: str) -> None:
    for n in (1, 2):
        for target in (torch.zeros(n, dtype=torch.int64), torch.arange(n)):
            finite(live_losses()[name], batch(n, dtype=torch.float32)[0], target)


@CONTRACT.rule()
def bfloat16_is_computed_in_float32(name: str) -> None:
    loss = live_losses()[name]
    logits, target = batch(dtype=torch.bfloat16)
    expected, _ = value_and_grad(loss, logits.float(), target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, grad = value_and_grad(loss, logits, target)
    assert value.dtype == torch.float32
    assert grad.dtype == torch.bfloat16
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)


@CONTRACT.rule()
def constants_have_the_type_of_the_logits(name: str) -> None:
    """Whole numbers divided, or a range without a type, are of torch's default type, float32."""
    usual, _ = value_and_grad(live_losses()[name], *batch(9))
    torch.set_default_dtype(torch.float64)
    try:
        wide, _ = value_and_grad(live_losses()[name], *batch(9))
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(wide, usual, rtol=1e-13, atol=1e-13)


@CONTRACT.rule()
def state_survives_a_cast_and_a_checkpoint(name: str) -> None:
    loss = copy.deepcopy(live_losses()[name])
    logits, target = batch()
    before = {name: buffer.clone() for name, buffer in loss.named_buffers()}
    expected = loss(logits, target)
    file = io.BytesIO()
    torch.save(nn.ModuleList([loss]).to(torch.bfloat16).state_dict(), file)
    file.seek(0)
    # a new process: same constructor, no moment called
    restored = nn.ModuleList([fresh_loss(name)])
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert dict(restored[0].named_buffers()).keys() == before.keys()
    for buffer_name, buffer in restored[0].named_buffers():
        assert torch.equal(buffer, before[buffer_name])
        assert buffer.dtype == before[buffer_name].dtype
    assert torch.equal(restored[0](logits, target), expected)


@CONTRACT.rule()
def travels_to_another_process(name: str) -> None:
    """Spawning launchers pickle the module."""
    loss = live_losses()[name]
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


BAD_BATCHES = [
    (torch.zeros(2), TWO, ValueError, "`logits` must have shape"),
    (torch.zeros(2, 1), TWO, ValueError, "K >= 2"),
    (torch.zeros(2, K, dtype=torch.int64), TWO, TypeError, "must be floating point"),
    (torch.zeros(2, K), TWO.float(), TypeError, "`target` must hold integer class indices"),
    (torch.zeros(3, K), TWO, ValueError, r"must have shape \(3,\)"),
    (torch.zeros(0, K), TWO[:0], ValueError, "at least one example"),
    (torch.zeros(2, K), TWO + 5, ValueError, r"lie in \[0, 6\), got values from 5 to 6"),
    (torch.zeros(2, K), TWO - 1, ValueError, "got values from -1 to 0"),
    (torch.zeros(2, K), TWO * -100, ValueError, "got values from -100 to 0"),
    (NAN, TWO, ValueError, "must not contain NaN, got it in 1 of 2 rows"),
]


@CONTRACT.rule()
def bad_batches_are_named(name: str) -> None:
    for logits, target, error, message in BAD_BATCHES:
        with pytest.raises(error, match=message):
            live_losses()[name](logits, target)


def test_arguments_are_keyword_only_and_typed() -> None:
    for cls in exported_classes():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, (cls, parameter)
            assert parameter.annotation is not parameter.empty, (cls, parameter)


def test_docstring_is_one_short_line_with_its_source() -> None:
    for cls in exported_classes():
        first = (cls.__doc__ or "").splitlines()[0]
        assert len(first) <= 95, cls
        assert first.endswith(")."), cls


test_contract = CONTRACT.test()

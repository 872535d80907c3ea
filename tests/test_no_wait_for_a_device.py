"""Nothing of a training step reads a value back from an accelerator: it would wait for all that was asked of it.

Tensors without values stand for those of a GPU: what asks for a value, or for a shape that depends on values, raises.
"""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from calibench.data.batch import Batch, Examples
from calibench.data.images.augment import Normalize, RandomCropFlip, RandomResizedCrop
from calibench.data.images.augmix import ThreeViews
from calibench.data.in_memory_loader import ShuffledLoader
from calibench.data.mixing import Augmentation, CutMix, LabelSmoothing, Mixing, Mixup, RegMixup
from calibench.losses import BrierLoss, CrossEntropyLoss, FocalLoss, GenerativeCrossEntropy
from calibench.losses.base import CalibrationLoss, PerExampleLoss
from calibench.losses.several_labels import LabelLoss
from calibench.metrics import calibration_metrics
from tests.examples import for_each, sampled
from tests.losses.examples import K, builders, live_losses
from tests.metrics.cases import K as CLASSES_OF_METRICS
from tests.metrics.cases import cases

N = 24


def without_values() -> FakeTensorMode:
    """A mode in which tensors are made without values; what was made before it has some."""
    return FakeTensorMode(allow_non_fake_inputs=True)


class DeviceWithoutValues(FakeTensorMode):
    """A mode in which tensors of the CPU have values, and those of the device none."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        values = [*args, *(kwargs or {}).values()]
        lists = [value if isinstance(value, list | tuple) else [value] for value in values]
        leaves = [*chain.from_iterable(lists)]
        devices = [part.type for part in leaves if isinstance(part, torch.device)]
        if devices == ["cpu"] * len(devices) and not any(
            isinstance(part, FakeTensor) for part in leaves
        ):
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="cuda")


def logits(*shape: int) -> Tensor:
    return empty(*shape).requires_grad_()


def move_to_the_device(module: nn.Module) -> None:
    """Put tensors of the device, without values, in place of those of a module."""
    for part in module.modules():
        for name, buffer in [*part.named_buffers(recurse=False)]:
            setattr(part, name, empty(*buffer.shape, dtype=buffer.dtype))
        for name, parameter in [*part.named_parameters(recurse=False)]:
            setattr(part, name, nn.Parameter(empty(*parameter.shape)))
        for name, state in getattr(part, "metric_state", {}).items():
            if isinstance(state, Tensor):
                setattr(part, name, empty(*state.shape, dtype=state.dtype))


def descend(loss: CalibrationLoss, *target_shape: int, dtype: torch.dtype = torch.float32) -> None:
    """A loss of a batch, and the gradient of its logits.

    On the device without memory, which cannot be asked for a value either: without a GPU there is no gradient on it.
    """
    on_meta = copy.deepcopy(loss).to("meta")
    scores = torch.empty(N, target_shape[-1] if len(target_shape) > 1 else K, device="meta")
    scores.requires_grad_()
    value = on_meta(scores, torch.empty(target_shape, dtype=dtype, device="meta"))
    assert value.shape == ()
    value.backward()
    assert scores.grad is not None


# With the one that remembers examples; the gradients of all, below, have their forward pass.
@pytest.mark.parametrize("name", sampled(builders(), ["CorrectnessRankingLoss", *builders()][::6]))
def test_losses_of_classes_and_of_distributions(name: str) -> None:
    loss = copy.deepcopy(live_losses()[name])
    with without_values():
        move_to_the_device(loss)
        target, index = (empty(N, dtype=torch.int64) for _ in range(2))
        if loss.remembers_examples:
            loss.on_train_batch(empty(N, K), target, index)
        assert loss(logits(N, K), target).shape == ()
        if loss.accepts_soft_targets:
            assert loss(logits(N, K), empty(N, K)).shape == ()


@pytest.mark.parametrize("name", builders())
def test_gradients_of_classes_and_of_distributions(name: str) -> None:
    loss = live_losses()[name]
    descend(loss, N, dtype=torch.int64)
    if loss.accepts_soft_targets:
        descend(loss, N, K)


@pytest.mark.parametrize("loss", [CrossEntropyLoss(), FocalLoss(gamma=2.0), BrierLoss()])
def test_losses_of_several_labels(loss: PerExampleLoss) -> None:
    of_labels = LabelLoss(copy.deepcopy(loss), ["a", "b", "c"])
    descend(of_labels, N, 3, dtype=torch.int8)
    with without_values():
        move_to_the_device(of_labels)
        assert of_labels(logits(N, 3), empty(N, 3, dtype=torch.int8)).shape == ()


def test_a_coupled_loss_of_several_labels_where_all_are_known() -> None:
    of_labels = LabelLoss(GenerativeCrossEntropy(), ["a", "b", "c"])
    of_labels.all_known = True
    descend(of_labels, N, 3, dtype=torch.int8)
    with without_values():
        assert of_labels(logits(N, 3), empty(N, 3, dtype=torch.int8)).shape == ()


@pytest.mark.slow
def test_updates_of_the_metrics() -> None:
    metrics = calibration_metrics(K, n_bins=(15, 20), validate_args=False)
    with without_values():
        metrics.to("cuda")
        metrics.update_logits(empty(N, K), empty(N, dtype=torch.int64))
        metrics.evaluate_waiting_rows()


@pytest.mark.parametrize("name", cases())
def test_an_update_of_each_metric(name: str) -> None:
    build, _ = cases()[name]
    metric = build(validate_args=False)
    with without_values():
        metric.to("cuda")
        metric.update(empty(N, CLASSES_OF_METRICS), empty(N, dtype=torch.int64))


@pytest.mark.parametrize(
    "augmentation", [RandomCropFlip(), RandomCropFlip(2, flip="alternating", border="reflect")]
)
def test_augmentation_and_normalisation(augmentation: RandomCropFlip) -> None:
    draws = augmentation.draw(N, torch.Generator().manual_seed(0))
    normalise = Normalize((0.5,) * 3, (0.2,) * 3)
    with without_values():
        images = augmentation.prepare(empty(90, 3, 16, 16, dtype=torch.uint8))
        index = empty(N, dtype=torch.int64)
        changed = augmentation(images, index, empty(*draws.shape, dtype=draws.dtype))
        assert normalise(changed).shape == (N, 3, 16, 16)


@pytest.mark.parametrize(
    "augmentation",
    [
        RandomResizedCrop(),
        pytest.param(ThreeViews(RandomCropFlip(), 3.0), marks=pytest.mark.slow),
        ThreeViews(RandomResizedCrop(), 3.0),
    ],
)
def test_augmentation_that_reads_its_draws_has_them_on_the_host(
    augmentation: Augmentation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way from the order of an epoch to a batch, of images that lie on the device."""
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: self)  # without a GPU there is none
    images = torch.zeros(40, 3, 16, 16, dtype=torch.uint8)
    examples = Examples(images, torch.zeros(40, dtype=torch.int64))
    loader = ShuffledLoader(examples, seed=1, batch_size=N, augmentation=augmentation)
    order = loader._start_epoch()
    assert order.device == loader._draws.device == torch.device("cpu")
    rows, draws = order[:5].clone(), loader._draws[order[:5]]
    loader.device = loader.home = torch.device("cuda")
    side = loader.examples.inputs.shape[-1]
    with DeviceWithoutValues(allow_non_fake_inputs=True):
        stored = empty(40, 3, side, side, dtype=torch.uint8)
        loader.examples = Examples(stored, empty(40, dtype=torch.int64))
        batch = loader.batch_of(rows, 0)
        assert batch.inputs.shape == (augmentation.views * 5, 3, 16, 16)
        assert {part.device.type for part in (batch.inputs, batch.target, batch.index)} == {"cuda"}
        with pytest.raises(Exception, match="_local_scalar_dense"):
            augmentation(stored, rows, draws.to("cuda"))


@pytest.mark.parametrize("mixing", [Mixup(), CutMix(), RegMixup(), LabelSmoothing(epsilon=0.1)])
def test_mixing_of_batches(mixing: Mixing) -> None:
    rows = N + mixing.rows_before
    with without_values():
        target, index = empty(rows, dtype=torch.int64), empty(N, dtype=torch.int64)
        batch = Batch(empty(rows, 3, 16, 16), target, index, N)
        mixed = mixing(batch, K, np.random.default_rng(0))
        assert mixed.target.shape[1:] == (K,)


def test_a_value_that_is_read_back_raises() -> None:
    """So the other tests can fail."""
    with without_values(), pytest.raises(Exception, match="_local_scalar_dense"):
        float(empty(N).sum())
    with without_values(), pytest.raises(Exception, match="nonzero"):
        CrossEntropyLoss()._expect_present(empty(N, K), empty(N, K))
    with pytest.raises(RuntimeError, match="meta"):
        float(torch.empty(N, device="meta").sum())


# --- the forms of fixed shape have the same values ---


def soft_targets() -> Tensor:
    """Distributions: of two classes, of all, and of one."""
    generator = torch.Generator().manual_seed(1)
    target = torch.rand(N, K, generator=generator, dtype=torch.float64)
    target[:8, 2:] = 0
    target[8:12] = torch.eye(K, dtype=torch.float64)[:4]
    return target / target.sum(1, keepdim=True)


PER_EXAMPLE = [name for name, make in builders().items() if isinstance(make(), PerExampleLoss)]


@for_each(PER_EXAMPLE)
def test_expectations_of_both_forms_are_equal(name: str) -> None:
    loss = copy.deepcopy(live_losses()[name]).double()
    scores = torch.randn(N, K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    forms = []
    for form in (loss._expect_present, loss._expect_all):
        leaf = scores.clone().requires_grad_()
        value = form(leaf, soft_targets())
        value.backward()
        forms.append((value.detach(), leaf.grad))
    torch.testing.assert_close(forms[0], forms[1], rtol=1e-12, atol=1e-13)


def test_an_expectation_takes_masked_classes_without_a_share() -> None:
    masked = torch.tensor([5])
    scores = torch.randn(N, K, dtype=torch.float64).index_fill(1, masked, -torch.inf)
    scores.requires_grad_()
    target = soft_targets().index_fill(1, masked, 0.0)
    CrossEntropyLoss()._expect_all(scores, target / target.sum(1, keepdim=True)).backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("loss", [CrossEntropyLoss(), FocalLoss(gamma=2.0)])
def test_several_labels_have_the_same_loss_in_both_forms(loss: PerExampleLoss) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (N, 3), generator=generator).to(torch.int8)
    of_labels = LabelLoss(loss, ["a", "b", "c"]).double()
    masked = of_labels(scores, labels)
    torch.testing.assert_close(of_labels.of_all(scores, labels), masked, rtol=1e-12, atol=0.0)

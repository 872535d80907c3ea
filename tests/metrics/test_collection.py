"""The benchmark's collection: same numbers as its parts, whatever the batches."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from torch import Tensor

from calibench import metrics as M
from calibench.metrics.collection import PANEL
from tests.metrics.cases import K, assert_same, batch, function_of

FUNCTIONS = {metric.name: function_of(metric) for metric in PANEL}
BINNED = [metric.name for metric in PANEL if "n_bins" in inspect.signature(metric).parameters]


def assert_equal(
    values: dict[str, Tensor], preds: Tensor, target: Tensor, prefix: str = ""
) -> None:
    for name, function in FUNCTIONS.items():
        value = values[prefix + name]
        assert value.shape == ()
        assert value.dtype == torch.float64
        assert_same(value, function(preds, target))
    for name in BINNED:
        assert_same(values[f"{prefix}{name}_20"], FUNCTIONS[name](preds, target, n_bins=20))


@pytest.mark.parametrize("size", [1, 64, 1000, 5000, 12_000])
def test_values_do_not_depend_on_the_batches(size: int) -> None:
    preds, target = batch(12_000 if size > 1 else 200)
    collection = M.calibration_metrics(K, prefix="val/")
    for start in range(0, len(target), size):
        collection.update(preds[start : start + size], target[start : start + size])
    values = collection.compute()
    assert len(values) == len(FUNCTIONS) + len(BINNED)
    assert_equal(values, preds, target, "val/")


def test_names_and_bins() -> None:
    collection = M.calibration_metrics(K, (10, 30, 15))
    names = {
        *FUNCTIONS,
        *(f"{name}_{n}" for name in BINNED for n in (30, 15)),
    }
    assert {"error", "nll", "brier", "ece", "smooth_ece", "ece_30", "adaptive_ece_15"} <= names
    assert {"classwise_ece_15", "classwise_ece"} <= names
    assert set(collection.keys()) == names
    assert collection["ece"].n_bins == 10
    assert collection["classwise_ece_30"].n_bins == 30
    with pytest.raises(ValueError, match="`n_bins` must hold one or more different numbers"):
        M.calibration_metrics(K, (15, 15))
    with pytest.raises(ValueError, match="`n_bins` must be a positive integer"):
        M.calibration_metrics(K, (0,))


def test_groups_are_named_and_not_merged_by_what_the_first_batch_looks_like() -> None:
    collection = M.calibration_metrics(K)
    groups = copy.deepcopy(collection.compute_groups)
    collection.update(*batch(0))
    collection.update(*batch(3))
    collection.compute()
    assert collection.compute_groups == groups
    assert sorted(map(sorted, groups.values()), key=len)[-1] == [
        "adaptive_ece", "adaptive_ece_20", "smooth_ece",
    ]  # fmt: skip


def test_log_probabilities_are_used_where_given() -> None:
    logits, target = torch.tensor([[200.0, 0.0], [0.0, 200.0]]), torch.tensor([1, 1])
    collection = M.calibration_metrics(2)
    probs, log_probs = logits.softmax(1), logits.log_softmax(1)
    collection.update(preds=probs, target=target, log_probs=log_probs)
    assert float(collection.compute()["nll"]) == pytest.approx(100)
    assert float(collection(probs, target, log_probs=log_probs)["nll"]) == pytest.approx(100)


@pytest.mark.parametrize("num_classes", [3, 10, 20, 100])
def test_logits_give_the_same_numbers_in_any_batches_and_order(num_classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(6000, num_classes, generator=generator)
    target = torch.randint(num_classes, (6000,), generator=generator)
    expected = M.calibration_metrics(num_classes)
    log_probs = logits.double().log_softmax(1)
    expected.update(preds=log_probs.exp(), target=target, log_probs=log_probs)
    shuffled = torch.randperm(6000, generator=generator)
    values = []
    for order, size in ((slice(None), 6000), (slice(None), 128), (shuffled, 77)):
        collection = M.calibration_metrics(num_classes)
        for rows, labels in zip(logits[order].split(size), target[order].split(size), strict=True):
            collection.update_logits(rows, labels)
        values.append(collection.compute())
    for name, value in expected.compute().items():
        first, *others = (float(computed[name]) for computed in values)
        assert first == pytest.approx(float(value), abs=1e-6)
        assert others == pytest.approx([first] * 2, abs=1e-12)


def test_what_a_batch_holds_is_left_as_it_is() -> None:
    logits, (_, target) = torch.randn(30_000, K), batch(30_000)
    before = logits.clone()
    collection = M.calibration_metrics(K)
    collection.update_logits(logits, target)
    log_probs = logits.log_softmax(1)
    probs = log_probs.exp()
    collection.update(preds=probs, target=target, log_probs=log_probs)
    collection.compute()
    assert torch.equal(logits, before)
    assert torch.equal(log_probs, logits.log_softmax(1))
    assert torch.equal(probs, log_probs.exp())


def test_logits_and_probabilities_may_be_mixed() -> None:
    preds, target = batch(300)
    preds = preds.double() / preds.double().sum(1, keepdim=True)
    collection = M.calibration_metrics(K)
    collection.update(preds[:100], target[:100])
    collection.update_logits(preds[100:200].log(), target[100:200])
    collection.update(preds[200:250], target[200:250], log_probs=preds[200:250].log())
    collection.update(preds[250:], target[250:])
    assert_equal(collection.compute(), preds, target)


def test_logits_are_checked() -> None:
    collection = M.calibration_metrics(2)
    with pytest.raises(ValueError, match="`logits` must not hold NaN"):
        collection.update_logits(torch.tensor([[torch.nan, 0.0]]), torch.tensor([0]))
    with pytest.raises(ValueError, match="`logits` must have 2 columns"):
        collection.update_logits(torch.zeros(1, 3), torch.tensor([0]))


def test_whatever_looks_inside_sees_all_rows() -> None:
    preds, target = batch(100)
    expected = M.calibration_error(preds, target)
    collection = M.calibration_metrics(K)
    collection.update(preds, target)
    assert_same(collection["ece"].compute(), expected)
    collection.reset()
    collection.update(preds, target)
    assert_same(dict(collection.items())["ece"].compute(), expected)
    collection.reset()
    collection.update(preds, target)
    assert collection.metric_state["error"]["count"] == 100
    collection.to(torch.float64)
    assert_equal(collection.compute(), preds, target)


def test_the_callers_memory_may_be_reused() -> None:
    (preds, target), buffer = batch(300), torch.empty(100, K)
    labels, collection = torch.empty(100, dtype=torch.long), M.calibration_metrics(K)
    for start in range(0, 300, 100):
        buffer.copy_(preds[start : start + 100])
        labels.copy_(target[start : start + 100])
        collection.update(buffer, labels)
    assert_equal(collection.compute(), preds, target)


def test_reset_copy_pickle_and_forward() -> None:
    preds, target = batch(300)
    collection = M.calibration_metrics(K)
    collection.update(*batch(40, seed=8))
    collection.reset()
    collection.update(preds[:100], target[:100])
    copies = [
        copy.deepcopy(collection),
        collection.clone(prefix="x/"),
        pickle.loads(pickle.dumps(collection)),
    ]
    for other, prefix in zip(copies, ("", "x/", ""), strict=True):
        other.update(preds[100:], target[100:])
        assert_equal(other.compute(), preds, target, prefix)
    assert_equal(collection(preds[100:], target[100:]), preds[100:], target[100:])
    assert_equal(collection.compute(), preds, target)
    collection.update(*batch(50, seed=4))
    assert collection.metric_state["error"]["count"] == 350


def test_precision_may_change_between_batches() -> None:
    preds, target = batch(200, dtype=torch.float64)
    collection = M.calibration_metrics(K)
    collection.update(preds[:50].float(), target[:50])
    collection.update(preds[50:], target[50:])
    assert_same(collection.compute()["brier"], M.brier_score(preds, target), atol=1e-7)


def test_inference_mode_before_and_after() -> None:
    preds, target = batch(300)
    collection = M.calibration_metrics(K)
    with torch.inference_mode():
        collection.update(*batch(10))
        collection.compute()
        collection.reset()
        collection.update(preds[:100], target[:100])
    collection.update(preds[100:], target[100:])
    assert_equal(collection.compute(), preds, target)


def test_each_batch_is_checked_at_once() -> None:
    collection = M.calibration_metrics(K)
    with pytest.raises(ValueError, match="sum to 1"):
        collection.update(torch.rand(4, K), torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match="`preds` must have 5 columns"):
        collection.update(*batch(4, 3))
    with pytest.raises(ValueError, match="`log_probs` must have the shape of `preds`"):
        collection.update(*batch(4), log_probs=torch.zeros(4))
    collection.update(*batch(100))
    assert_equal(collection.compute(), *batch(100))


def test_empty() -> None:
    collection = M.calibration_metrics(K)
    collection.update(*batch(0))
    assert all(bool(value.isnan()) for value in collection.compute().values())


def test_memory_of_the_state() -> None:
    collection = M.calibration_metrics(100, validate_args=False)
    preds, target = batch(2000, 100)
    for _ in range(10):
        collection.update(preds, target)
    tensors = {
        part.data_ptr(): part.nbytes
        for state in collection.metric_state.values()
        for value in state.values()
        for part in (value if isinstance(value, list) else [value])
    }
    assert sum(tensors.values()) <= 5 * 20_000 + 3 * 8 * 101 * (16 + 21)

"""Classwise error: brute force, missing classes, exact zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench import metrics as M
from calibench.metrics.calibration_errors import ClasswiseError
from calibench.tensors.binning import equal_width_edges
from tests.metrics.cases import batch
from tests.operations import count_numbers

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {
    "classwise_ece_reference": (M.ClasswiseCalibrationError, {"variant": "reference"}),
}


def brute_force(preds: torch.Tensor, target: torch.Tensor, n_bins: int) -> float:
    edges = equal_width_edges(n_bins)
    total = 0.0
    for label in range(preds.shape[1]):
        p = preds[:, label].double()
        residual = p - (target == label).double()
        for index in range(n_bins):
            inside = (p > edges[index]) & (p <= edges[index + 1])
            if index == 0:
                inside |= p == 0
            total += float(residual[inside].sum().abs())
    return total / len(target) / preds.shape[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_bins", [1, 2, 15, 20])
@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_brute_force(n_bins: int, k: int, dtype: torch.dtype) -> None:
    preds, target = batch(600, k, dtype=dtype)
    before = preds.clone()
    value = float(M.classwise_calibration_error(preds, target, n_bins=n_bins))
    assert value == pytest.approx(brute_force(before, target, n_bins), abs=1e-12)
    assert torch.equal(preds, before)


def test_all_classes_count_but_not_in_the_papers_code() -> None:
    """Their number of classes is the largest target of the evaluated set plus one."""
    preds, target = batch(300)
    target = target.clamp(max=2)
    value = float(M.classwise_calibration_error(preds, target))
    assert value == pytest.approx(brute_force(preds, target, 15), abs=1e-12)
    papers = float(M.classwise_calibration_error(preds, target, variant="reference"))
    first = 3 * brute_force(preds[:, :3], target, 15) / 3
    assert papers == pytest.approx(first, abs=1e-6)


def test_an_exact_zero_belongs_to_the_first_bin_but_not_in_the_papers_code() -> None:
    preds = torch.tensor([[1.0, 0.0]] * 4)
    target = torch.tensor([0, 0, 1, 1])
    assert float(M.classwise_calibration_error(preds, target)) == pytest.approx(0.5)
    papers = M.classwise_calibration_error(preds, target, variant="reference")
    assert float(papers) == pytest.approx(0.25)


@pytest.mark.parametrize("variant", ["exact", "reference"])
@pytest.mark.parametrize("n_bins", [1, 15])
def test_sums_are_those_of_a_cell_for_each_probability(n_bins: int, variant: str) -> None:
    preds, target = batch(400, 7)
    preds[:9, 3], preds[:9, 4] = 0.0, 1 / 15  # no bin of the papers' code; an edge
    formula = ClasswiseError(n_bins, variant == "reference")
    expected = super(ClasswiseError, formula).sum_cells(preds, target)
    for part, other in zip(formula.sum_cells(preds, target), expected, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-12)


def test_only_what_lies_above_the_first_edge_is_scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sums of each of N K numbers made the panel of 100 classes four times as slow."""
    generator = torch.Generator().manual_seed(0)
    preds = (4 * torch.randn(500, 100, generator=generator)).softmax(1)
    metric = M.ClasswiseCalibrationError(num_classes=100, validate_args=False)
    by_numpy, count = [], np.bincount
    monkeypatch.setattr(
        "numpy.bincount",
        lambda index, *rest, **named: by_numpy.append(len(index)) or count(index, *rest, **named),
    )
    numbers = count_numbers(lambda: metric.update(preds, torch.arange(500) % 100))
    scattered = ("aten::bincount", "aten::index_add_", "aten::scatter_add_", "aten::bucketize")
    assert 500 <= sum(by_numpy) + sum(numbers[name] for name in scattered) < 0.3 * preds.numel()

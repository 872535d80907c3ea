"""Cells: hits in them are all that a calibration error needs of the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric
from calibench.metrics.probability_batches import top_label
from tests.examples import for_each
from tests.metrics.cases import K, assert_same, batch, cases

CASES = cases()
WITHOUT = {
    "ErrorRate", "NegativeLogLikelihood", "BrierScore", "BrierDecomposition", "RiskCoverage", "PerClassError", "GroupError",
    "ConfusionMatrix", "SpiegelhalterZ", "CorpDecomposition", "SquaredKernelCalibrationError",
}  # fmt: skip


def metric_of(name: str) -> CalibrationMetric:
    metric = CASES[name][0]()
    assert isinstance(metric, CalibrationMetric)
    return metric


CALIBRATION_ERRORS = [name for name in CASES if type(metric_of(name)).__name__ not in WITHOUT]


def errors_of_cells(metric: CalibrationMetric, preds: Tensor, *targets: Tensor) -> Tensor:
    """What the cells give for sets with the same probabilities and other labels."""
    cells = metric.cells(preds)
    assert cells is not None
    hits = [
        top_label(preds, target)[1]
        if cells.value.ndim == 1
        else target.unsqueeze(1) == torch.arange(preds.shape[1])
        for target in targets
    ]
    sums = [cells.sums(hit) for hit in hits]
    return metric.error_of_cells(
        sums[0].counts, sums[0].totals, torch.stack([one.hits for one in sums])
    )


@for_each(CASES)
def test_what_is_no_calibration_error_has_no_cells(name: str) -> None:
    has_cells = metric_of(name).cells(batch(20)[0]) is not None
    assert has_cells is (type(metric_of(name)).__name__ not in WITHOUT)


@for_each(CALIBRATION_ERRORS)
def test_cells_give_the_metric_of_every_labelling(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for n in (1, 2, 40, 300):
        preds, target = batch(n)
        preds[n // 2 :] = preds[: n - n // 2].clone()  # ties
        others = [torch.randint(K, (n,), generator=generator), torch.zeros(n, dtype=torch.int64)]
        found = errors_of_cells(metric_of(name), preds, target, *others)
        expected = torch.stack([CASES[name][1](preds, labels) for labels in (target, *others)])
        assert_same(found, expected, atol=1e-7)


@for_each(CALIBRATION_ERRORS)
def test_one_hot_probabilities(name: str) -> None:
    target = torch.arange(30) % K
    preds = torch.eye(K)[(target + (torch.arange(30) < 5)) % K]
    found = errors_of_cells(metric_of(name), preds, target)
    assert_same(found, CASES[name][1](preds, target).view(1), atol=1e-7)

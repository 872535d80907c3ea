"""Metric functions: where they are defined, and the shapes that they take as classes do."""

from __future__ import annotations

import importlib
import inspect
import re
from fractions import Fraction
from typing import Any

import pytest
import torch

from calibench import metrics as M
from tests.docs.pages import ROOT
from tests.metrics.cases import cases

CASES = cases()
K = 5
# Metrics of class counts, whose groups or matrix are compared by the other cases.
VALUES = [name for name in CASES if name != "group_error"]


def test_a_function_is_defined_beside_its_class() -> None:
    for build, _ in CASES.values():
        cls = type(build())
        function = inspect.unwrap(getattr(M, function_name(cls)))
        assert inspect.getsourcefile(function) == inspect.getsourcefile(cls)
        assert inspect.getdoc(function).splitlines()[0] == inspect.getdoc(cls).splitlines()[0]


def function_name(cls: type) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def test_the_committed_table_is_that_of_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs/make")
    generator: Any = importlib.import_module("metric_table")
    assert generator.FILE.read_text(encoding="utf-8") == generator.table_text()


def equal(value: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert value.keys() == expected.keys()
        value, expected = [*value.values()], [*expected.values()]
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("name", VALUES)
def test_maps_and_left_out_examples_are_their_rows(name: str) -> None:
    """(N, K, d1, d2) with targets (N, d1, d2), of which some are -100, are the rows that are left."""
    generator = torch.Generator().manual_seed(1)
    preds = torch.rand(6, K, 4, 5, generator=generator, dtype=torch.float64).softmax(1)
    target = torch.randint(K, (6, 4, 5), generator=generator)
    rows, labels = preds.permute(0, 2, 3, 1).reshape(-1, K), target.flatten()
    build, function = CASES[name]
    expected = function(rows, labels)
    equal(function(preds, target), expected)
    metric = build()
    metric.update(preds[:2], target[:2])
    metric.update(preds[2:], target[2:])
    equal(metric.compute(), expected)
    left_out = torch.rand(6, 4, 5, generator=generator) < 0.3
    some = function(rows[~left_out.flatten()], labels[~left_out.flatten()])
    ignored = target.masked_fill(left_out, -100)
    equal(function(preds, ignored, ignore_index=-100), some)
    with pytest.raises(ValueError, match="`target` must lie in"):
        function(preds, ignored)


@pytest.mark.parametrize("name", VALUES)
def test_one_column_is_the_probability_of_class_1(name: str) -> None:
    positive = torch.tensor([0.1, 0.3, 0.35, 0.7, 0.9, 0.62] * 3, dtype=torch.float64)
    target = torch.tensor([0, 1, 0, 1, 1, 1] * 3)
    columns = torch.stack([1 - positive, positive], dim=1)
    arguments = {key: v for key, v in CASES[name][1].keywords.items() if key != "num_classes"}
    function = CASES[name][1].func
    equal(function(positive, target, **arguments), function(columns, target, **arguments))
    with pytest.raises(ValueError, match="probabilities in"):
        function(4 * positive, target, **arguments)


def test_decimals_have_the_error_of_rational_arithmetic_whatever_their_type() -> None:
    """The ECE of 400 two-decimal rows with 20 bins: as exact fractions have it."""
    generator = torch.Generator().manual_seed(5)
    hundredths = torch.randint(50, 101, (400,), generator=generator)
    correct = torch.rand(400, generator=generator) < hundredths / 120
    sums: dict[int, Fraction] = {}
    for value, hit in zip(hundredths.tolist(), correct.tolist(), strict=True):
        bin_ = max(0, -(-value * 20 // 100) - 1)
        sums[bin_] = sums.get(bin_, Fraction(0)) + Fraction(value, 100) - int(hit)
    exact = float(sum(map(abs, sums.values())) / 400)
    top = hundredths.double() / 100
    columns, target = torch.stack([top, 1 - top], 1), (~correct).long()
    target[(top == 0.5) & ~correct] = 1
    assert float(M.calibration_error(columns, target, n_bins=20)) == pytest.approx(exact, abs=1e-12)
    single = M.calibration_error(columns.float(), target, n_bins=20)
    assert float(single) == pytest.approx(exact, abs=1e-7)
    positive = M.calibration_error(1 - top, target, n_bins=20)  # the column P(y = 1)
    assert float(positive) == pytest.approx(exact, abs=1e-12)


def test_rows_of_rounded_decimals_are_taken_and_normalised_for_proper_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    k = 100
    probs = torch.randn(200, k, generator=generator, dtype=torch.float64).mul(3).softmax(1)
    rounded = (probs * 100).round() / 100
    target = torch.multinomial(rounded, 1, generator=generator).squeeze(1)
    assert float((rounded.sum(1) - 1).abs().max()) > 0.02
    normalised = rounded / rounded.sum(1, keepdim=True)
    for function in (M.negative_log_likelihood, M.brier_score):
        equal(function(rounded, target), function(normalised, target))
    as_given = M.calibration_error(rounded, target)
    assert float(as_given) != float(M.calibration_error(normalised, target))
    with pytest.raises(ValueError, match="rows sum to 1"):
        M.calibration_error(probs * 1.3, target)

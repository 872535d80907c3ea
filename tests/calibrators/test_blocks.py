"""Applying in blocks of rows: the values of one piece, one look for masked classes, few passes over the logits."""

from __future__ import annotations

import pytest
import torch

from calibench import calibrators
from calibench.calibrators.base import renormalise_unmasked, replace_masked_logits
from tests.operations import count_numbers

NAMES = ["TemperatureScaling", "VectorScaling", "IsotonicCalibration", "EnsembleTemperatureScaling"]

VIEWS = {f"aten::{name}" for name in ("detach", "resolve_conj", "resolve_neg", "as_strided", "to")}
"""Operations that read no number."""


def logits_of(n: int, k: int) -> torch.Tensor:
    return 4 * torch.randn(n, k, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize("name", NAMES)
def test_blocks_give_the_values_of_one_piece_in_which_classes_may_be_masked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = logits_of(57, 5)
    target = logits.argmax(1).roll(3)
    model = getattr(calibrators, name)().fit(logits[:40], target[:40])
    logits[4, 0] = logits[33, 1] = -torch.inf
    logits[7, 2] = torch.nan
    wide = logits.double()
    whole = renormalise_unmasked(model._unmasked_log_prob(replace_masked_logits(wide)), wide)
    monkeypatch.setattr("calibench.calibrators.base.rows_at_once", lambda _: 10)
    torch.testing.assert_close(model.log_prob(wide), whole, rtol=1e-15, atol=1e-15, equal_nan=True)
    torch.testing.assert_close(model(wide), whole.exp(), rtol=1e-14, atol=1e-15, equal_nan=True)


def test_probabilities_of_no_rows() -> None:
    logits = logits_of(30, 4)
    model = calibrators.TemperatureScaling().fit(logits, logits.argmax(1).roll(1))
    assert model(logits[:0]).shape == model.log_prob(logits[:0]).shape == (0, 4)


@pytest.mark.parametrize(
    ("name", "most"),
    [("TemperatureScaling", 16), ("VectorScaling", 16), ("EnsembleTemperatureScaling", 22)],
)
def test_applying_looks_at_the_logits_a_few_times(name: str, most: int) -> None:
    """Masks, logarithms of the mixture and copies of all rows took 5,000 x 100 logits 53 softmaxes."""
    logits = logits_of(500, 100)
    model = getattr(calibrators, name)().fit(logits, torch.arange(500) % 100)
    numbers = count_numbers(lambda: model(logits))
    read = {operation: n for operation, n in numbers.items() if operation.startswith("aten::")}
    passes = sum(n for operation, n in read.items() if operation not in VIEWS)
    assert passes / logits.numel() < most
    assert not numbers["aten::logaddexp"] + numbers["aten::isneginf"] + numbers["aten::log"]


def test_vmap_stands_for_many_sets() -> None:
    logits = logits_of(30, 4).double()
    model = calibrators.TemperatureScaling().fit(logits, logits.argmax(1).roll(1))
    sets = torch.stack([logits, 2 * logits])
    expected = torch.stack([model(logits), model(2 * logits)])
    torch.testing.assert_close(torch.func.vmap(model)(sets), expected)

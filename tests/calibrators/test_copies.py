"""Copies of an example are in one fold of every cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.calibrators import (
    Calibrator,
    IsotonicTopLabel,
    StructuredMatrixScaling,
    TemperatureScaling,
)
from calibench.calibrators.cross_validated import stratified_folds
from calibench.diagnosis.nested_cv import choose_calibrator
from calibench.tensors.row_copies import first_copies

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(200, 4, generator=GENERATOR, dtype=torch.float64)
TARGET = torch.multinomial(LOGITS.softmax(1), 1, generator=GENERATOR).squeeze(1)
TWICE = torch.cat([LOGITS, LOGITS]), torch.cat([TARGET, TARGET])


def test_copies_are_in_the_fold_of_the_first() -> None:
    fold = stratified_folds(TWICE[1], 5, TWICE[0])
    assert (fold[:200] == fold[200:]).all()
    assert fold.bincount(minlength=5).min() > 40
    without = stratified_folds(TARGET, 5, LOGITS)
    assert (without == stratified_folds(TARGET, 5)).all()  # nothing else moves


def test_rows_that_are_alike_by_chance_are_no_copies() -> None:
    coarse = torch.tensor([0.2, 0.3, 0.5]).log().double().repeat(200, 1)
    places = np.arange(200)
    target = np.zeros(200, dtype=int)
    assert (first_copies(coarse.numpy(), target) == places).all()
    rounded = np.random.default_rng(0).integers(0, 9, (200, 3)).astype(float)
    assert (first_copies(rounded, target) == places).all()
    other_labels = first_copies(TWICE[0].numpy(), np.repeat([0, 1], 200))
    assert (other_labels == np.arange(400)).all()


def test_a_set_of_one_example_alone_is_still_cut() -> None:
    rows = torch.randn(1, 4, generator=GENERATOR, dtype=torch.float64).repeat(30, 1)
    target = torch.zeros(30, dtype=torch.int64)
    assert len(stratified_folds(target, 5, rows).unique()) == 5


@pytest.mark.parametrize(
    "calibrator",
    [IsotonicTopLabel(), pytest.param(StructuredMatrixScaling(), marks=pytest.mark.slow)],
)
def test_what_is_cross_validated_does_not_profit_of_copies(calibrator: Calibrator) -> None:
    """Eight copies of each example are neighbours of each other: a map that learns by heart gains nothing by them."""
    logits, target = LOGITS[:60], TARGET[:60]
    single, repeated = (
        choose_calibrator(*rows, [TemperatureScaling(), calibrator]).nll
        for rows in ((logits, target), (logits.repeat(8, 1), target.repeat(8)))
    )
    name = type(calibrator).__name__
    assert repeated["raw"] == pytest.approx(single["raw"])
    assert repeated[name] > single[name] - 0.02

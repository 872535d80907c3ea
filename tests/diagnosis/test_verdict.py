"""The verdict and its power on models whose calibration is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from calibench.diagnosis.examples import LabelledExamples
from calibench.diagnosis.verdict import compute_power, measure_kuiper_error
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.verbs.doctor import doctor as examine

from .examples import examples

pytestmark = pytest.mark.usefixtures("all_draws")


def said(of: LabelledExamples) -> str:
    """The verdict in words."""
    return measure_kuiper_error(of).in_words(len(of))


@pytest.mark.parametrize(
    ("sharpness", "begins"), [(2.0, "overconfident by "), (0.5, "underconfident by ")]
)
def test_the_direction_is_found(sharpness: float, begins: str) -> None:
    assert said(examples(400, sharpness=sharpness)).startswith(begins)


def test_few_calibrated_models_are_rejected() -> None:
    lines = [said(examples(200, seed=seed)) for seed in range(100)]
    told = sum(
        not line.startswith("consistent with perfect calibration (n = 200)") for line in lines
    )
    assert told <= 12  # 5 are expected; more than 12 in 2 of 1,000 such tests


@pytest.mark.slow
def test_the_power_is_that_of_the_verdict() -> None:
    """Hits with the confidences' log-odds shifted so that they are 12 points fewer."""
    base = examples(2000)
    power = compute_power(base)
    assert power is not None
    assert power.needed[0.05] == pytest.approx(len(base) * (power.gap / 0.05) ** 2)
    needed = round(len(base) * (power.gap / 0.12) ** 2)
    variance = base.confidence * (1 - base.confidence)
    chance = base.confidence - 0.12 * variance / variance.mean()
    random, told = np.random.default_rng(0), 0
    for _ in range(100):
        rows = torch.from_numpy(random.integers(len(base), size=needed))
        hits = torch.from_numpy(random.random(needed)) < chance[rows]
        told += said(replace(base.select_rows(rows), correct=hits)).startswith("overconfident")
    assert 0.68 <= told / 100 <= 0.92  # 0.8, give or take three standard errors


def test_pairs_are_judged_by_their_confidence_not_by_the_larger_probability() -> None:
    confidence = np.repeat([0.1, 0.3], 500)
    correct = np.tile(np.arange(500) < 200, 2)  # 40 % are right
    pairs = LabelledExamples.from_predictions(ConfidencePairs(confidence, correct), 0.0)
    assert said(pairs).startswith("underconfident by 20.0 points")
    numbers = examine(confidence, correct, calibrators=["TemperatureScaling"]).lines[1]
    assert "mean confidence 20.0 %, accuracy 40.0 %, ECE 20.0 points" in numbers

"""Nested cross-validation: what it computes, and what it chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from calibench.calibrators import (
    IRM,
    HistogramBinning,
    MeanReplacement,
    TemperatureScaling,
    VectorScaling,
)
from calibench.calibrators.cross_validated import (
    choose_surely_best,
    default_candidates,
    example_nll,
    stratified_folds,
)
from calibench.diagnosis import nested_cv as of_doctor
from calibench.diagnosis.diagnosis import diagnose
from calibench.diagnosis.gain import Gain
from calibench.diagnosis.nested_cv import choose_calibrator
from calibench.statistics.number import RAW

from .examples import examples


@pytest.mark.slow
def test_the_gain_is_that_of_nested_cross_validation_done_by_hand() -> None:
    base = examples(90, sharpness=1.5)
    scores, target = base.scores, base.target
    calibrators = [TemperatureScaling(), VectorScaling()]
    found = choose_calibrator(scores, target, calibrators)
    fold = stratified_folds(target, 5)

    def scored(which: int, train: torch.Tensor, test: torch.Tensor) -> torch.Tensor:
        if which == 0:
            return example_nll(scores[test].log_softmax(1), target[test])
        model = calibrators[which - 1].fit(scores[train], target[train])
        return example_nll(model(scores[test]).log(), target[test])

    gains, picks = torch.empty(90, dtype=torch.float64), []
    for outer in range(5):
        inside = fold != outer
        inner = [
            torch.cat([scored(c, inside & (fold != j), fold == j) for j in range(5) if j != outer])
            for c in range(3)
        ]
        picks.append(choose_surely_best(torch.stack(inner), calibrators))
        test = fold == outer
        gains[test] = scored(0, inside, test) - scored(picks[-1], inside, test)
    assert found.gain.value == pytest.approx(float(gains.mean()), rel=1e-9)
    assert found.gain.low < found.gain.value < found.gain.high
    best = [RAW, "TemperatureScaling", "VectorScaling"].index(found.name)
    assert found.agreeing == picks.count(best)
    held = torch.cat([scored(best, fold != outer, fold == outer) for outer in range(5)])
    assert found.nll[found.name] == pytest.approx(float(held.mean()), rel=1e-9)
    after = example_nll(found.log_probs, target)
    assert float(after.mean()) == pytest.approx(float(held.mean()), rel=1e-9)


@pytest.mark.slow
def test_a_calibrated_model_gets_a_temperature_near_1() -> None:
    base = examples(200)
    found = diagnose(base).calibrator
    assert found is not None
    assert isinstance(found.choice, TemperatureScaling)
    assert float(found.choice.temperature) == pytest.approx(1, abs=0.15)


def test_a_model_that_every_map_harms_is_left_as_it_is() -> None:
    base = examples(200)
    assert not choose_calibrator(base.scores, base.target, [MeanReplacement()]).helps


def test_a_sharpened_model_gets_its_temperature_back() -> None:
    base = examples(2000, sharpness=2.0)
    found = choose_calibrator(base.scores, base.target, [TemperatureScaling(), IRM()], jobs=2)
    assert found.name == "TemperatureScaling"
    assert found.helps
    truth = Gain.from_nll(
        example_nll(base.scores.log_softmax(1), base.target),
        example_nll((base.scores / 2).log_softmax(1), base.target),
    )
    assert found.gain.low < truth.value < found.gain.high


def test_of_many_examples_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_doctor, "_VALUES", 400)
    monkeypatch.setattr(of_doctor, "_ROWS", 50)
    base = examples(300)
    found = choose_calibrator(base.scores, base.target, [TemperatureScaling()])
    assert len(found.rows.unique()) == len(found.rows) == len(found.log_probs) == 100


def test_matrices_are_not_tried_on_many_classes() -> None:
    counts = [len(default_candidates(k)) for k in (2, 100, 101, 1000)]
    assert np.diff(counts).tolist() == [0, -1, 0]


def test_a_calibrator_that_gives_exact_zeros_is_scored_with_a_floor() -> None:
    base = examples(60)
    found = choose_calibrator(base.scores, base.target, [HistogramBinning()])
    assert found.name == RAW
    assert found.nll[RAW] < found.nll["HistogramBinning"] < np.log(4 * 49)
    gain = Gain.from_nll(torch.zeros(2), torch.tensor([0.0, torch.inf]))
    assert str(gain) == "-inf [nan, nan]"


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_a_model_without_an_error_gets_a_calibrator_that_does_not_rule_one_out() -> None:
    """A temperature goes to 0 where all are right; an error among later examples must not cost hundreds of nats."""
    base = examples(100)
    right = replace(base, target=base.scores.argmax(1))
    found = diagnose(right, calibrators=[TemperatureScaling()]).calibrator
    assert found is not None
    assert float(found.log_prob(base.scores).min()) >= -np.log(4 * 101) - 1e-9
    alone = TemperatureScaling(shrinkage=False).fit(base.scores, right.target)
    assert float(alone.log_prob(base.scores).min()) < -10


def test_fewer_than_20_examples_are_refused() -> None:
    base = examples(19)
    with pytest.raises(ValueError, match="takes 20 examples, got 19"):
        choose_calibrator(base.scores, base.target, [TemperatureScaling()])

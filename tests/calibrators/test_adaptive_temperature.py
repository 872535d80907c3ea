from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn.functional import nll_loss

from calibench.calibrators import AdaptiveTemperatureScaling
from calibench.calibrators.temperature import expected_calibration_errors
from calibench.calibrators.temperature_rounds import RULES

from .conftest import drawn
from .test_real_logits import load

FORMER: dict[str, Any] = {"rule": "clamped", "initial_temperature": 1.0}  # the oracles' resolution


def ece(probs: Tensor, target: Tensor, n_bins: int) -> float:
    confidence = probs.amax(1)
    residual = confidence - (probs.argmax(1) == target).to(confidence)
    return expected_calibration_errors(confidence.numpy(), residual.numpy(), n_bins)


@pytest.mark.parametrize("n_bins", [10, 15])
def test_temperatures_are_the_oracles(
    ph10: dict[str, Tensor], numbers: dict[str, Any], n_bins: int
) -> None:
    logits, target = ph10["val_logits"].double(), ph10["val_target"]
    model = AdaptiveTemperatureScaling(n_bins=n_bins, **FORMER, shrinkage=False).fit(logits, target)
    expected = numbers["ats"][str(n_bins)]
    assert model.edges.tolist() == pytest.approx(expected["edges"], abs=1e-12)
    assert model.temperatures.tolist() == pytest.approx(expected["T"], abs=1e-9)
    assert ece(model(logits), target, 20) == pytest.approx(expected["val_ece20"], abs=1e-9)


def test_the_best_round_is_kept(ph10: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    logits, target = ph10["val_logits"], ph10["val_target"]
    best = numbers["ats"]["15"]["best_round"]
    full = AdaptiveTemperatureScaling(**FORMER, shrinkage=False).fit(logits, target)
    until = AdaptiveTemperatureScaling(rounds=best, **FORMER, shrinkage=False).fit(logits, target)
    before = AdaptiveTemperatureScaling(rounds=best - 1, **FORMER, shrinkage=False).fit(
        logits, target
    )
    assert torch.equal(until.temperatures, full.temperatures)
    assert not torch.equal(before.temperatures, full.temperatures)


@pytest.mark.parametrize("k", [4, 20])
def test_small_sets_are_fitted_together_as_each_alone(k: int) -> None:
    sets = [drawn(n, k, 2.0) for n in (30, 200, 4000, 90)]
    each = [AdaptiveTemperatureScaling().fit(*part) for part in sets]
    together = [*AdaptiveTemperatureScaling().fit_each(iter(sets))]
    for model, expected in zip(together, each, strict=True):
        assert model.num_classes == k
        assert model.uniform_share == expected.uniform_share
        assert torch.equal(model.edges, expected.edges)
        torch.testing.assert_close(model.temperatures, expected.temperatures, rtol=1e-12, atol=0)


def test_no_round_is_the_initial_temperature() -> None:
    logits, target = drawn(200, 4, 2.0)
    model = AdaptiveTemperatureScaling(rounds=0, shrinkage=False).fit(logits, target)
    torch.testing.assert_close(model(logits), (logits / 1.5).softmax(1))


def test_default_is_the_rule_by_hand(ph10: dict[str, Tensor]) -> None:
    """Linear in the gap, at most 0.05 a round, from 1.5, the round of the smallest ECE kept (numpy)."""
    logits, target = ph10["val_logits"].double().numpy(), ph10["val_target"].numpy()
    hit = logits.argmax(1) == target

    def confidence(temperature: np.ndarray) -> np.ndarray:
        return softmax(logits / temperature[:, None], axis=1).max(1)

    raw = confidence(np.ones(len(target)))
    bins = np.searchsorted(np.quantile(raw, np.arange(1, 15) / 15), raw, "left")
    found, best, smallest = np.full(15, 1.5), None, np.inf
    for _ in range(201):
        now = confidence(found[bins])
        cells = np.clip(np.ceil(now * 20) - 1, 0, 19).astype(int)
        error = sum(abs((now - hit)[cells == b].sum()) for b in range(20)) / len(target)
        if error < smallest:
            best, smallest = found.copy(), error
        gap = np.array([(now - hit)[bins == b].mean() for b in range(15)])
        found = np.clip(found + 0.05 * np.clip(gap / 0.1, -1, 1), 0.1, 10)
    model = AdaptiveTemperatureScaling(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    assert model.temperatures.tolist() == pytest.approx(best.tolist(), abs=1e-9)


@pytest.mark.slow
def test_a_bin_that_is_all_right_does_not_sink(shared: Path) -> None:
    """The former rule halves the temperature of such bins, and one certain error then costs dozens of nats."""
    folder = shared / "data" / "calibration-logits"
    if not folder.is_dir():
        pytest.skip("no real logits")
    better = []
    for path in sorted(folder.glob("*.npz")):
        logits, target = load(path)
        order = np.random.RandomState(0).permutation(len(target))
        val, test = order[: len(order) // 2], order[len(order) // 2 :]

        def nll(model: AdaptiveTemperatureScaling, fit: Any = (logits[val], target[val])) -> float:
            log_prob = model.fit(*fit).log_prob(logits[test])  # noqa: B023
            return nll_loss(log_prob, target[test]).item()  # noqa: B023

        better.append(
            nll(AdaptiveTemperatureScaling(shrinkage=False))
            < nll(AdaptiveTemperatureScaling(**FORMER, shrinkage=False))
        )
    assert sum(better) >= 10


# One round from T = 1 on two examples of gap 0.55 and -0.05: the step of each rule by hand.
STEPS = {
    "clamped": (1.05, 1 - 0.05 * 0.5),
    "clamped_multiplicative": (torch.tensor(0.05).exp().item(), torch.tensor(-0.025).exp().item()),
    "linear_clamped": (1.05, 1 - 0.05 * 0.5),
    "sign": (1.05, 0.95),
    "linear": (1 + 0.05 * 0.55, 1 - 0.05 * 0.05),
    "multiplicative": (torch.tensor(0.0275).exp().item(), torch.tensor(-0.0025).exp().item()),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules_by_hand(rule: str) -> None:
    moved = RULES[rule](np.ones(2), np.array([0.55, -0.05]), 0.05)
    assert moved.tolist() == pytest.approx(STEPS[rule], rel=1e-6)


def test_a_small_gap_takes_the_smallest_step_and_none_none() -> None:
    moved = RULES["clamped"](np.ones(3), np.array([1e-6, -1e-6, 0.0]), 0.05)
    assert moved.tolist() == pytest.approx([1.005, 0.995, 1.0])


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_lowers_the_error_and_stays_in_bounds(
    ph10: dict[str, Tensor], rule: str
) -> None:
    logits, target = ph10["val_logits"].double(), ph10["val_target"]
    model = AdaptiveTemperatureScaling(
        rule=rule, min_temperature=0.9, max_temperature=1.6, rounds=60, shrinkage=False
    ).fit(logits, target)
    assert ece(model(logits), target, 20) < ece(logits.softmax(1), target, 20)
    assert model.temperatures.min() >= 0.9
    assert model.temperatures.max() <= 1.6


def test_a_new_example_takes_the_temperature_of_its_raw_confidence() -> None:
    logits, target = drawn(500, 4, 2.0)
    model = AdaptiveTemperatureScaling(n_bins=4, shrinkage=False).fit(logits, target)
    bins = torch.bucketize(logits.softmax(1).amax(1), model.edges)
    expected = (logits / model.temperatures[bins].unsqueeze(1)).softmax(1)
    torch.testing.assert_close(model(logits), expected)
    assert bins.bincount().tolist() == [125, 125, 125, 125]


def test_saturated_confidences_keep_the_initial_temperature() -> None:
    target = torch.arange(5)
    model = AdaptiveTemperatureScaling(shrinkage=False).fit(1e4 * torch.eye(5), target)
    assert model.temperatures.tolist() == [1.5] * 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "`n_bins` must be a positive integer, got 0"),
        ({"ece_bins": -1}, "must be a positive integer, got -1"),
        ({"rounds": -1}, "`rounds` must be an integer >= 0, got -1"),
        ({"step": 0.0}, "`step` must be a finite number > 0, got 0.0"),
        ({"min_temperature": 2.0}, "in this order, got 2.0, 1.5 and 10.0"),
        ({"rule": "adam"}, "`rule` must be one of 'linear_clamped', .*, got 'adam'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdaptiveTemperatureScaling(**options, shrinkage=False)

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss
from torch import Tensor
from torch.nn.functional import cross_entropy

from calibench.calibrators import TemperatureScaling
from calibench.calibrators.temperature import (
    GRID_POINTS,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    TopConfidence,
    below_top,
    expected_calibration_errors,
    is_correct,
)

from .conftest import drawn


def fitted(logits: Tensor, target: Tensor, **options: Any) -> float:
    return TemperatureScaling(**options, shrinkage=False).fit(logits, target).temperature.item()


def test_nll_is_the_exact_optimum_of_the_oracles(
    ph10: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    found = fitted(ph10["val_logits"], ph10["val_target"])
    expected = numbers["temperature"]
    assert found == pytest.approx(expected["exact_nll"], rel=1e-7)
    assert found == pytest.approx(expected["mnm_ce"], rel=1e-6)
    assert found == pytest.approx(expected["nncal_bfgs"], rel=1e-6)
    # What stops short of the optimum is not reproduced.
    assert abs(found - expected["gpleiss_lbfgs"]) > 0.1


@pytest.mark.parametrize("truth", [0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
def test_nll_is_the_optimum_from_the_smallest_to_the_largest_temperature(truth: float) -> None:
    logits, target = drawn(1500, 5, truth)
    found = fitted(logits, target)

    def nll(log_temperature: float) -> float:
        return cross_entropy(logits / torch.tensor(log_temperature).double().exp(), target).item()

    best = minimize_scalar(
        nll, bounds=(-6, 6), method="bounded", options={"xatol": 1e-10, "maxiter": 500}
    )
    assert nll(torch.tensor(found).log().item()) <= best.fun + 1e-12
    inverse = torch.tensor(1 / found, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(cross_entropy(logits * inverse, target), inverse)
    # The derivative by log(1/T): zero to rounding, so T is right to far better than 1e-6.
    assert abs(slope.item() / found) < 1e-10
    assert found == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize("scale", [1e-2, 0.5, 30.0])
def test_scaled_logits_scale_the_temperature(objective: str, scale: float) -> None:
    logits, target = drawn(800, 4, 1.5)
    once = fitted(logits, target, objective=objective)
    if scale * once < MIN_TEMPERATURE * 10:
        logits = logits * 10
        once *= 10
    assert fitted(logits * scale, target, objective=objective) == pytest.approx(
        scale * once, rel=1e-8
    )


def ece_curve(logits: Tensor, target: Tensor, n_bins: int) -> Tensor:
    """The ECE at every temperature of the grid, (100,)."""
    shifted, hits = below_top(logits).float(), is_correct(logits, target).float()
    confidence_at = TopConfidence(shifted, torch.float32)
    confidence = [confidence_at(torch.full_like(hits, 1 / t)) for t in GRID_POINTS]
    parts = [(row.numpy(), (row - hits).numpy()) for row in confidence]
    return torch.tensor(
        [expected_calibration_errors(*of, n_bins) for of in parts], dtype=torch.float64
    )


def test_ece_grid_is_the_papers(ph10: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    logits, target = ph10["val_logits"], ph10["val_target"]
    expected = numbers["temperature"]
    assert len(GRID_POINTS) == 100
    assert GRID_POINTS[0] == 0.1
    assert GRID_POINTS[-1] == 9.99999999999998
    assert fitted(logits, target, objective="ece") == expected["fc_grid_ece15"]
    assert fitted(logits, target, objective="ece", n_bins=20) == expected["fc_grid_ece20"]


def test_ece_curve_is_the_reference_loops(ph10: dict[str, Tensor]) -> None:
    logits = ph10["val_logits"]
    curve = ece_curve(logits, ph10["val_target"], 15)
    torch.testing.assert_close(curve, ph10["fc_val_ece_curve"], atol=2e-6, rtol=0)


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
@pytest.mark.parametrize("seed", range(12))
def test_ece_search_is_the_whole_grids_minimum(seed: int) -> None:
    truth = 10 ** (-1 + 0.2 * seed)
    logits, target = drawn(60 if seed % 2 else 400, 3 + seed, truth, seed=seed)
    found = fitted(logits, target, objective="ece", n_bins=5 + seed)
    assert found == GRID_POINTS[int(ece_curve(logits, target, 5 + seed).argmin())]


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_smallest_temperature_wins_a_tie(numbers: dict[str, Any]) -> None:
    sure = 50.0 * torch.eye(10)
    assert fitted(sure, torch.arange(10), objective="ece") == 0.1
    half_wrong = (torch.arange(10) + torch.arange(10) % 2) % 10
    found = fitted(sure, half_wrong, objective="ece")
    assert found == numbers["temperature"]["fc_sat_mixed"]


def test_brier_is_mix_n_matchs(ph10: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    found = fitted(ph10["val_logits"], ph10["val_target"], objective="brier")
    assert found == pytest.approx(numbers["temperature"]["mnm_mse"], rel=1e-6)


@pytest.mark.parametrize(
    "truth",
    [
        0.05,
        pytest.param(0.5, marks=pytest.mark.slow),
        3.0,
        pytest.param(50.0, marks=pytest.mark.slow),
    ],
)
def test_brier_is_the_best_of_a_fine_grid(truth: float) -> None:
    logits, target = drawn(600, 5, truth, seed=1)
    onehot = torch.eye(5, dtype=torch.float64)[target]

    def brier(temperature: float) -> float:
        return ((logits / temperature).softmax(1) - onehot).square().mean().item()

    grid = torch.logspace(-2, 4, 2000).tolist()
    found = fitted(logits, target, objective="brier")
    assert brier(found) <= min(map(brier, grid))


def test_probabilities_are_softmax_of_scaled_logits() -> None:
    logits, target = drawn(300, 4, 2.0)
    model = TemperatureScaling(shrinkage=False).fit(logits, target)
    torch.testing.assert_close(model(logits), (logits / model.temperature).softmax(1))
    assert model.parameters_dict() == {"temperature": model.temperature.item()}
    expected = log_loss(target.numpy(), (logits / model.temperature).softmax(1).numpy())
    assert -model.log_prob(logits).gather(1, target[:, None]).mean().item() == pytest.approx(
        expected
    )


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_degenerate_sets_give_the_documented_temperature() -> None:
    logits, _ = drawn(200, 4, 1.0)
    right, wrong = logits.argmax(1), logits.argmin(1)
    assert fitted(logits, right) == pytest.approx(MIN_TEMPERATURE)
    assert fitted(logits, wrong) == pytest.approx(MAX_TEMPERATURE)
    assert fitted(logits, wrong, objective="brier") == pytest.approx(MAX_TEMPERATURE)
    # Flat objectives: equal logits, or right answers that float64 cannot make surer.
    for objective in ("nll", "brier"):
        assert fitted(torch.zeros(8, 3), torch.zeros(8).long(), objective=objective) == 1
        assert fitted(1e4 * torch.eye(5), torch.arange(5), objective=objective) == 1


def test_huge_logits_are_scaled_to_their_accuracy() -> None:
    # Sure to 1e4 and right three times of four: the optimum is where confidence equals accuracy.
    logits = 1e4 * torch.eye(2).repeat(4, 1)
    target = torch.tensor([0, 1, 0, 1, 0, 1, 1, 0])
    model = TemperatureScaling(shrinkage=False).fit(logits, target)
    torch.testing.assert_close(model(logits).amax(1), torch.full((8,), 0.75))


def test_wrong_options_are_named() -> None:
    with pytest.raises(
        ValueError, match="`objective` must be one of 'nll', 'ece', 'brier', got 'mse'"
    ):
        TemperatureScaling(objective="mse", shrinkage=False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`n_bins` must be a positive integer, got 0"):
        TemperatureScaling(objective="ece", n_bins=0, shrinkage=False)


def test_probabilities_are_no_logits_to_fit_on(ph10: dict[str, Tensor]) -> None:
    logits, target = ph10["val_logits"], ph10["val_target"]
    probs = logits.softmax(1)
    for rounded in (probs, (100 * probs).round() / 100, probs.to(torch.bfloat16)):
        with pytest.raises(ValueError, match=r"`logits` lie in \[0, 1\].* give their logarithm"):
            TemperatureScaling().fit(rounded, target)

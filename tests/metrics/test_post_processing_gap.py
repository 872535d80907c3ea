"""The Lipschitz program against a general solver and its laws; the temperature's gain; a known posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear

from calibench.calibrators import TemperatureScaling
from calibench.data import SyntheticGaussiansDataModule
from calibench.evaluation import fit_calibrator, score_set, temperature_gap
from calibench.metrics import lipschitz_calibration_error
from calibench.metrics.post_processing_gap import best_lipschitz_map, post_processing_gap
from calibench.metrics.soft_label_scores import posterior_values

from ..evaluation.examples import predictions


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_the_map_is_the_solution_of_the_quadratic_program(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(10):
        values, weight = np.sort(rng.random(n)), rng.random(n) + 0.1
        accuracy = rng.choice([0.0, 1.0, 0.3], size=n)
        found = best_lipschitz_map(values, accuracy, weight)
        steps = np.diff(found)
        assert (steps >= -1e-12).all()
        assert (steps <= 2 * np.diff(values) + 1e-12).all()
        # Increments in boxes: kappa = L x, 0 <= x_j <= 2 (v_j - v_{j-1}).
        design = np.sqrt(weight)[:, None] * np.tril(np.ones((n, n)))
        upper = np.r_[1.0, 2 * np.diff(values)] + 1e-15
        solved = lsq_linear(
            design, np.sqrt(weight) * accuracy, bounds=(0, upper), method="bvls", tol=1e-14
        )
        assert (weight * (found - accuracy) ** 2).sum() == pytest.approx(2 * solved.cost, abs=1e-9)


@pytest.mark.parametrize("sharp", [0.5, 1.0, 3.0, 30.0])
def test_gap_lies_between_the_square_and_the_double_of_smce(sharp: float) -> None:
    made = predictions(400, sharp=sharp)
    probs, target = torch.from_numpy(made.logits).double().softmax(1), torch.from_numpy(made.target)
    smce, gap = (
        float(lipschitz_calibration_error(probs, target)),
        post_processing_gap(probs, target),
    )
    assert smce**2 - 1e-6 <= gap <= 2 * smce + 1e-6


def test_gap_of_a_constant_confidence_and_of_none() -> None:
    probs, target = (
        torch.tensor([[0.875, 0.125]]).expand(8, 2),
        torch.tensor([0, 0, 0, 0, 0, 0, 1, 1]),
    )
    assert post_processing_gap(probs, target) == pytest.approx((0.875 - 0.75) ** 2)
    assert math.isnan(post_processing_gap(probs[:0], target[:0]))


@pytest.mark.slow
def test_many_values_on_a_grid_are_close_to_the_exact_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = predictions(3000, k=3, sharp=2.0)
    noise = 1e-3 * np.random.default_rng(0).normal(size=made.logits.shape)
    probs, target = torch.from_numpy(made.logits + noise).softmax(1), torch.from_numpy(made.target)
    exact = post_processing_gap(probs, target)
    monkeypatch.setattr("calibench.metrics.post_processing_gap._MOST_VALUES", 1000)
    assert post_processing_gap(probs, target) == pytest.approx(exact, abs=2 / 999)


def test_temperature_gap_is_before_minus_after() -> None:
    val, test = predictions(split="val"), predictions()
    gap = temperature_gap(val, test)
    after = score_set(test, fit_calibrator(TemperatureScaling(shrinkage=False), val), n_bins=(15,))
    before = score_set(test, n_bins=(15,))
    assert gap == {b.key.metric: b.value - a.value for b, a in zip(before, after, strict=True)}
    assert gap["nll"] > 0  # the labels were drawn at half the logits
    assert gap["error"] == 0


def test_confidence_against_the_posterior_of_gaussians() -> None:
    data = SyntheticGaussiansDataModule(num_gaussians=3, train_per_class=50, test_per_class=200)
    data.setup()
    posterior = data.posterior(data.splits.test.inputs).double()

    def found(probs: torch.Tensor, eta: torch.Tensor) -> dict[str, float]:
        values = posterior_values(probs.log(), eta)
        return {name.removeprefix("posterior_"): float(v.mean()) for name, v in values.items()}

    exact = found(posterior, posterior)
    assert [exact[n] for n in ("overconfident", "underconfident", "excess", "shortfall")] == [0] * 4
    flat = found(torch.full_like(posterior, 1 / 3), posterior)
    assert flat["overconfident"] == 0
    assert flat["shortfall"] == pytest.approx(float(posterior.amax(1).mean()) - 1 / 3)
    uncertain = posterior[posterior.amax(1) < 0.999]
    sharper = (3 * uncertain.log()).softmax(1)
    sharp = found(sharper, uncertain)
    assert sharp["overconfident"] == 1
    assert sharp["excess"] == pytest.approx(float((sharper.amax(1) - uncertain.amax(1)).mean()))


def test_confidence_against_the_posterior_by_hand() -> None:
    posterior = torch.tensor([[0.7, 0.3], [0.4, 0.6]])
    values = posterior_values(torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log(), posterior)
    found = {name.removeprefix("posterior_"): float(of.mean()) for name, of in values.items()}
    assert (found["overconfident"], found["underconfident"]) == (0.5, 0.5)
    assert (found["excess"], found["shortfall"]) == pytest.approx((0.1, 0.05))

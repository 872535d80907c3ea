"""The focal family: schedules, sample-dependent gammas, runners-up."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import calibench.losses as L
from calibench.losses.focal import (
    below_target,
    flsd_gamma,
    highest_other,
    safe_power,
    second_largest,
)

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "DualFocalLoss": lambda: L.DualFocalLoss(gamma=5.0),
    "DualFocalLoss second_largest": lambda: L.DualFocalLoss(gamma=0.5, runner_up="second_largest"),
    "DualFocalLoss highest_other": lambda: L.DualFocalLoss(gamma=3.0, runner_up="highest_other"),
    "FocalLoss": lambda: L.FocalLoss(gamma=2.6),
    "FocalLoss 0.5": lambda: L.FocalLoss(gamma=0.5),
    "FocalLoss schedule": lambda: L.FocalLoss(gamma=5.0, schedule=[(1, 3.0), (2, 2.0)]),
    "InverseFocalLoss": lambda: L.InverseFocalLoss(gamma=2.0),
}


def test_schedule_holds_from_its_epoch_on_and_survives_a_checkpoint() -> None:
    loss = L.FocalLoss(gamma=5.0, schedule=[(100, 3.0), (250, 1.0)])
    gammas = {}
    for epoch in (0, 99, 100, 249, 250, 349):
        loss.on_train_epoch_start(epoch, 350)
        gammas[epoch] = loss.gamma.item()
    assert gammas == {0: 5.0, 99: 5.0, 100: 3.0, 249: 3.0, 250: 1.0, 349: 1.0}
    resumed = L.FocalLoss(gamma=5.0, schedule=[(100, 3.0), (250, 1.0)])
    resumed.load_state_dict(loss.state_dict())  # within an epoch: no moment is called
    assert resumed.gamma.item() == 1.0


def test_schedule_may_come_from_yaml_as_lists() -> None:
    loss = L.FocalLoss(gamma=5.0, schedule=[[0, 4.0]])  # type: ignore[list-item]
    loss.on_train_epoch_start(0, 2)
    assert loss.gamma.item() == 4.0


@pytest.mark.parametrize("schedule", [[(5, 1.0), (3, 2.0)], [(3, 1.0), (3, 2.0)], [(-1, 1.0)]])
def test_schedule_epochs_must_increase(schedule: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="`schedule` must name increasing epochs"):
        L.FocalLoss(gamma=1.0, schedule=schedule)


def test_flsd_gamma_steps() -> None:
    own = torch.tensor([0.05, 0.1999, 0.2001, 0.4999, 0.5001, 1.0], dtype=torch.float64)
    assert flsd_gamma(-own.log(), 2.0).tolist() == [5, 5, 3, 3, 2, 2]


def test_flsd_edges_belong_to_the_upper_step() -> None:
    # these probabilities come out exactly
    half = torch.tensor([0.5], dtype=torch.float64)
    assert torch.exp(half.log()) == 0.5
    assert flsd_gamma(-half.log(), 1.0).item() == 1.0


# the true class, 0, is first; second; last, so that nobody is below; tied, so that one is strictly below
PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
TARGET = torch.tensor([0, 0, 0, 0])


@pytest.mark.parametrize(
    ("runner_up", "expected"),
    [
        (below_target, [0.3, 0.2, 0.0, 0.2]),
        (second_largest, [0.3, 0.3, 0.3, 0.4]),
        (highest_other, [0.3, 0.5, 0.5, 0.4]),
    ],
)
def test_readings_of_the_runner_up(runner_up: Any, expected: list[float]) -> None:
    torch.testing.assert_close(runner_up(PROBS.log(), TARGET), torch.tensor(expected))


@pytest.mark.parametrize("name", ["below_target", "second_largest", "highest_other"])
def test_dual_focal_by_hand(name: Any) -> None:
    runners_up = {
        "below_target": [0.3, 0.2, 0.0],
        "second_largest": [0.3, 0.3, 0.3],
        "highest_other": [0.3, 0.5, 0.5],
    }
    logits, target = PROBS[:3].double().log(), TARGET[:3]
    own, other = PROBS[:3, 0].double(), torch.tensor(runners_up[name], dtype=torch.float64)
    expected = -((1 - own + other) ** 3 * own.log()).mean()
    loss = L.DualFocalLoss(gamma=3.0, runner_up=name)
    torch.testing.assert_close(loss(logits, target), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: L.FocalLoss(gamma=-1.0),
        lambda: L.FocalLoss(gamma=float("nan")),
        lambda: L.FocalLoss(gamma=1.0, schedule=[(2, -1.0)]),
        lambda: L.InverseFocalLoss(gamma=-0.5),
        lambda: L.FLSDLoss(gamma=-3.0),
        lambda: L.DualFocalLoss(gamma=-2.0),
        lambda: L.FocalGRALoss(gamma=-2.0),
        lambda: L.BrierWeightedLoss(gamma=-2.0),
        lambda: L.FocalCalibrationLoss(gamma=-2.0, weight=1.0),
    ],
)
def test_negative_gamma_is_refused(build: Any) -> None:
    with pytest.raises(ValueError, match="`gamma` must be a finite number >= 0, got"):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: L.LabelSmoothingLoss(smoothing=1.0), r"`smoothing` must lie in \[0, 1\), got 1.0"),
        (lambda: L.LabelSmoothingLoss(mode="other"), "`mode` must be one of 'uniform', 'off_target'"),
        (lambda: L.DualFocalLoss(gamma=1.0, runner_up="x"), "`runner_up` must be one of"),
        (lambda: L.FocalCalibrationLoss(gamma=1.0, weight=-1.0), "`weight` must be a finite"),
        (lambda: L.FocalCalibrationLoss(gamma=1.0, weight=1.0, norm="l3"), "`norm` must be one of"),
        (lambda: L.BrierWeightedLoss(gamma=1.0, beta=0.5), "`beta` must be a finite number >= 1"),
        (lambda: L.AdaFocalLoss(n_bins=0), "`n_bins` must be a positive integer, got 0"),
        (lambda: L.AdaFocalLoss(gamma_initial=30.0), "`gamma_initial` must lie in"),
        (lambda: L.GenerativeFocalLoss(gamma=float("inf")), "`gamma` must be finite, got inf"),
        (lambda: L.LDAMLoss(scale=0.0), "`scale` must be a finite number > 0, got 0.0"),
        (lambda: L.WeightedMMCELoss(variant="paper"), "`variant` must be one of"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_power_and_its_slope_are_finite_at_0(gamma: float) -> None:
    base = torch.tensor([0.0, 0.3, 1.0], requires_grad=True)
    value = safe_power(base, gamma)
    torch.testing.assert_close(value, base.pow(gamma))
    (slope,) = torch.autograd.grad(value.sum(), base)
    assert slope.isfinite().all()
    torch.testing.assert_close(slope[1:], gamma * base[1:].detach() ** (gamma - 1))

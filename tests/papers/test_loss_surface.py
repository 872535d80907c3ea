"""Weights of losses equal their formulas; crossing and root equal those of the closed forms; the command draws any loss."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import brentq
from torch import Tensor

from calibench.losses import (
    BrierLoss,
    BSCEGRALoss,
    CrossEntropyLoss,
    DualFocalGRALoss,
    FocalCalibrationLoss,
    FocalGRALoss,
    FocalLoss,
    MMCELoss,
)
from tests.papers.scripts import exit_code, load_script

loss_surface = load_script("bsce_gra", "loss_surface")
Surface, Loss = loss_surface.Surface, Callable[[Tensor, Tensor], Tensor]

GRID = np.linspace(1e-4, 1 - 1e-4, 26)


@pytest.fixture(autouse=True)
def _few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the curves and of the slices of the simplex, as every point is a batch of its own."""
    monkeypatch.setattr(loss_surface, "GRID", GRID)
    monkeypatch.setattr(loss_surface, "STEPS", 3)


def g(p: float, gamma: float) -> float:
    """BSCE-GRA, section 4.1."""
    return float((1 - p) ** gamma - gamma * p * (1 - p) ** (gamma - 1) * np.log(p))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0, 5.0])
def test_the_gradient_weight_of_focal_loss_is_g(gamma: float) -> None:
    loss = FocalLoss(gamma=gamma)
    for p in (0.05, 0.3, 0.9):
        weights = loss_surface.compute_weights(loss, loss_surface.point_of_target(p))
        assert weights.gradient == pytest.approx(g(p, gamma))
        assert weights.value == pytest.approx((1 - p) ** gamma)


def on_slice(loss: Loss, p: float = 0.4) -> np.ndarray:
    return np.array(
        [
            loss_surface.compute_weights(loss, point).gradient
            for point in loss_surface.sample_slice(p, 6)
        ]
    )


def test_weights_over_the_simplex() -> None:
    """u_FL is constant along p2, p3; u_DFL sees the runner-up; u_BS all classes (BSCE-GRA, Figure 2)."""
    points = loss_surface.sample_slice(0.4, 6)
    np.testing.assert_allclose(points.sum(1), 1)
    assert len({tuple(point) for point in points}) == len(points) == 28
    np.testing.assert_allclose(on_slice(FocalGRALoss(gamma=1.0)), 0.6, rtol=1e-9)
    below = np.where(points[:, 1:] < 0.4, points[:, 1:], 0).max(1)
    np.testing.assert_allclose(on_slice(DualFocalGRALoss(gamma=1.0)), 0.6 + below, rtol=1e-9)
    brier = 0.36 + np.square(points[:, 1:]).sum(1)
    np.testing.assert_allclose(on_slice(BSCEGRALoss(gamma=2.0)), brier, rtol=1e-9)
    assert np.ptp(brier) > 0.2


@pytest.mark.parametrize(("gamma", "published"), [(3.0, 0.25), (5.0, 0.2)])
def test_crossing_of_focal_loss(gamma: float, published: float) -> None:
    """Mukhoti et al. (2020) take gamma 5 below p = .2 and 3 from there on for such crossings, of .2 and .25."""
    places = Surface("focal", FocalLoss(gamma=gamma)).places
    assert places["crossing"] == pytest.approx(
        brentq(lambda p: g(p, gamma) - 1, 0.1, 0.9), abs=1e-8
    )
    assert places["crossing"] == pytest.approx(published, abs=0.01)
    assert places["peak"] == GRID[np.argmax([g(p, gamma) for p in GRID])]


def phi(p: float, posterior: float, gamma: float, weight: float) -> float:
    """-dR/dp of R = eta l(p) + (1 - eta) l(q), q = (1 - p) / 3, for FCL with four classes."""

    def slope_of_focal(p: float) -> float:  # -d/dp of -(1 - p)^gamma log p
        return g(p, gamma) / p

    q = (1 - p) / 3
    distance = posterior * 2 * (1 - p) * (1 + 1 / 3)
    others = (1 - posterior) * (-2 * p - 2 / 3 * (1 - q) + 4 / 3 * q)
    focal = posterior * slope_of_focal(p) - (1 - posterior) * slope_of_focal(q) / 3
    return focal + weight * (distance + others)


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "weight"), [(2.0, 0.5), (5.0, 4.5)])
def test_phi_of_the_focal_calibration_loss_has_one_root(gamma: float, weight: float) -> None:
    """FCL, Figure 5, for values of its appendix A.10."""
    surface = Surface("fcl", FocalCalibrationLoss(gamma=gamma, weight=weight), posterior=0.7)
    expected = [phi(p, 0.7, gamma, weight) for p in GRID]
    np.testing.assert_allclose(surface.curves["phi"], expected, rtol=1e-6, atol=1e-8)
    assert np.sum(np.diff(np.sign(expected)) != 0) == 1
    root = brentq(phi, 0.3, 0.99, args=(0.7, gamma, weight))
    assert surface.places["root"] == pytest.approx(root, abs=1e-8)
    alone = Surface("focal", FocalLoss(gamma=gamma), posterior=0.7).places["root"]
    assert alone is not None
    assert alone < root < 0.7  # between focal loss's and the truth


@pytest.mark.parametrize("loss", [CrossEntropyLoss(), BrierLoss()])
def test_a_proper_loss_rests_at_the_truth(loss: Loss) -> None:
    assert Surface("proper", loss, posterior=0.65).places["root"] == pytest.approx(0.65, abs=1e-8)


@pytest.mark.slow
def test_any_loss_has_numbers() -> None:
    rows = list(Surface("mmce", MMCELoss(weight=2.0)).numbers())
    assert {row["what"] for row in rows} >= {"gradient weight", "value weight", "phi", "surface"}
    assert Surface("ce", CrossEntropyLoss()).places["peak"] is None


def squared(logits: Tensor, target: Tensor) -> Tensor:
    """Somebody's own loss."""
    return (logits.softmax(1) - F.one_hot(target, logits.shape[1])).square().sum(1).mean()


@pytest.mark.slow
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "surface.svg"
    command = ["-o", str(picture), "FocalLoss:gamma=3"]
    own = "tests.papers.test_loss_surface.squared"
    assert exit_code(loss_surface, [*command, own, "focal_calibration@cifar10/resnet50"]) == 0
    out, drawn = capsys.readouterr().out, picture.read_text()
    with picture.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for text in ("FocalLoss:gamma=3", own, "focal_calibration@cifar10/resnet50"):
        assert text in drawn
        assert text in out
    places_by_loss = {(row["loss"], row["what"]): row["value"] for row in rows if not row["p1"]}
    assert float(places_by_loss["FocalLoss:gamma=3", "crossing"]) == pytest.approx(0.253, abs=1e-3)
    assert float(places_by_loss[own, "root"]) == pytest.approx(0.8, abs=1e-6)
    assert "0.253" in out
    assert torch.is_grad_enabled()
    for arguments, problem in {
        ("FocalLos:gamma=3",): "did you mean FocalLoss",
        ("FocalLoss:gamma",): "NAME=VALUE is expected",
        ("--posterior", "1"): "`--posterior` must lie in (0, 1)",
    }.items():
        assert exit_code(loss_surface, [*command, *arguments]) == 2
        assert problem in capsys.readouterr().err

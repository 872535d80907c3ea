"""Boundaries of the two moons: the slope of a linear network by its formula; the command and its numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import Tensor

from calibench.analyses import boundary
from calibench.analyses.arguments import Training
from calibench.analyses.boundary import (
    WINDOW,
    boundary_points,
    field,
    moons,
    slope_along_boundary,
    trained,
)
from calibench.cli import main
from calibench.losses import CrossEntropyLoss

WEIGHT = torch.tensor([3.0, 4.0])


def linear(points: Tensor) -> Tensor:
    """Logits whose difference is w x - 1."""
    return torch.stack([torch.zeros(len(points)), points @ WEIGHT - 1], dim=1)


def test_the_slope_of_a_logistic_regression_is_a_quarter_of_its_weights_length() -> None:
    assert slope_along_boundary(linear) == pytest.approx(5 / 4, rel=1e-3)
    found = boundary_points(*field(linear))
    left, right, bottom, top = WINDOW
    assert ((found @ WEIGHT - 1).abs() < 2e-3).all()
    assert (found >= torch.tensor([left, bottom])).all()
    assert (found <= torch.tensor([right, top])).all()


def test_without_a_boundary_there_is_no_slope() -> None:
    assert torch.tensor(slope_along_boundary(lambda x: torch.eye(2)[0].expand(len(x), 2))).isnan()


def test_a_network_learns_the_moons() -> None:
    how = Training(epochs=150, lr=0.02, noise=0.2)
    found = trained("ce", CrossEntropyLoss(), 1, how)
    assert found.error < 0.06
    assert 0 < found.ece < 0.1
    assert found.slope > 0.5
    again = trained("ce", CrossEntropyLoss(), 1, how)
    assert (again.error, again.ece, again.slope) == (found.error, found.ece, found.slope)
    assert torch.equal(moons(10, noise=0.2, seed=3)[0], moons(10, noise=0.2, seed=3)[0])


def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundary, "GRID", 21)
    monkeypatch.setattr(boundary, "TEST", 500)
    picture = tmp_path / "boundary.svg"
    command = ["analyse", "boundary", "--epochs", "5", "--seeds", "2", "-o", str(picture)]
    assert main(command) == 0
    out, drawn = capsys.readouterr().out, picture.read_text()
    with picture.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    losses = {
        "CrossEntropyLoss", "FocalLoss:gamma=10", "FocalCalibrationLoss:gamma=10,weight=1.5",
    }  # fmt: skip
    assert {(row["loss"], row["seed"]) for row in rows} == {(x, s) for x in losses for s in "12"}
    for text in losses:
        assert text in out
        assert text.partition(":")[0] in drawn  # a long title is broken
    assert main([*command, "--noise", "-1"]) == 2
    assert "`--noise` must be a finite number >= 0" in capsys.readouterr().err

"""Boundaries of the two moons: the slope of a linear network by its formula; the command and its numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import Tensor

from calibench.losses import CrossEntropyLoss
from tests.papers.scripts import exit_code, load_script

boundary = load_script("fcl", "boundary")

WEIGHT = torch.tensor([3.0, 4.0])


def linear(points: Tensor) -> Tensor:
    """Logits whose difference is w x - 1."""
    return torch.stack([torch.zeros(len(points)), points @ WEIGHT - 1], dim=1)


def test_the_slope_of_a_logistic_regression_is_a_quarter_of_its_weights_length() -> None:
    assert boundary.slope_along_boundary(linear) == pytest.approx(5 / 4, rel=1e-3)
    points = boundary.find_boundary(*boundary.probability_field(linear))
    left, right, bottom, top = boundary.WINDOW
    assert ((points @ WEIGHT - 1).abs() < 2e-3).all()
    assert (points >= torch.tensor([left, bottom])).all()
    assert (points <= torch.tensor([right, top])).all()


def test_without_a_boundary_there_is_no_slope() -> None:
    assert torch.tensor(
        boundary.slope_along_boundary(lambda x: torch.eye(2)[0].expand(len(x), 2))
    ).isnan()


@pytest.mark.slow
def test_a_network_learns_the_moons() -> None:
    training = boundary.Training(epochs=150, lr=0.02, noise=0.2)
    network = boundary.train_on_moons("ce", CrossEntropyLoss(), 1, training)
    assert network.error < 0.06
    assert 0 < network.ece < 0.1
    assert network.slope > 0.5
    again = boundary.train_on_moons("ce", CrossEntropyLoss(), 1, training)
    assert (again.error, again.ece, again.slope) == (network.error, network.ece, network.slope)
    assert torch.equal(*(boundary.sample_moons(10, noise=0.2, seed=3)[0] for _ in range(2)))


@pytest.mark.slow
def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundary, "GRID", 21)
    monkeypatch.setattr(boundary, "TEST", 500)
    picture = tmp_path / "boundary.svg"
    command = ["--epochs", "5", "--seeds", "2", "-o", str(picture)]
    assert exit_code(boundary, command) == 0
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
    assert exit_code(boundary, [*command, "--noise", "-1"]) == 2
    assert "`--noise` must be a finite number >= 0" in capsys.readouterr().err

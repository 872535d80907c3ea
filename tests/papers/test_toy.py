"""The toy study: its measures by hand, an identity, and that uncertainty follows the error."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.papers.scripts import exit_code, load_script

toy = load_script("bsce_gra", "toy")


def test_measures_by_hand() -> None:
    p, y = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64), torch.tensor([1])
    assert toy.focal_weight(p, y, 2.0, 1.0).item() == pytest.approx(0.49)
    assert toy.dual_focal_weight(p, y, 1.0, 1.0).item() == pytest.approx(0.7 + 0.3)
    assert toy.generalised_brier_weight(p, y, 1.0, 2.0).item() == pytest.approx(
        (0.25 + 0.49 + 0.04) ** 0.5
    )
    eta = torch.tensor([[0.1, 0.9, 0.0]], dtype=torch.float64)
    errors = {name: error(eta, p, y).item() for name, error in toy.ERRORS.items()}
    expected = {"l2": (0.16 + 0.36 + 0.04) ** 0.5, "target": 0.6, "signed": 0.6}
    assert errors == pytest.approx(expected)


@pytest.fixture(scope="module")
def correlations() -> list[object]:
    return list(toy.compute_correlations(1))


def test_gbs_with_gamma_and_beta_one_is_focal(correlations: list[object]) -> None:
    """Then it is 2 (1 - p_y), so its correlation equals focal's."""
    plain = [one for one in correlations if (one.gamma, one.beta) == (1.0, 1.0)]
    for error in toy.ERRORS:
        by = {one.measure: one.pearson for one in plain if one.error == error}
        assert by["gBS"] == pytest.approx(by["FL"], abs=1e-9)


def test_uncertainty_follows_the_error(correlations: list[object]) -> None:
    assert len(correlations) == 3 * len(toy.GAMMAS) * (1 + 1 + len(toy.BETAS))
    assert all(-1 <= one.pearson <= 1 for one in correlations)
    assert all(one.pearson > 0.3 for one in correlations if one.error == "l2" and one.gamma == 1.0)


@pytest.mark.slow
def test_a_run_is_repeatable(correlations: list[object]) -> None:
    assert list(toy.compute_correlations(1)) == correlations


def test_a_network_that_diverged_is_left_out_and_counted(correlations: list[object]) -> None:
    lost = [replace(one, run=2, pearson=math.nan) for one in correlations]
    grid, alone = toy.build_table([*correlations, *lost]), toy.build_table(correlations)
    assert grid.rows == alone.rows
    assert grid.footer[-1] == "left out: 1 of 2 networks diverged at this learning rate"


@pytest.mark.slow
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "toy.svg"
    assert exit_code(toy, ["--runs", "1", "-o", str(file)]) == 0
    assert "published" in file.read_text()
    with file.with_suffix(".csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert {row["measure"] for row in rows} == {"FL", "DFL", "gBS"}
    assert "published" in capsys.readouterr().out
    assert exit_code(toy, ["-o", "toy.jpg"]) == 2
    assert "must end in .csv, .png" in capsys.readouterr().err
    assert exit_code(toy, ["--runs", "0"]) == 2
    error = capsys.readouterr().err
    assert error == "toy.py: error: `--runs` must be a positive integer, got 0.\n"

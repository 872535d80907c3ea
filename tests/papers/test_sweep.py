"""Metrics over a key: values and bands by hand, several losses, a calibrator's own argument, wrong keys."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from calibench.ranking import Column, read_results
from tests.papers.scripts import exit_code, load_script
from tests.run_folders import settings_of, write_run

script = load_script("fcl", "sweep")

ECE = Column("ece")


def weighted(root: Path, weight: float, seed: int, **more: Any) -> None:
    settings = settings_of("FocalCalibrationLoss", gamma=3.0, weight=weight) | more
    values = {"ece": 0.01 * (weight + seed), "ece@TemperatureScaling": 0.005}
    write_run(root, loss="FocalCalibrationLoss", settings=settings, seed=seed, values=values)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for weight in (2.0, 0.0, 10.0):
        for seed in (1, 3):
            weighted(tmp_path, weight, seed)
    write_run(tmp_path)  # cross-entropy has no weight
    return tmp_path


def test_means_and_bands(results: Path) -> None:
    points = script.collect_points(
        read_results(results).records, "model.loss.weight", [ECE], ["raw"]
    )
    lines = script.group_lines(points, ECE)
    ((name, of),) = lines.items()
    assert name == ("FocalCalibration", "raw")
    assert list(of) == [0.0, 2.0, 10.0]
    assert of[2.0] == pytest.approx([0.03, 0.05])
    axes = script.draw_lines(Figure().subplots(), lines, x="weight", y="ECE %", scale=100)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [(0, 2), (2, 4), (10, 12)])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(12 + 2**0.5)


def test_a_wide_abscissa_is_logarithmic_with_plain_numbers() -> None:
    lines = {("loss", "raw"): {1: [0.1], 10: [0.2], 100: [0.3]}}
    axes = script.draw_lines(Figure().subplots(), lines, x="imbalance factor", y="ECE")
    assert axes.get_xscale() == "log"
    assert axes.xaxis.get_major_formatter()(100) == "100"


def test_other_settings_make_other_lines(results: Path) -> None:
    for weight in (0.0, 2.0):
        weighted(results, weight, 1, **{"data.init_args.imbalance_factor": 100.0})
    points = script.collect_points(
        read_results(results).records, "model.loss.weight", [ECE], ["raw"]
    )
    assert {point.series for point in points} == {
        "FocalCalibration imbalance_factor=10.0",
        "FocalCalibration imbalance_factor=100.0",
    }


def test_an_argument_of_a_calibrator_varies_within_a_run(tmp_path: Path) -> None:
    names = {n: f"AdaptiveTemperatureScaling(n_bins={n})" for n in (5, 50)}
    ats = "calibench.calibrators.AdaptiveTemperatureScaling"
    rows = [
        {"split": "test", "calibrator": name, "metric": "ece", "value": 0.001 * n, "n_bins": 15}
        for n, name in names.items()
    ]
    blocks = [{"class_path": ats, "init_args": {"n_bins": n}} for n in names]
    changes = {
        "calibrators": {name: {} for name in names.values()},
        "evaluation": {"calibrators": blocks},
    }
    for loss in ("CrossEntropyLoss", "BrierLoss"):
        write_run(tmp_path, loss=loss, rows=rows, changes=changes)
    key = "calibrators.AdaptiveTemperatureScaling.n_bins"
    points = script.collect_points(read_results(tmp_path).records, key, [ECE], ["raw"])
    assert {(p.series, p.x): p.value for p in points} == {
        (loss, n): 0.001 * n for loss in ("CrossEntropy", "Brier") for n in names
    }


@pytest.mark.slow
def test_command(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.svg"
    command = [str(results), "-o", str(picture), "--x"]
    assert (
        exit_code(
            script,
            [
                *command,
                "model.loss.weight",
                "--metrics",
                "ece",
                "nll",
                "--calibrator",
                "TemperatureScaling",
            ],
        )
        == 0
    )
    drawn = picture.read_text()
    for text in ("model.loss.weight", "ECE %", "FocalCalibration +TS"):
        assert text in drawn
    with picture.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * 2 * 2
    assert {row["calibrator"] for row in rows} == {"raw", "TemperatureScaling"}
    for arguments, problem in {
        ("model.loss.wight",): "the runs do not differ in this key; did you mean model.loss.weight",
        ("model.loss.gamma",): "it is 3.0 in all of them",
        ("model.loss.weight", "--metrics", "nothing"): "the runs have none of nothing",
        ("model.loss.weight", "--losses", "Nothing"): "holds no such finished run",
    }.items():
        assert exit_code(script, [*command, *arguments]) == 2
        assert problem in capsys.readouterr().err

"""The default columns: proper scores lead, each OOD set counts once, near and far apart."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from calibench.cli import main
from calibench.ranking import Column, rank_results
from tests.run_folders import set_rows, write_run


def refined(value: float) -> list[dict[str, Any]]:
    place = {"split": "test", "calibrator": "raw"}
    return [
        {**place, "metric": "nll_refinement", "value": value},
        {**place, "metric": "nll_calibration", "value": 0.1, "floor": 0.0, "p": 0.4},
    ]


SETS = {"noise": 0.9, "photos": 0.8, "letters": 0.6, "fog-1": 0.5, "fog-5": 0.7}
KINDS = {"val": "val", "test": "test", "photos": "far", "noise": "far", "letters": "near", "fog-1": "shift",
         "fog-5": "shift"}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for seed in (1, 2, 3):
        for loss, at in (("A", 0.3), ("B", 0.2)):
            write_run(
                tmp_path, loss=loss, seed=seed, values={"nll": at + 0.01 * seed}, sets=SETS,
                rows=refined(0.5 - at), changes={"sets": KINDS},
            )  # fmt: skip
    return tmp_path


def test_proper_scores_lead_and_nll_stands_beside_ece(results: Path) -> None:
    (table,) = rank_results(results, wide=True).tables
    assert [column.title for column in table.columns] == [
        "Error %", "NLL", "NLL +TS", "Brier +TS", "NLL refinement", "NLL calibration", "ECE %", "AdaECE %",
        "ClasswiseECE %", "smECE %", "ECE % +TS", "NLL +ATS", "ECE % +ATS", "OOD AUROC % near", "OOD AUROC % far",
        "s/run",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "first"),
    [
        ("nll", "B"),
        ("nll@TemperatureScaling", "B"),
        ("nll_refinement", "A"),
        ("ood_auroc/far", "A"),
    ],
)
def test_any_of_them_ranks(
    results: Path, by: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", str(results), "--rank-by", by, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["rank"] for line in lines] == (["1", "1"] if by.startswith("ood") else ["1", "2"])
    assert lines[0]["loss"] == first


def test_near_and_far_are_means_over_each_set_once_and_shifts_in_none(results: Path) -> None:
    columns = ["ood_auroc", "ood_auroc/near", "ood_auroc/far", "ood_auroc/shift", "ood_auroc/fog-5"]
    board = rank_results(results, metrics=columns)
    (table,) = board.tables
    means = [table.rows[0].values[Column.parse(name)].mean for name in columns]
    assert means == pytest.approx([2.3 / 3, 0.6, 0.85, 0.6, 0.7])
    lines = board.lines[0]
    assert "OOD AUROC near: mean over letters (score: entropy)" in lines
    assert "OOD AUROC far: mean over noise, photos (score: entropy)" in lines
    assert "covariate-shift sets are not counted in OOD AUROC: fog-1, fog-5" in lines


def test_runs_that_do_not_say_have_far_sets_and_labelled_ones_are_shifts(tmp_path: Path) -> None:
    fog = {"split": "fog", "calibrator": "raw", "metric": "nll", "value": 2.0}
    write_run(tmp_path, sets={"photos": 0.8, "fog": 0.5}, rows=[fog])
    board = rank_results(tmp_path, wide=True)
    (row,) = board.tables[0].rows
    assert row.values[Column("ood_auroc", "far")].mean == pytest.approx(0.8)
    assert Column("ood_auroc", "near") not in board.tables[0].columns  # no run has it
    assert Column("nll_refinement") not in board.tables[0].columns


def test_tidy_rows_hold_every_number_of_every_run(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", str(results), "--format", "tidy"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    place = {
        "benchmark": "digits_lt",
        "backbone": "SmallCNN",
        "loss": "B",
        "seed": "2",
        "split": "test",
    }
    found = [line for line in lines if place.items() <= line.items()]
    (nll,) = [x for x in found if (x["metric"], x["calibrator"]) == ("nll", "raw")]
    assert float(nll["value"]) == pytest.approx(0.22)
    assert nll["floor"] == ""
    (part,) = [line for line in found if line["metric"] == "nll_calibration"]
    assert (part["value"], part["floor"], part["p"]) == ("0.1", "0", "0.4")
    assert {line["n_bins"] for line in found if line["metric"] == "ece"} == {"15", "20"}
    of_sets = [line for line in lines if line["metric"] == "ood_auroc"]
    assert len(of_sets) == 6 * len(set_rows(SETS))
    keys = [tuple(v for k, v in x.items() if k not in ("value", "floor", "p")) for x in lines]
    assert len(set(keys)) == len(keys)

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from calibench.ranking import Column, rank_results
from calibench.ranking.table import expected_seeds
from tests.run_folders import settings_of, write_run

NLL, ECE = Column("nll"), Column("ece")


def write(root: Path, loss: str, *values: float, metric: str = "nll", **options: object) -> None:
    for seed, value in enumerate(values, start=1):
        write_run(root, loss=loss, seed=seed, values={metric: value}, **options)


def test_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.6)
    (table,) = rank_results(tmp_path).tables
    cell = table.rows[0].values[NLL]
    assert (cell.mean, cell.std) == (pytest.approx(0.3), pytest.approx(math.sqrt(0.07)))
    assert dict(cell.seeds) == {1: 0.1, 2: 0.2, 3: 0.6}


def test_one_table_for_each_benchmark_and_backbone(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, backbone="MLP")
    write(tmp_path, "A", 0.2)
    write(tmp_path, "A", 0.3, benchmark="cifar10")
    titles = [table.title for table in rank_results(tmp_path).tables]
    assert titles == ["cifar10 / SmallCNN", "digits_lt / MLP", "digits_lt / SmallCNN"]


def test_equal_values_share_a_rank(tmp_path: Path) -> None:
    for loss, value in (("A", 0.2), ("B", 0.1), ("C", 0.2), ("D", 0.3)):
        write(tmp_path, loss, value)
    (table,) = rank_results(tmp_path).tables
    assert [(row.loss, row.rank) for row in table.rows] == [("B", 1), ("A", 2), ("C", 2), ("D", 4)]


def test_more_is_better_for_auroc(tmp_path: Path) -> None:
    write_run(tmp_path, loss="A", sets={"noise": 0.7})
    write_run(tmp_path, loss="B", sets={"noise": 0.9})
    (table,) = rank_results(tmp_path, sort="ood_auroc").tables
    assert [row.loss for row in table.rows] == ["B", "A"]


def test_configurations_of_one_loss_are_rows_of_their_own(tmp_path: Path) -> None:
    for gamma in (3.0, 5.0):
        write(tmp_path, "FocalLoss", 0.1 * gamma, settings=settings_of("FocalLoss", gamma=gamma))
    (table,) = rank_results(tmp_path).tables
    assert [row.label for row in table.rows] == ["Focal gamma=3.0", "Focal gamma=5.0"]


def test_a_column_for_each_calibrator(tmp_path: Path) -> None:
    write_run(tmp_path, values={"ece": 0.1, "ece@TemperatureScaling": 0.02})
    (table,) = rank_results(tmp_path, metrics=["ece", "ece@*"], sort="ece").tables
    named = ["ece", "ece@TemperatureScaling", "ece@AdaptiveTemperatureScaling"]
    assert [str(column) for column in table.columns] == named
    assert [table.rows[0].values[c].mean for c in table.columns] == [0.1, 0.02, 0.1]


def test_ood_is_the_mean_over_the_sets_that_every_run_has(tmp_path: Path) -> None:
    write_run(tmp_path, loss="A", sets={"noise": 0.9, "photos": 0.7})
    gone = {"unavailable": {"photos": "no such file"}}
    write_run(tmp_path, loss="B", sets={"noise": 0.8}, changes=gone)
    columns = ["ood_auroc", "ood_auroc:msp", "ood_auroc/photos"]
    board = rank_results(tmp_path, metrics=columns)
    a, b = sorted(board.tables[0].rows, key=lambda row: row.loss)
    assert [a.values[Column.parse(c)].mean for c in columns] == pytest.approx([0.9, 0.89, 0.7])
    assert b.values[Column("ood_auroc")].mean == 0.8
    assert math.isnan(b.values[Column("ood_auroc", "photos")].mean)
    assert "photos is in no mean over sets: no such file" in board.lines[0]


def test_holes_are_named_with_their_reasons(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.2)
    write_run(tmp_path, loss="C", seed=1, status="failed", reason="NaN loss at epoch 3")
    write_run(tmp_path, loss="C", seed=2, status="running")
    board = rank_results(tmp_path)
    (table,) = board.tables
    assert table.holes() == [
        "B, seeds 2, 3: no run",
        "C, seed 1: failed: NaN loss at epoch 3",
        "C, seed 2: running",
    ]
    assert [row.count for row in table.rows] == ["3", "1/3"]
    assert board.warnings == []  # the table names them


def test_missing_runs_are_one_line_below_the_table(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.2)
    write_run(tmp_path, loss="C", seed=1, status="failed", reason="NaN loss at epoch 3")
    text = io.StringIO()
    rank_results(tmp_path).show(text)
    lines = [line for line in text.getvalue().splitlines() if "missing" in line]
    assert [line.strip() for line in lines] == [
        "missing: B, seeds 2, 3: no run; 1 more (`calibench runs list`)"
    ]


def test_a_try_with_a_seed_of_its_own_makes_no_other_row_incomplete(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.1, 0.2, 0.3)
    write_run(tmp_path, loss="C", seed=9, values={"nll": 0.4})
    (table,) = rank_results(tmp_path).tables
    assert [row.count for row in table.rows] == ["3", "3", "1/4"]
    assert table.holes() == ["C, seeds 1, 2, 3: no run"]


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ([{1, 2, 3}, {1}], {1, 2, 3}),
        ([{1, 2, 3}, {9}], {1, 2, 3}),
        ([{1}, {2}], {1, 2}),
        ([{1, 2, 3}, {1, 2, 3}, {1, 2, 3, 4, 5}], {1, 2, 3}),
        ([{1}, {1}, {1}, {1, 2}], {1}),
        ([], set()),
    ],
)
def test_seeds_that_a_row_should_have(finished: list[set[int]], expected: set[int]) -> None:
    assert expected_seeds(finished) == expected


def test_a_corrupt_run_is_a_hole_and_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2)
    folder = write_run(tmp_path, loss="A", seed=3, values={"nll": 9.0})
    (folder / "metrics.json").write_text("{")
    board = rank_results(tmp_path)
    assert board.tables[0].rows[0].values[NLL].mean == pytest.approx(0.15)
    assert board.tables[0].rows[0].missing.keys() == {3}
    assert str(folder.resolve()) in board.warnings[0]


def test_a_trial_is_left_out_and_said(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    write_run(tmp_path, loss="B", status="trial")
    board = rank_results(tmp_path)
    assert [row.loss for row in board.tables[0].rows] == ["A"]
    assert "left out: 1 trial runs (fast_dev_run, or no training step)" in board.lines[0]


def test_nan_is_a_hole_in_its_column_only(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, math.nan)
    (table,) = rank_results(tmp_path).tables
    assert table.rows[0].values[NLL].mean == 0.1
    assert len(table.rows[0].values[ECE].seeds) == 2


def test_an_unknown_column_is_told(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    with pytest.raises(ValueError, match="no run has the metric `nlll`; did you mean nll"):
        rank_results(tmp_path, metrics=["nlll"])
    with pytest.raises(ValueError, match="no run has the metric `eec`; did you mean ece"):
        rank_results(tmp_path, sort="eec")


@pytest.mark.parametrize(
    ("column", "there"),
    [
        ("nll@Platt", "; runs have nll@"),
        ("nll@TempScaling", "; did you mean TemperatureScaling"),
        ("ece_7", "; runs have ece_15"),
        ("aurc", r"; runs have accuracy, .*`evaluate` with `metrics=.aurc.`"),
        ("mcc", r"; runs have accuracy, .*nll"),
    ],
)
def test_what_runs_have_is_named_for_a_column_that_none_has(
    tmp_path: Path, column: str, there: str
) -> None:
    write(tmp_path, "A", 0.1)
    with pytest.raises(ValueError, match=f"no run has the .*{column}`?{there}"):
        rank_results(tmp_path, metrics=[column])


@pytest.mark.parametrize("column", ["ece@TemperatureScalin", "ood_auroc/svhn", "ood_auroc:energy"])
def test_a_place_that_no_run_has_is_told(tmp_path: Path, column: str) -> None:
    write(tmp_path, "A", 0.1)
    with pytest.raises(ValueError, match=r"no run has the column .*TemperatureScaling"):
        rank_results(tmp_path, metrics=[column])


def test_ranks_need_one_column(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    with pytest.raises(ValueError, match="`sort` must be one column"):
        rank_results(tmp_path, sort="ece@*")

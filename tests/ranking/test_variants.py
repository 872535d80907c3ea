"""Runs of one benchmark on different examples are not ranked together."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from calibench.ranking import rank_results
from calibench.ranking.formats import tables_csv
from tests.run_folders import settings_of, write_run


def write(root: Path, loss: str, factor: float, seed: int = 1, **given: Any) -> Path:
    settings = {
        **settings_of(loss),
        "data.init_args.imbalance_factor": factor,
        **given.pop("settings", {}),
    }
    changes = {"fingerprint": f"{factor} {seed}"}
    return write_run(root, loss=loss, seed=seed, settings=settings, changes=changes, **given)


def test_a_table_is_of_the_same_examples(tmp_path: Path) -> None:
    for loss, nll in (("BrierLoss", 0.1), ("CrossEntropyLoss", 0.2)):
        for factor in (10.0, 100.0):
            for seed in (1, 2):
                write(tmp_path, loss, factor, seed, values={"nll": nll * factor})
    board = rank_results(tmp_path)
    assert [table.title for table in board.tables] == [
        "digits_lt imbalance_factor=10 / SmallCNN",
        "digits_lt imbalance_factor=100 / SmallCNN",
    ]
    labels = [[row.label for row in table.rows] for table in board.tables]
    assert labels == [["Brier", "CrossEntropy"]] * 2
    rows = list(csv.DictReader(io.StringIO(tables_csv(board.tables))))
    assert {row["variant"] for row in rows} == {"imbalance_factor=10", "imbalance_factor=100"}


def test_settings_that_leave_the_examples_alone_stay_together(tmp_path: Path) -> None:
    write(tmp_path, "BrierLoss", 10.0, settings={"data.init_args.batch_size": 64})
    write(tmp_path, "BrierLoss", 10.0, settings={"data.init_args.batch_size": 128})
    (table,) = rank_results(tmp_path).tables
    assert table.title == "digits_lt / SmallCNN"
    assert [row.label for row in table.rows] == [
        "Brier batch_size=128",
        "Brier batch_size=64",
    ]


def test_rows_with_the_same_settings_stay_together_whatever_their_seeds(tmp_path: Path) -> None:
    write(tmp_path, "BrierLoss", 10.0, 1)
    write(tmp_path, "FocalLoss", 10.0, 2)
    (table,) = rank_results(tmp_path).tables
    assert [row.count for row in table.rows] == ["1/2", "1/2"]


def test_a_row_without_a_finished_run_goes_by_its_configuration(tmp_path: Path) -> None:
    for factor in (10.0, 100.0):
        write(tmp_path, "BrierLoss", factor)
    folder = write(tmp_path, "FocalLoss", 100.0, status="failed", reason="NaN")
    (folder / "config.yaml").write_text("data:\n  init_args: {imbalance_factor: 100.0}\n")
    ten, hundred = rank_results(tmp_path).tables
    assert [row.loss for row in hundred.unfinished] == ["FocalLoss"]
    assert [row.loss for row in ten.unfinished] == []
    (folder / "config.yaml").write_text("{")
    ten, hundred = rank_results(tmp_path).tables
    assert [row.loss for row in ten.unfinished] == ["FocalLoss"]

"""The default leaderboard: one line a loss, ranked after the calibrator that validation chooses for each."""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibench.losses
from calibench.cli import main
from calibench.ranking import rank_results
from calibench.ranking.best_pair import choose_row_calibrator
from calibench.ranking.columns import ONE_LINE_COLUMNS, Column
from calibench.ranking.formats import table_grid
from calibench.ranking.notes import short_notes
from calibench.ranking.records import Layout, Numbers, Record, Verdicts
from calibench.ranking.row_labels import display_name
from calibench.ranking.table import Row, build_table
from calibench.runs import RunId
from calibench.statistics.number import CROSS_FITTED, VAL, Key
from calibench.tables.grid import Grid
from calibench.tables.terminal import fitting
from tests.examples import for_each
from tests.ranking.test_table import write
from tests.run_folders import write_run

TS = "TemperatureScaling"


def cross_fitted(**nll: float) -> list[dict[str, object]]:
    """Rows of metrics.json: the cross-fitted NLL of validation after each calibrator."""
    place = {"split": "val", "metric": CROSS_FITTED}
    return [{**place, "calibrator": name, "value": value} for name, value in nll.items()]


def test_the_calibrator_of_a_row_is_chosen_on_validation_once_for_all_seeds(tmp_path: Path) -> None:
    for seed, (raw, scaled) in enumerate(((0.1, 0.4), (0.9, 0.4), (0.9, 0.4)), start=1):
        rows = cross_fitted(raw=raw, TemperatureScaling=scaled)
        write_run(tmp_path, loss="BrierLoss", seed=seed, values={"nll": 0.01}, rows=rows)
    (table,) = rank_results(tmp_path).tables
    (row,) = table.rows
    assert row.calibrator == TS  # .4 is below the mean of .1, .9 and .9, whatever the raw test NLL
    assert str(table.sort) == "nll@best"
    assert row.values[table.sort].seeds.keys() == {1, 2, 3}


def test_rows_without_validation_predictions_are_in_a_table_of_their_own(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write_run(
            tmp_path,
            loss="BrierLoss",
            seed=seed,
            rows=cross_fitted(raw=0.3, TemperatureScaling=0.2),
        )
    write(tmp_path, "FocalLoss", 0.001, 0.001, 0.001)
    first, second = rank_results(tmp_path).tables
    assert [row.label for row in first.rows] == ["Brier"]
    assert [(row.label, row.rank) for row in second.rows] == [("Focal", 1)]
    assert table_grid(second, []).lead == "no calibrator chosen on validation: ranked by raw NLL"
    assert {str(column) for column in second.columns} == {"nll", "brier", "ece", "error"}


def exported_losses() -> list[str]:
    return [name for name in calibench.losses.__all__ if name.endswith("Loss") or "Entropy" in name]


@for_each(exported_losses())
def test_no_cell_wraps_in_80_columns(loss: str) -> None:
    """Ten rows of three seeds: the widest usual entries beside the name of the loss."""
    scores = {TS: (0.5, 2.0), "raw": (0.9, 2.1)}
    records = [_record(loss, seed, scores) for seed in (1, 2, 3)]
    (part,) = fitting(_grid(records), 80)
    lines = ["".join(piece.text for piece in line) for line in part]
    assert max(map(len, lines)) <= 80
    assert sum(line.lstrip().startswith("10 ") for line in lines) == 1
    assert any(display_name(loss) in line and "±" in line for line in lines)


def _record(loss: str, seed: int, scores: dict[str, tuple[float, float]]) -> Record:
    values = {}
    for name, (val, test) in scores.items():
        values[Key(CROSS_FITTED, VAL, name)] = val
        for metric, value in (("nll", test), ("brier", 0.5), ("error", 0.5)):
            values[Key(metric, calibrator=name)] = value + 0.001 * seed
        values[Key("ece", calibrator=name, n_bins=15)] = 0.25
    numbers = Numbers(Layout.from_keys(values), array("d", values.values()))
    verdicts = Verdicts(Layout.from_keys([]), array("d"))
    cell = RunId("data", "MLP", loss, "k", seed)
    return Record(cell, "", {}, "", numbers, verdicts, {}, {}, (), (), {})


def _grid(records: list[Record]) -> Grid:
    columns = [Column.parse(text) for text in ONE_LINE_COLUMNS]
    table = build_table(("data", "MLP"), records, columns, columns[0])
    table.one_line = True
    table.rows = [replace(table.rows[0], rank=rank) for rank in range(1, 11)]
    return table_grid(table, short_notes(table, []))


def test_names_of_exported_losses_have_at_most_24_characters() -> None:
    assert max(len(display_name(loss)) for loss in exported_losses()) <= 24


def test_options_speak_the_tables_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("mine", "theirs"):
        loss = {"mine": "BrierLoss", "theirs": "FocalLoss"}[folder]
        for seed in (1, 2, 3):
            write_run(
                tmp_path / folder, loss=loss, seed=seed, values={"nll": len(loss) / 100},
                rows=cross_fitted(raw=0.3, TemperatureScaling=0.2),
            )  # fmt: skip
    both = [str(tmp_path / "mine"), str(tmp_path / "theirs")]
    command = ["leaderboard", *both, "--format", "md"]
    assert main([*command, "--metrics", "accuracy", "nll@TS", "ECE+TS"]) == 0
    text = capsys.readouterr().out
    assert "| Accuracy % | NLL +TS | ECE % +TS |" in text
    assert "Brier" in text
    assert "Focal" in text
    assert main([*command, "--losses", "Brier", "--top", "1"]) == 0
    assert "Focal" not in capsys.readouterr().out
    assert main(["leaderboard", *both, "--losses", "Brie"]) == 2
    assert "did you mean Brier?" in capsys.readouterr().err


def test_equal_losses_and_twenty_calibrators_show_no_optimism() -> None:
    """The calibrator with the lowest validation NLL has on test the mean NLL of all: it is not chosen there."""
    random = np.random.default_rng(0)
    names = [f"C{n}" for n in range(20)]
    chosen_nll, lowest_nll = [], []
    for seed in range(300):
        val, test = random.normal(1.0, 0.1, (2, 20))
        scores = {name: (val[n], test[n]) for n, name in enumerate(names)}
        row = Row("L", "L", "k", {}, {seed: _record("L", 0, scores)}, {})
        name = choose_row_calibrator(row)
        assert name == names[int(val.argmin())]
        chosen_nll.append(test[names.index(name)])
        lowest_nll.append(test.min())
    standard_error = 0.1 / 300**0.5
    assert abs(np.mean(chosen_nll) - 1.0) < 4 * standard_error
    assert np.mean(lowest_nll) < 1.0 - 20 * standard_error  # what a choice on test would show


def test_seven_losses_take_at_most_twenty_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, loss in enumerate("ABCDEFG"):
        for seed in (1, 2, 3):
            write_run(
                tmp_path, loss=loss, seed=seed, values={"nll": 0.1 * number + 0.01 * seed},
                rows=cross_fitted(raw=0.3, TemperatureScaling=0.2 + 0.1 * number),
            )  # fmt: skip
    assert main(["leaderboard", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert len(lines) <= 20
    assert sum(bool(re.match(r"[1-7~] [A-G] ", line)) for line in lines) == 7

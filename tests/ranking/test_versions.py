"""Seeds of several versions: said under the table, or left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibench.cli import main
from calibench.ranking import Column, rank_results
from calibench.ranking.records import version_counts
from tests.run_folders import settings_of, write_run

OLD, NEW = (
    {"calibench": "0.9.0", "torch": "2.6.0+cu124"},
    {"calibench": "0.10.0", "torch": "2.15.0"},
)


def write(root: Path, loss: str, made: dict[int, dict[str, str]], **options: Any) -> None:
    for seed, versions in made.items():
        write_run(root, loss=loss, seed=seed, values={"nll": seed}, versions=versions, **options)


def noted(root: Path, **options: Any) -> list[str]:
    lines = rank_results(root, **options).lines
    return [line for of in lines for line in of if "environment" in line or "made with" in line]


def test_one_version_needs_no_word(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: NEW, 2: NEW})
    write(tmp_path, "B", {1: {**NEW, "torch": "2.15.0+cpu"}, 2: {**NEW, "python": "3.13"}})
    assert noted(tmp_path) == []
    assert noted(tmp_path, same_version=True) == []


def test_seeds_of_another_version_are_named_under_the_table(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: OLD, 2: OLD, 3: NEW, 4: NEW})
    write(tmp_path, "B", {1: {**NEW, "torch": "2.14.0"}, 3: NEW})
    assert noted(tmp_path) == [
        "environment differs: calibench 0.9.0, torch 2.6.0 in A seeds 1, 2 (most runs: calibench 0.10.0, "
        "torch 2.15.0); `same_version=True` leaves them out",
        "environment differs: torch 2.14.0 in B seed 1 (most runs: torch 2.15.0); `same_version=True` leaves them out",
    ]
    (table,) = rank_results(tmp_path).tables
    assert {row.loss: row.values[Column("nll")].mean for row in table.rows} == {"A": 2.5, "B": 2.0}


def test_same_version_leaves_them_out_and_says_which(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: OLD, 2: OLD, 3: NEW, 4: NEW})
    write(tmp_path, "B", {3: NEW})
    (table,) = rank_results(tmp_path, same_version=True).tables
    assert {row.loss: row.values[Column("nll")].mean for row in table.rows} == {"A": 3.5, "B": 3.0}
    holes = "missing: A, seeds 1, 2: made with calibench 0.9.0, torch 2.6.0"
    assert holes in rank_results(tmp_path, same_version=True).lines[0]


def test_of_equally_many_the_newest_stays(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: OLD, 2: NEW})  # 0.10 is newer than 0.9
    (table,) = rank_results(tmp_path, same_version=True).tables
    assert list(table.rows[0].records) == [2]


def test_each_table_has_its_own_majority(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: OLD, 2: OLD}, benchmark="one")
    write(tmp_path, "A", {1: NEW}, benchmark="two")
    assert noted(tmp_path) == []
    assert len(rank_results(tmp_path, same_version=True).tables) == 2


@pytest.mark.parametrize(("split_seed", "told"), [(1, True), ("run", False)])
def test_other_data_are_told_where_all_seeds_should_have_the_same(
    split_seed: object, told: bool, tmp_path: Path
) -> None:
    settings = {**settings_of("A"), "data.init_args.split_seed": split_seed}
    for seed, data in ((1, "aaaa"), (2, "aaaa"), (3, "bbbb")):
        changes = {"fingerprint": data}
        write_run(tmp_path, loss="A", seed=seed, settings=settings, changes=changes)
    found = "environment differs: data bbbb in A seed 3 (most runs: data aaaa); `same_version=True` leaves them out"
    assert noted(tmp_path) == ([found] if told else [])


def test_a_run_that_does_not_say_is_unlike_those_that_do(tmp_path: Path) -> None:
    write(tmp_path, "A", {1: NEW, 2: NEW, 3: NEW})
    (tmp_path / next(tmp_path.rglob("seed=3")) / "environment.json").unlink()
    assert noted(tmp_path)[0].startswith(
        "environment differs: calibench unknown, torch unknown in A seed 3 (most"
    )


def test_many_rows_are_counted(tmp_path: Path) -> None:
    for loss in "ABCDE":
        write(tmp_path, loss, {1: OLD, 2: NEW, 3: NEW})
    assert "in A seed 1; B seed 1; C seed 1; 2 more rows (most" in noted(tmp_path)[0]


def test_runs_are_counted_where_no_row_names_them() -> None:
    made = [{"versions": NEW}, {"versions": OLD}, {"versions": NEW}, {"versions": NEW}]
    line = "environment differs: calibench 0.10.0, torch 2.15.0 in 3 runs; calibench 0.9.0, torch 2.6.0 in 1 runs"
    assert list(version_counts(made)) == [line]
    assert list(version_counts(made[2:])) == []


def test_the_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "A", {1: OLD, 2: NEW, 3: NEW})
    assert main(["leaderboard", str(tmp_path), "--same-version", "--format", "csv"]) == 0
    assert ",2 3,1," in capsys.readouterr().out

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from calibench.ranking import Column, rank_results
from calibench.ranking.bold import NOISY, PROMISE, PROMISE_WITH_NOISY, mark_best
from calibench.ranking.formats import table_grid as as_grid
from calibench.ranking.table import Row, Table, Value
from calibench.statistics import Verdict, comparison_with_best
from calibench.tables.text import markdown
from tests.ranking.test_table import write
from tests.run_folders import write_run

NLL, ECE = Column("nll"), Column("ece")


def tied(root: Path) -> dict[str, bool]:
    (table,) = rank_results(root).tables
    values = {row.loss: row.values[NLL] for row in table.rows}
    return {loss: value.tied or value.noisy for loss, value in values.items()}


def said(root: Path) -> str:
    return "\n".join(rank_results(root, wide=True).lines[0])


def table_of(column: Column, *values: Value) -> Table:
    rows = [
        Row(f"L{n}", f"L{n}", "", None, {}, {}, {column: value}) for n, value in enumerate(values)
    ]
    return Table("data", "MLP", [column], column, rows, {})


def test_pairs_tell_apart_what_spreads_overlap(tmp_path: Path) -> None:
    """Seeds move all by 0.1, but B is always 0.02 worse: as blocks they are clear; C is within noise."""
    write(tmp_path, "A", 0.10, 0.20, 0.30)
    write(tmp_path, "B", 0.1201, 0.2199, 0.3200)
    write(tmp_path, "C", 0.101, 0.199, 0.301)
    assert tied(tmp_path) == {"A": True, "B": False, "C": True}


def test_every_column_has_the_one_test_and_the_line_promises_no_more(tmp_path: Path) -> None:
    values = {"A": (0.1, 0.2, 0.3), "B": (0.15, 0.21, 0.37), "C": (0.3, 0.41, 0.5)}
    for loss, of in values.items():
        write(tmp_path, loss, *of)
    board = rank_results(tmp_path)
    (table,) = board.tables
    expected = comparison_with_best(list(values.values()))
    assert tied(tmp_path) == dict(zip(values, expected.bold, strict=True))
    assert table.detectable[NLL] == expected.detectable
    assert f"bold: {PROMISE_WITH_NOISY}" in board.lines[0]
    of = {row.loss: row.values[NLL].behind for row in table.rows}
    assert of == dict(zip(values, expected.differences, strict=True))


def test_a_line_says_what_cannot_be_seen(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.15, 0.21, 0.37)
    for seed, error in enumerate((0.05, 0.06, 0.08), start=1):
        write_run(tmp_path, loss="C", seed=seed, values={"nll": 0.3 + error, "error": error})
    (table,) = rank_results(tmp_path).tables
    nll, error = (table.detectable[Column(name)] for name in ("nll", "error"))
    line = f"smallest differences that 3 seeds detect: {nll:.2g} in NLL and {100 * error:.2g} percentage points in Error"
    assert line in said(tmp_path).splitlines()


def test_a_difference_that_would_be_printed_as_0_is_below_the_last_digit(tmp_path: Path) -> None:
    """Two losses with the same errors in every seed leave no deviation."""
    for loss, at in (("A", 0.1), ("B", 0.15)):
        for seed, nll in enumerate((0.0, 0.1, 0.27), start=1):
            write_run(
                tmp_path, loss=loss, seed=seed, values={"nll": at + nll * (1 + at), "error": 0.05}
            )
    line = next(line for line in said(tmp_path).splitlines() if " seeds detect: " in line)
    assert line.endswith(" in NLL and less than 0.01 percentage points in Error")


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_make_no_bold(tmp_path: Path, seeds: int) -> None:
    write(tmp_path, "A", *[0.1, 0.2][:seeds])
    write(tmp_path, "B", *[0.4, 0.5][:seeds])
    assert tied(tmp_path) == {"A": False, "B": False}
    few = f"rows share {seeds} seed{'s' * (seeds > 1)}, and fewer than 3 detect no difference"
    assert f"no bold: {few}" in said(tmp_path)
    assert PROMISE not in said(tmp_path)


def test_rows_with_fewer_seeds_are_named_and_do_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.10, 0.20, 0.30, 0.41)
    write(tmp_path, "B", 0.30, 0.41, 0.50)
    write(tmp_path, "C", 0.10)
    assert tied(tmp_path) == {"A": True, "B": False, "C": False}
    lines = said(tmp_path).splitlines()
    assert "fewer than 3 seeds, so not compared: C" in lines
    assert any(
        line.startswith("compared over the 3 of 4 seeds that all rows share: ") for line in lines
    )


def test_a_row_with_more_deviation_has_welchs_form_and_is_named(tmp_path: Path) -> None:
    for loss, at in (("A", 0.1), ("B", 0.2), ("C", 0.3), ("D", 0.4)):
        jitter = (0.001, -0.001, 0.0) if loss in "AC" else (-0.001, 0.0, 0.001)
        write(tmp_path, loss, *[at + seed for seed in jitter])
    write(tmp_path, "E", 0.1, 0.4, 0.7)
    assert tied(tmp_path) == {"A": True, "B": False, "C": False, "D": False, "E": True}
    line = "3 of 60 values vary over seeds more than 1.25 times as much as the others: they are compared by Welch's test with Bonferroni's correction"
    assert line in said(tmp_path).splitlines()


def test_seeds_that_vary_too_much_to_rank_are_marked_and_never_bold(tmp_path: Path) -> None:
    """With the others' deviation of .001, E would be .3 behind; A is ahead and so has no mark."""
    for loss, at in (("A", 0.1), ("B", 0.2), ("C", 0.3), ("D", 0.4)):
        jitter = (0.001, -0.001, 0.0) if loss in "AC" else (-0.001, 0.0, 0.001)
        write(tmp_path, loss, *[at + seed for seed in jitter])
    write(tmp_path, "E", 0.1, 0.4, 0.7)
    (table,) = rank_results(tmp_path).tables
    assert {row.loss: row.values[NLL].mark for row in table.rows} == dict.fromkeys("ABCD", "") | {
        "E": "~"
    }
    assert NOISY in said(tmp_path).splitlines()
    grid = markdown(as_grid(table, []))
    assert "| ~ | E | 3 | 0.400 ± .300 |" in grid
    assert "| 1 | A | 3 | **0.100 ± .001** |" in grid


def test_an_infinite_loss_is_worse(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", math.inf, math.inf, math.inf)
    assert tied(tmp_path) == {"A": True, "B": False}


def test_costs_are_never_bold(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3, seconds=2.0)
    write(tmp_path, "B", 0.1, 0.2, 0.3, seconds=200.0)
    (table,) = rank_results(tmp_path, wide=True).tables
    assert not any(row.values[Column("seconds")].tied for row in table.rows)


def test_a_fitted_temperature_has_no_best(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.1, 0.2, 0.3)
    column = "temperature@TemperatureScaling"
    (table,) = rank_results(tmp_path, metrics=[column]).tables
    assert not any(row.values[Column.parse(column)].tied for row in table.rows)
    assert table.rows[0].values[Column.parse(column)].mean == pytest.approx(1.3)


def test_less_is_worse_for_auroc(tmp_path: Path) -> None:
    column = Column("ood_auroc")
    for seed, (a, b) in enumerate([(0.90, 0.80), (0.92, 0.83), (0.88, 0.77)], start=1):
        write_run(tmp_path, loss="A", seed=seed, sets={"noise": a})
        write_run(tmp_path, loss="B", seed=seed, sets={"noise": b})
    (table,) = rank_results(tmp_path, metrics=["ood_auroc"], sort="ood_auroc").tables
    assert [(row.loss, row.values[column].tied) for row in table.rows] == [
        ("A", True),
        ("B", False),
    ]
    assert table.rows[1].values[column].behind == pytest.approx(0.1)


def test_nothing_is_bold_among_values_that_are_all_at_their_floor() -> None:
    """Not even what is far ahead; one value above its floor is enough to compare them."""
    seeds = [{n: at + 0.001 * n for n in range(3)} for at in (0.01, 0.02)]
    at_floor = [Value(of, verdict=Verdict(0.02, 0.5)) for of in seeds]
    table = table_of(ECE, *at_floor)
    mark_best(table)
    assert not any(value.tied for value in at_floor)
    assert table.bold == ["no bold where all values are consistent with perfect calibration: ECE %"]
    above = [at_floor[0], Value(seeds[1], verdict=Verdict(0.01, 0.01))]
    table = table_of(ECE, *above)
    mark_best(table)
    assert [value.tied for value in above] == [True, False]
    assert f"bold: {PROMISE}" in table.bold


def test_columns_without_bold_are_named_beside_others(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write_run(tmp_path, loss="A", seed=seed, values={"nll": 0.1 * seed}, sets={})
        write_run(tmp_path, loss="B", seed=seed, values={"nll": 0.1 * seed + 0.3}, sets={})
    for loss in "AB":
        write_run(tmp_path, loss=loss, seed=1, values={"nll": 0.2}, sets={"noise": 0.5})
    lines = "\n".join(rank_results(tmp_path, wide=True).lines[0])
    assert f"bold: {PROMISE}" in lines
    assert "no bold in OOD AUROC % far: rows share 1 seed" in lines


@pytest.mark.parametrize(("seeds", "compared"), [((1, 1), True), ((1, 2), False), ((2, 1), False)])
def test_trained_networks_are_compared_only_where_every_row_has_one_seed(
    seeds: tuple[int, int], compared: bool
) -> None:
    values = [
        Value({n: at + n / 100 for n in range(k)}) for k, at in zip(seeds, (0.1, 0.3), strict=True)
    ]
    asked = []

    def by_examples(column: Column, rows: Sequence[Row]) -> list[bool]:
        asked.append(column)
        return [True, False]

    table = table_of(NLL, *values)
    mark_best(table, by_examples)
    assert asked == [NLL] * compared
    assert [value.tied for value in values] == [compared, False]

from __future__ import annotations

import math
from pathlib import Path

import pytest

from calibench.leaderboard import Column, leaderboard
from tests.leaderboard.test_table import write
from tests.run_folders import write_run

NLL = Column("nll")


def tied(root: Path) -> dict[str, bool]:
    (table,) = leaderboard(root).tables
    return {row.loss: row.values[NLL].tied for row in table.rows}


def test_pairs_tell_apart_what_spreads_overlap(tmp_path: Path) -> None:
    """Seeds move both by 0.1, but B is always 0.02 worse: paired, that is clear; C is within noise."""
    write(tmp_path, "A", 0.10, 0.20, 0.30)
    write(tmp_path, "B", 0.1201, 0.2199, 0.3200)
    write(tmp_path, "C", 0.12, 0.19, 0.30)
    assert tied(tmp_path) == {"A": True, "B": False, "C": True}


def test_eight_seeds_use_the_signed_rank_test(tmp_path: Path) -> None:
    """One outlier among the differences hides B from a t-test, not from the signed ranks."""
    seeds = [0.1 * k for k in range(8)]
    write(tmp_path, "A", *seeds)
    write(tmp_path, "B", *[v + d for v, d in zip(seeds, [0.01] * 7 + [2.0], strict=True)])
    assert tied(tmp_path) == {"A": True, "B": False}
    assert "signed-rank test over seeds; Holm" in " ".join(leaderboard(tmp_path).lines[0])


def test_holm_needs_more_of_many_rows(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3)
    write(tmp_path, "B", 0.13, 0.25, 0.34)  # t = 7.3 with 2 degrees: p = 0.009
    assert tied(tmp_path)["B"] is False
    for loss in "CDEFGH":
        write(tmp_path, loss, 0.11, 0.19, 0.32)
    assert tied(tmp_path)["B"] is True


def test_one_seed_tests_nothing_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    write(tmp_path, "B", 0.1)
    write(tmp_path, "C", 0.2)
    assert tied(tmp_path) == {"A": True, "B": True, "C": False}
    assert "differences are not tested" in " ".join(leaderboard(tmp_path).lines[0])


def test_only_common_seeds_are_paired(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3, 0.0)
    write(tmp_path, "B", 0.1201, 0.2199, 0.3200)
    assert tied(tmp_path) == {"A": True, "B": False}


def test_an_infinite_loss_is_worse(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2)
    write(tmp_path, "B", math.inf, math.inf)
    assert tied(tmp_path) == {"A": True, "B": False}


def test_costs_are_not_tested(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2, 0.3, seconds=2.0)
    write(tmp_path, "B", 0.1, 0.2, 0.3, seconds=2.1)
    (table,) = leaderboard(tmp_path).tables
    marks = [row.values[Column("seconds")].tied for row in table.rows]
    assert marks == [True, False]


def test_a_fitted_temperature_has_no_best(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1, 0.2)
    write(tmp_path, "B", 0.1, 0.2)
    column = "temperature@TemperatureScaling"
    (table,) = leaderboard(tmp_path, metrics=[column]).tables
    assert not any(row.values[Column.parse(column)].tied for row in table.rows)
    assert table.rows[0].values[Column.parse(column)].mean == pytest.approx(1.3)


def test_less_is_worse_for_auroc(tmp_path: Path) -> None:
    column = Column("ood_auroc")
    for seed, (a, b) in enumerate([(0.90, 0.80), (0.92, 0.83), (0.88, 0.77)], start=1):
        write_run(tmp_path, loss="A", seed=seed, sets={"noise": a})
        write_run(tmp_path, loss="B", seed=seed, sets={"noise": b})
    (table,) = leaderboard(tmp_path, metrics=["ood_auroc"], sort="ood_auroc").tables
    assert [(row.loss, row.values[column].tied) for row in table.rows] == [
        ("A", True),
        ("B", False),
    ]
    p_value = table.rows[1].values[column].p_value
    assert p_value is not None
    assert p_value < 0.05


def test_of_equal_bests_the_one_with_more_seeds_is_compared(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.2)
    write(tmp_path, "B", 0.1, 0.2, 0.3)
    write(tmp_path, "C", 0.13, 0.22, 0.31)
    (table,) = leaderboard(tmp_path).tables
    of = {row.loss: row.values[NLL] for row in table.rows}
    assert of["A"].tied
    assert of["B"].tied
    assert of["C"].p_value is not None

"""Losses against a baseline over data sets: each counts once, what was fixed in advance stands alone, words are those of the test."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import parser_of
from calibench.ranking import Column, rank_results
from calibench.ranking.comparison import NO_PRIMARY, compare_over_sets
from calibench.statistics.data_sets import UNKNOWN, sign_flip_p
from tests.ranking.test_table import write

NLL = Column("nll")
BASE = "CrossEntropyLoss"


def results(root: Path, sets: int = 9) -> Path:
    """A is a tenth lower than the baseline everywhere, B a little above or below it."""
    for number in range(sets):
        base = 0.2 + 0.1 * number
        write(root, BASE, base, base, base, benchmark=f"data{number}")
        write(root, "A", *[base * (0.9 + 0.001 * number)] * 3, benchmark=f"data{number}")
        write(root, "B", *[base * (1 + 0.002 * (-1) ** number)] * 3, benchmark=f"data{number}")
    return root


def test_the_primary_comparison_is_tested_alone(tmp_path: Path) -> None:
    tables = rank_results(results(tmp_path)).tables
    found = compare_over_sets(tables, NLL, baseline=BASE, primary=["A"])
    assert list(found.primary) == ["A"]
    assert list(found.exploratory) == ["B"]
    assert found.primary["A"].p == pytest.approx(2 / 2**9)
    assert found.primary["A"].effect.value == pytest.approx(
        math.prod(0.9 + 0.001 * n for n in range(9)) ** (1 / 9) - 1
    )
    assert found.primary["A"].verdict == "lower"
    assert found.primary["A"].sign_p == pytest.approx(2 / 2**9)
    assert found.exploratory["B"].verdict == UNKNOWN
    logs = [math.log(1 + 0.002 * (-1) ** number) for number in range(9)]
    assert found.exploratory["B"].p == pytest.approx(sign_flip_p(np.array(logs)))


def test_without_a_primary_comparison_all_is_exploratory_and_holms(tmp_path: Path) -> None:
    found = compare_over_sets(rank_results(results(tmp_path)).tables, NLL, baseline=BASE)
    assert list(found.exploratory) == ["A", "B"]
    assert found.exploratory["A"].p == pytest.approx(2 * 2 / 2**9)
    assert NO_PRIMARY in found.grid().footer


def test_five_sets_tell_nothing(tmp_path: Path) -> None:
    found = compare_over_sets(
        rank_results(results(tmp_path, 5)).tables, NLL, baseline=BASE, primary=["A"]
    )
    assert found.primary["A"].verdict == "too few data sets (5)"
    assert found.primary["A"].lower == 5
    assert any(
        "needs at least 6 data sets" in line or "7 data sets" in line
        for line in found.grid().footer
    )


def test_networks_of_one_data_set_are_one_value(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, BASE, *[0.5] * 3, benchmark="data", backbone=f"Net{number}")
        write(tmp_path, "A", *[0.4] * 3, benchmark="data", backbone=f"Net{number}")
    found = compare_over_sets(rank_results(tmp_path).tables, NLL, baseline=BASE)
    assert found.exploratory["A"].effect.sets == 1
    assert found.exploratory["A"].verdict == "too few data sets (1)"


def test_mistakes_are_named(tmp_path: Path) -> None:
    tables = rank_results(results(tmp_path, 2), metrics=["nll", "ood_auroc"]).tables
    with pytest.raises(ValueError, match="of CrossEntropyLos and of another loss; did you mean"):
        compare_over_sets(tables, NLL, baseline="CrossEntropyLos")
    with pytest.raises(ValueError, match="of C and of another loss"):
        compare_over_sets(tables, NLL, baseline=BASE, primary=["C"])
    with pytest.raises(ValueError, match="a metric of which less is better, got ood_auroc"):
        compare_over_sets(tables, Column("ood_auroc"), baseline=BASE)


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of("leaderboard")
    assert parser.run([str(results(tmp_path)), "--compare", "--primary", "A"]) == 0
    printed = capsys.readouterr().out
    assert "NLL against CrossEntropy, data sets as the sample" in printed
    assert "primary" in printed
    assert "not of the next data set" in printed

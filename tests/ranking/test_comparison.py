from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibench.cli import parser_of
from calibench.ranking import Column, rank_results
from calibench.ranking.comparison import _test_against_first, compare
from calibench.statistics.data_sets import compare_ranks
from tests.ranking.test_table import write

NLL = Column("nll")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for place, (a, b, c) in {"X": (1, 2, 3), "Y": (1, 3, 2), "Z": (2, 1, 3)}.items():
        for loss, value in (("A", a), ("B", b), ("C", c)):
            write(tmp_path, loss, 0.1 * value, 0.1 * value + 0.01, benchmark=place)
    return tmp_path


def test_ranks_over_tables(results: Path) -> None:
    compared = compare(rank_results(results).tables, NLL)
    assert compared.tables == ["X / SmallCNN", "Y / SmallCNN", "Z / SmallCNN"]
    assert compared.methods == ["A", "B", "C"]
    assert compared.ranks.mean_ranks == pytest.approx([4 / 3, 2, 8 / 3])
    assert [of.probability for of in compared.beaten] == pytest.approx([2 / 3, 1.0])
    # Three tables: A is better than C in all (1/8, six times by Holm), than B with rank sum 1.5 + 3 of 6 (3/8, more often).
    assert compared.p_values == pytest.approx([1.0, 0.75])
    text = "\n".join(compared.lines())
    assert (
        "critical difference of mean ranks (Nemenyi, 5%): 1.91; no significant difference: {A, B, C}"
        in text
    )


@pytest.mark.slow
def test_p_values_against_the_first_are_rarely_small_where_losses_are_equal() -> None:
    """The first is what these tables made the first, which 20 % of comparisons of seven took for a difference."""
    random = np.random.default_rng(0)
    called = 0
    for _ in range(100):
        means = random.normal(size=(10, 5))
        order = compare_ranks(means.tolist()).mean_ranks
        p_values = _test_against_first(means.tolist(), list(np.argsort(order)))
        called += min(p_values) <= 0.05
    assert called / 100 <= 0.05 + 0.044  # two standard errors
    clear = _test_against_first((means + 5 * (np.arange(5) > 0)).tolist(), [0, 1, 2, 3, 4])
    assert max(clear) <= 20 / 2**10


def test_more_is_better_for_auroc(results: Path) -> None:
    column = Column("ood_auroc")
    compared = compare(rank_results(results, metrics=["ood_auroc"]).tables, column)
    assert compared.ranks.mean_ranks == [2.0, 2.0, 2.0]


def test_holes_are_refused_by_name(results: Path) -> None:
    write(results, "A", 0.1, 0.2, 0.3, benchmark="X")
    write(results, "D", 0.1, 0.2, 0.3, benchmark="X")
    tables = rank_results(results).tables
    with pytest.raises(ValueError, match="a comparison needs every run") as refused:
        compare(tables, NLL)
    assert "X / SmallCNN: B, seed 3" in str(refused.value)
    assert "D" not in str(refused.value).partition("missing")[2]


def test_losses_that_a_table_lacks_are_left_out_and_named(results: Path) -> None:
    write(results, "D", 0.1, 0.2, benchmark="X")
    compared = compare(rank_results(results).tables, NLL)
    assert "D" not in compared.methods
    assert compared.left_out == ["not in every table: D"]


def test_holes_that_are_allowed_are_named(results: Path) -> None:
    write(results, "A", 0.1, 0.11, 0.12, benchmark="X")
    write(results, "B", 0.1, 0.11, 0.12, benchmark="X")
    compared = compare(rank_results(results).tables, NLL, allow_missing=True)
    assert compared.left_out == ["missing: X / SmallCNN: C, seed 3"]


def test_where_every_table_lacks_a_loss_the_others_are_compared(results: Path) -> None:
    for place, loss in zip("XYZ", "DEF", strict=True):
        write(results, loss, 0.1, 0.2, benchmark=place)
    compared = compare(rank_results(results).tables, NLL, allow_missing=True)
    assert compared.methods == ["A", "B", "C"]


def test_one_table_is_no_comparison(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    write(tmp_path, "B", 0.1)
    with pytest.raises(ValueError, match="two tables with the same losses, got 1 table "):
        compare(rank_results(tmp_path).tables, NLL)


def test_on_the_command_line(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of("leaderboard")
    assert parser.run([str(results), "--compare"]) == 0
    assert "all alike (Friedman): p = 0.26" in capsys.readouterr().out
    assert parser.run([str(results), "--compare", "--format", "csv"]) == 0
    streams = capsys.readouterr()
    assert "Friedman" in streams.err
    assert "Friedman" not in streams.out

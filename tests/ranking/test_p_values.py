"""`leaderboard --pvalues`: scipy's test, Holm's correction, and what few seeds cannot show."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import wilcoxon

from calibench.cli import parser_of
from calibench.ranking import Column, rank_results
from calibench.ranking.pairs import compare_with_others, p_value_grids
from calibench.statistics import holm
from tests.ranking.test_table import write
from tests.run_folders import settings_of

NLL = Column("nll")
OURS = (0.10, 0.11, 0.13, 0.12, 0.15, 0.14)
WORSE = (0.12, 0.14, 0.14, 0.17, 0.21, 0.145)
MIXED = (0.09, 0.13, 0.10, 0.16, 0.155, 0.125)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for loss, values in (("A", OURS), ("B", WORSE), ("C", MIXED)):
        write(tmp_path, loss, *values)
    return tmp_path


def test_p_values_are_scipys_with_holms_correction(results: Path) -> None:
    (table,) = rank_results(results, metrics=["nll"]).tables
    found = compare_with_others(table, "A", NLL)
    assert found is not None
    raw = [wilcoxon(OURS, others, alternative="less").pvalue for others in (WORSE, MIXED)]
    assert [found.p_values["B"], found.p_values["C"]] == pytest.approx(holm(raw))
    assert found.p_values["B"] == pytest.approx(2 / 64)
    other = compare_with_others(table, "B", NLL)
    assert other is not None
    assert other.p_values["A"] == 1


def test_more_is_better_for_auroc(tmp_path: Path) -> None:
    for loss, of in (("A", 0.7), ("B", 0.9)):
        write(tmp_path, loss, 0.1, 0.1, 0.1, sets={"noise": of})
    (table,) = rank_results(tmp_path, metrics=["ood_auroc"], sort="ood_auroc").tables
    found = compare_with_others(table, "B", Column("ood_auroc"))
    assert found is not None
    assert found.p_values == {"A": 1 / 8}


def test_it_says_from_how_many_seeds_on_a_test_can_be_significant(tmp_path: Path) -> None:
    for loss, values in (("A", OURS[:3]), ("B", WORSE[:3]), ("C", MIXED[:3])):
        write(tmp_path, loss, *values)
    board = rank_results(tmp_path, metrics=["nll"])
    (grid,) = p_value_grids(board.tables, "A")
    assert (
        "with 3 shared seeds and 2 baselines no p-value can be below 0.25: 6 seeds are needed"
        in grid.footer
    )
    assert not any(entry.best for row in grid.rows for entry in row[1:])  # type: ignore[union-attr]


def test_the_command_prints_them_in_its_format(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parser_of("leaderboard")
    asked = [str(results), "--metrics", "nll", "ece", "--format", "markdown", "--pvalues"]
    parser.run([*asked, "A"])
    out = capsys.readouterr().out
    assert "p-values of A is better" in out
    assert "| B | **0.031** |" in out
    assert "seeds are needed" not in out
    with pytest.raises(ValueError, match='`pvalues="D"`: there is no such loss'):
        parser.run([*asked, "D"])


def test_of_several_rows_of_a_loss_one_must_be_named(tmp_path: Path) -> None:
    for gamma in (1.0, 2.0):
        write(tmp_path, "FocalLoss", *OURS, settings=settings_of("FocalLoss", gamma=gamma))
    with pytest.raises(ValueError, match=r"may be Focal gamma=1\.0, Focal gamma=2\.0"):
        list(p_value_grids(rank_results(tmp_path, metrics=["nll"]).tables, "FocalLoss"))

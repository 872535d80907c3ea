from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import parser_of
from calibench.ranking import Column, rank_results
from calibench.ranking.pairs import EQUIVALENT, compare_pairs, parse_margins
from tests.ranking import test_example_comparison
from tests.ranking.test_table import write

NLL = Column("nll")


def called(*arguments: str) -> None:
    parser = parser_of("leaderboard")
    assert parser.run(arguments) == 0


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for benchmark in ("X", "Y"):
        write(tmp_path, "A", 0.100, 0.104, 0.102, benchmark=benchmark)
        write(tmp_path, "B", 0.103, 0.107, 0.109, benchmark=benchmark)
    write(tmp_path, "C", 0.3, 0.4, 0.5, benchmark="X")
    return tmp_path


def test_every_two_methods_over_the_tables_that_hold_both(results: Path) -> None:
    found = compare_pairs(rank_results(results).tables, NLL)
    assert [(p.first, p.second, p.tables) for p in found.pairs] == [
        ("A", "B", 2), ("A", "C", 1), ("B", "C", 1),
    ]  # fmt: skip
    first = found.pairs[0].beats
    assert first.probability == pytest.approx(8 / 9)
    assert first.equivalent == pytest.approx(6 / 9)
    assert found.margin == EQUIVALENT["nll"]
    assert not found.over_examples


def test_more_is_better_for_auroc(tmp_path: Path) -> None:
    for loss, of in (("A", 0.7), ("B", 0.9)):
        write(tmp_path, loss, 0.1, 0.1, 0.1, sets={"noise": of})
    column = Column("ood_auroc")
    tables = rank_results(tmp_path, metrics=["ood_auroc"], sort="ood_auroc").tables
    (pair,) = compare_pairs(tables, column).pairs
    assert (pair.first, pair.second, pair.beats.probability) == ("B", "A", 1.0)


def test_test_examples_are_resampled_where_there_are_some(tmp_path: Path) -> None:
    test_example_comparison.write(tmp_path, "A", 1.0, seeds=2)
    test_example_comparison.write(tmp_path, "Close", 1.02, seeds=2)
    board = rank_results(tmp_path, metrics=["nll"])
    over_seeds, over_both = (
        compare_pairs(board.tables, NLL, examples=examples) for examples in (None, board.examples)
    )
    assert over_both.over_examples
    assert "seeds and test examples" in " ".join(over_both.grid().footer)
    assert "test examples" not in " ".join(over_seeds.grid().footer)
    (wide,), (narrow,) = over_both.pairs, over_seeds.pairs
    assert wide.beats.probability == narrow.beats.probability
    assert wide.beats.high - wide.beats.low >= narrow.beats.high - narrow.beats.low


def test_on_the_command_line(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(str(results), "--pairs")
    text = capsys.readouterr().out
    assert "NLL: pairs of methods" in text
    assert "pairs that are practically equal, with a difference of at most 0.005" in text
    called(str(results), "--pairs", "--equivalent", "nll=0.1", "--format", "markdown")
    assert "| A | B | 0.89 | " in capsys.readouterr().out
    called(str(results), "--pairs", "--format", "csv")
    streams = capsys.readouterr()
    assert "pairs of methods" in streams.err
    assert "pairs" not in streams.out


@pytest.mark.parametrize("text", ["nll", "nll=", "nll=-1", "=x"])
def test_a_wrong_region_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"`equivalent` takes METRIC=VALUE .* got `"):
        parse_margins([text])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "A", 0.1)
    with pytest.raises(ValueError, match="`pairs` needs two methods with nll in one table"):
        compare_pairs(rank_results(tmp_path).tables, NLL)
    with pytest.raises(ValueError, match="needs a metric that is a quality"):
        compare_pairs([], Column("temperature", calibrator="TemperatureScaling"))

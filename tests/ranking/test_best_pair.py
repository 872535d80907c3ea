"""The sentence that leads a table: which pair of loss and calibrator validation chooses, and what seeds tell of it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from calibench.calibrators.cross_validated import FEWEST_EXAMPLES_FOR_FOLDS
from calibench.cli import main
from calibench.ranking import Column, Record, rank_results
from calibench.ranking.best_pair import NO_BEST_PAIR, Answer, choose_best_pair
from calibench.ranking.records import Layout, Numbers, Verdicts
from calibench.ranking.row_labels import display_name
from calibench.ranking.table import Row
from calibench.runs import RunId
from calibench.statistics import comparison_with_best
from calibench.statistics.number import CROSS_FITTED, VAL, Key
from tests.run_folders import write_run

TS = "TemperatureScaling"
NLL = Column("nll")

Scores = Mapping[str, tuple[float | Sequence[float], float | Sequence[float]]]
"""Of each calibrator the NLL of validation and of test, of each seed or of all."""


def row(loss: str, scores: Scores, *, seeds: Sequence[int] = (1, 2, 3)) -> Row:
    """A row with these scores."""
    records = {}
    for place, seed in enumerate(seeds):
        values = {
            key: float(np.broadcast_to(of, len(seeds))[place])
            for name, (val, test) in scores.items()
            for key, of in (
                (Key(CROSS_FITTED, VAL, name), val),
                (Key("nll", calibrator=name), test),
            )
        }
        cell = RunId("data", "MLP", loss, "k", seed)
        numbers = Numbers(Layout.from_keys(values), array("d", values.values()))
        verdicts = Verdicts(Layout.from_keys([]), array("d"))
        records[seed] = Record(cell, "", {}, "", numbers, verdicts, {}, {}, (), (), {})
    return Row(display_name(loss), loss, "k", {}, records, {})


def answer(*rows: Row) -> Answer:
    return choose_best_pair(rows)


LS = row("LabelSmoothingLoss", {"raw": (0.3, 0.2), TS: (0.10, [0.11, 0.10, 0.12])})
CE = row("CrossEntropyLoss", {"raw": (0.2, 0.15), TS: (0.12, [0.20, 0.09, 0.13])})
GCE = row("GenerativeCrossEntropy", {"raw": (0.11, [0.15, 0.16, 0.14]), TS: (0.13, 0.1)})


def test_the_sentence() -> None:
    assert str(answer(LS, CE)) == (
        "best on validation: LabelSmoothing + TS, test NLL 0.110 (3 seeds); "
        "for comparison, CrossEntropy + TS 0.140 (not significantly different)"
    )


def test_the_runner_up_is_of_another_loss_and_cross_entropy_stands_beside_it() -> None:
    found = answer(LS, GCE, CE)
    assert [of.name for of in found.rivals] == ["GenerativeCrossEntropy (raw)", "CrossEntropy + TS"]
    assert [of.name for of in found.of_losses] == [
        "LabelSmoothing + TS", "GenerativeCrossEntropy (raw)", "CrossEntropy + TS",
    ]  # fmt: skip


def test_nothing_is_selected_on_test() -> None:
    """What is best on test is worst on validation, and is counted and not named."""
    tempting = row("FocalLoss", {"raw": (0.9, 0.01), TS: (0.8, 0.01)})
    chosen, tempted = answer(LS, GCE, CE), answer(LS, GCE, CE, tempting)
    assert tempted.best == chosen.best
    hint = "; validation may not represent the test set, where 1 other loss is significantly better"
    assert str(tempted) == f"{chosen}{hint}"


def test_a_winner_without_a_calibrator_reads_raw() -> None:
    best = row("BrierLoss", {"raw": (0.01, 0.3), TS: (0.02, 0.2)})
    assert str(answer(best, CE)).startswith(
        "best on validation: Brier (raw), test NLL 0.300 (3 seeds); "
    )


def test_what_seeds_tell_and_in_which_direction() -> None:
    near, far, jitter = (0.1, 0.102, 0.101), (0.5, 0.501, 0.499), (0.101, 0.1, 0.102)
    best = row("A", {TS: (0.1, near)})
    rest = row("B", {TS: (0.2, jitter)}), row("CrossEntropyLoss", {TS: (0.3, far)})
    assert str(answer(best, *rest)).endswith(
        "(3 seeds); for comparison, B + TS 0.101 (not significantly different), "
        "CrossEntropy + TS 0.500 (significantly worse)"
    )
    assert [of.told for of in answer(best, *rest).rivals] == ["", "worse"]
    ahead = row("A", {TS: (0.1, far)}), row("B", {TS: (0.2, near)})
    assert "; for comparison, B + TS 0.101 (significantly better); " in str(answer(*ahead))


def test_few_seeds_tell_nothing_and_rows_with_fewer_than_others_are_left_out() -> None:
    one = [row(loss, {TS: (at, at)}, seeds=[1]) for loss, at in (("A", 0.1), ("B", 0.9))]
    assert str(answer(*one)).endswith(
        "(1 seed); for comparison, B + TS 0.900 (not significantly different)"
    )
    assert str(answer(one[0], CE, LS)).startswith("best on validation (of 2 of 3 losses): Label")
    longer = row("A", {TS: (0.05, 0.3)}, seeds=[2, 3, 4, 5])
    assert [len(of.seeds) for of in answer(longer, CE).of_losses] == [2, 2]


def test_one_loss_alone_and_runs_without_the_number() -> None:
    assert str(answer(LS)) == "best on validation: LabelSmoothing + TS, test NLL 0.110 (3 seeds)"
    assert str(answer(row("A", {}))) == NO_BEST_PAIR
    assert f" {FEWEST_EXAMPLES_FOR_FOLDS} validation examples" in NO_BEST_PAIR
    assert str(answer(LS, row("A", {}))).startswith("best on validation (of 1 of 2 losses): Label")


def test_an_infinite_test_score_is_told_from_a_finite_one() -> None:
    found = answer(LS, row("A", {TS: (0.2, np.inf)}))
    assert str(found).endswith("for comparison, A + TS inf (significantly worse)")


def test_every_format_leads_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for loss, at in (("LabelSmoothingLoss", 0.1), ("CrossEntropyLoss", 0.2)):
        for seed in (1, 2, 3):
            chosen = {"split": "val", "metric": CROSS_FITTED, "value": at}
            rows = [{**chosen, "calibrator": name} for name in ("raw", TS)]
            write_run(tmp_path, loss=loss, seed=seed, values={"nll": at + 0.01 * seed}, rows=rows)
    (table,) = rank_results(tmp_path, metrics=["error"]).tables
    line = "best on validation: LabelSmoothing (raw), test NLL 0.120 (3 seeds); for comparison, CrossEntropy (raw) 0.220"
    assert str(table.answer).startswith(line)
    written = {}
    for name in ("table", "markdown", "latex", "json", "tidy"):
        assert main(["leaderboard", str(tmp_path), "--format", name]) == 0
        written[name] = capsys.readouterr().out
    title, lead = written["table"].splitlines()[:2]
    assert (title, lead) == ("digits_lt / SmallCNN", line[: len(lead)])
    assert written["markdown"].splitlines()[2].startswith(line)
    assert (
        r"\caption{digits\_lt / SmallCNN: best on validation: LabelSmoothing (raw)"
        in written["latex"]
    )
    content = json.loads(written["json"])[0]["answer"]
    assert content["sentence"] == str(table.answer)
    assert content["best"]["seeds"] == pytest.approx([0.11, 0.12, 0.13])
    assert CROSS_FITTED not in written["tidy"]


def equal_losses(random: np.random.Generator, losses: int, seeds: int, shared: float) -> list[Row]:
    """Rows of losses that are equal; a network is as good on validation as on test for a share of its variance."""
    names = ["CrossEntropyLoss", *(f"L{n}" for n in range(1, losses))]
    of_network, of_val, of_test = random.normal(size=(3, losses, 2, seeds))
    val, test = (
        1 + 0.1 * (shared**0.5 * of_network + (1 - shared) ** 0.5 * own)
        for own in (of_val, of_test)
    )
    return [
        row(
            name,
            {c: (val[i, j], test[i, j]) for j, c in enumerate(("raw", TS))},
            seeds=range(seeds),
        )
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("losses", "shared", "number"),
    [
        pytest.param(2, 0.0, 100, marks=pytest.mark.slow),
        (7, 1.0, 100),
        *(
            pytest.param(*each, 200, marks=pytest.mark.slow)
            for each in ((2, 0.0), (3, 1.0), (7, 1.0))
        ),
    ],
)
def test_of_equal_losses_nearly_no_table_tells_one_from_another(
    losses: int, shared: float, number: int
) -> None:
    """At most 5 % of tables are wrong, however much a good network on validation is a good one on test."""
    random = np.random.default_rng(0)
    tables = [answer(*equal_losses(random, losses, 3, shared)) for _ in range(number)]
    assert np.mean([not any(rival.told for rival in one.rivals) for one in tables]) >= 0.93
    assert np.mean([not one.better_on_test for one in tables]) >= 0.93


def test_a_clear_winner_is_told_from_all() -> None:
    random = np.random.default_rng(0)
    rows = equal_losses(random, 6, 5, 1.0)
    best = row("Best", {TS: (0.1, random.normal(0, 0.1, 5))}, seeds=range(5))
    assert {of.told for of in answer(best, *rows).rivals} == {"worse"}


def test_a_row_is_bold_unless_it_is_worse_than_another() -> None:
    random = np.random.default_rng(0)
    for higher in (False, True):
        found = comparison_with_best(
            random.normal(size=(8, 4)) + np.arange(8)[:, None], higher_is_better=higher
        )
        assert found.bold == tuple(not any(of) for of in found.worse)
        assert any(map(any, found.worse))
        assert not any(found.worse[i][i] for i in range(8))

"""`calibench.leaderboard` and `calibench.sweep` in Python: what they give is a frame, a picture, a page and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import calibench
from calibench.losses import FocalLoss
from calibench.messages.errors import UsageError


@pytest.fixture(scope="module")
def board() -> calibench.ranking.Leaderboard:
    losses = ["CrossEntropyLoss", "FocalLoss"]
    return calibench.leaderboard("store", losses=losses, metrics=["nll", "ece@TS"])


def test_a_number_is_that_of_the_frame(board: calibench.ranking.Leaderboard) -> None:
    frame = board.frame()
    loss = "CrossEntropyLoss"
    rows = frame[(frame.benchmark == "digits_lt") & (frame.column == "nll")]
    (mean,) = rows[rows.loss.isin([loss, "CrossEntropy"])]["mean"]
    assert board.value(loss, "nll", benchmark="digits_lt") == mean
    assert board.value(loss, "ECE@TS", benchmark="digits_lt") > 0
    with pytest.raises(KeyError, match="no loss `CrosEntropyLoss`; did you mean CrossEntropy"):
        board.value("CrosEntropyLoss", "nll")
    with pytest.raises(KeyError, match="several tables have nll of CrossEntropyLoss"):
        board.value(loss, "nll")
    with pytest.raises(KeyError, match="no column `classwise_ece`"):
        board.value(loss, "classwise_ece", benchmark="digits_lt")


def test_it_is_a_picture_a_page_and_text(board: calibench.ranking.Leaderboard) -> None:
    panels = board.figure("nll").axes
    assert len(panels) == len(board.tables)
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [
        row.label for row in board.tables[0].rows
    ]
    assert "<table" in board._repr_html_()
    assert repr(board) == str(board)
    with pytest.raises(ValueError, match="no table has classwise_ece"):
        board.figure("classwise_ece")


def test_a_column_that_the_table_does_not_show_is_drawn_and_told(
    board: calibench.ranking.Leaderboard,
) -> None:
    axes = board.figure("nll@TS").axes[-1]
    assert axes.get_xlabel() == "NLL +TS"
    drawn = axes.containers[0].lines[0].get_xdata()  # type: ignore[attr-defined]
    table = board.tables[-1]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    values = [board.value(row.label, "nll@TS", benchmark=table.benchmark) for row in table.rows]
    assert list(drawn) == values
    assert len(labels) == len(values)
    raw = [board.value(row.label, "nll", benchmark=table.benchmark) for row in table.rows]
    assert values != raw
    with pytest.raises(ValueError, match="no table has nll@TX; did you mean nll@best"):
        board.figure("nll@TX")


def test_mistakes_are_in_the_words_of_python() -> None:
    with pytest.raises(ValueError, match="`top` must be a positive integer, got 0"):
        calibench.leaderboard("store", top=0)
    with pytest.raises(ValueError, match="`against` must be one of 'gce'"):
        calibench.leaderboard("store", against="gc")  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=r"`output` must end in \.html or \.htm, got `x.pdf`: write `x.html`"
    ):
        calibench.report("store", "x.pdf")
    with pytest.raises(UsageError, match="`jobs` and `cells_per_gpu` exclude each other"):
        calibench.sweep("digits_lt", jobs=1, cells_per_gpu=2)
    with pytest.raises(UsageError, match="no configuration file or short name `digts_lt`"):
        calibench.sweep("digts_lt")


def test_a_loss_of_the_program_alone_is_refused_by_a_sweep() -> None:
    changed = FocalLoss(gamma=3)
    changed.initial_gamma = 5.0
    with pytest.raises(UsageError, match="FocalLoss exists only in this program"):
        calibench.sweep("digits_lt", losses=[changed])


@pytest.mark.slow
def test_a_sweep_takes_losses_and_gives_their_leaderboard(tmp_path: Path) -> None:
    options = {"trainer.max_epochs": 1, "trainer.limit_train_batches": 2}
    arguments = {"seeds": [1, 2], "results": tmp_path, "progress": False, "options": options}
    losses = [FocalLoss(gamma=3), "cross_entropy"]
    board = calibench.sweep("digits_lt", losses=losses, jobs=2, **arguments)  # type: ignore[arg-type]
    assert {row.loss for table in board.tables for row in table.rows} == {
        "FocalLoss", "CrossEntropyLoss",
    }  # fmt: skip
    assert set(board.frame().seeds) == {"2"}
    run = calibench.fit(
        "digits_lt", loss=FocalLoss(gamma=3), seed=2, results=tmp_path, options=options
    )
    assert run.outcome == "skipped"  # the sweep's

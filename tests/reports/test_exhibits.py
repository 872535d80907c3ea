"""The papers' figures and tables: each names commands that there are, and tables with numbers are all there."""

from __future__ import annotations

import re

import pytest

from calibench.cli import VERBS
from calibench.plots.kinds import KIND_LINES
from calibench.tables.published import PAPERS, load_published
from calibench.verbs.list import describe_entries, exhibits, exhibits_of_command
from calibench.verbs.reproduce import figure_suites
from tests.conftest import REPOSITORY
from tests.examples import for_each


@for_each(exhibits())
def test_its_commands_are_there(one) -> None:  # type: ignore[no-untyped-def]
    assert one.shows
    assert one.commands
    for command in one.commands:
        program, verb, word, *_ = command.split()
        if program == "python":
            assert (REPOSITORY / verb).is_file()
            continue
        assert program == "calibench"
        assert verb in VERBS
        assert (
            f"{verb} {word}" in VERBS or verb in ("reproduce", "leaderboard") or word in KIND_LINES
        )


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_with_numbers_is_answered(paper: str) -> None:
    tables = {one.number for one in exhibits() if (one.paper, one.kind) == (paper, "table")}
    assert {number.table for number in load_published(paper)} <= tables
    titles = [one.title for one in exhibits()]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_that_reproduce_draws_is_named(paper: str) -> None:
    named = exhibits_of_command(f"reproduce {paper} --figure")
    commands = [command for one in named for command in one.commands]
    for figure in figure_suites(paper):
        number = re.fullmatch(r"\d+|toy", figure)
        assert not number or any(
            f"reproduce {paper} --figure {figure}" in text for text in commands
        )


def test_commands_say_what_they_answer() -> None:
    assert "bsce_gra figure 3" in [one.title for one in exhibits_of_command("plot bars")]
    assert not exhibits_of_command("plot bar")
    assert "(fcl figure 9)" in describe_entries("plots")["reliability"]
    assert describe_entries("papers")["gce table 3"].endswith(
        "calibench reproduce gce --table 3 --results RESULTS"
    )
    assert set(describe_entries(None)) >= {"losses", "plots", "papers"}

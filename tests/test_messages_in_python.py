"""No word of a command line in what Python functions print and refuse."""

from __future__ import annotations

import re

import pytest

import calibench
from calibench.messages.spelling import command_line_spelling, spell_key


def test_a_key_is_spelled_for_its_reader() -> None:
    assert spell_key("model.backbone.in_channels", 3) == (
        '`options={"model.backbone.in_channels": 3}`'
    )
    with command_line_spelling():
        assert (
            spell_key("model.backbone.pretrained", False) == "`--model.backbone.pretrained false`"
        )


def test_reports_and_leaderboards_name_arguments_of_python() -> None:
    sets = calibench.load("digits_lt/SmallCNN/FocalLoss/seed=1")
    assert isinstance(sets, dict)
    report = calibench.evaluate(sets["test"], val=sets["val"], calibrators=["TS"], bootstrap=0)
    board = calibench.leaderboard("store/digits_lt", metrics=["nll"])
    alone = calibench.evaluate(sets["test"], bootstrap=0)
    for result in (report, board, alone, calibench.doctor(sets["test"], calibrators="TS")):
        assert not re.search(r"(?<!\|)(?<![:-])--[a-z]", str(result)), str(result)
    assert 'metrics="all"' in str(report)
    with pytest.raises(ValueError, match="metrics") as refused:
        calibench.evaluate(sets["test"], metrics=["NoSuchMetric"])
    assert "--" not in str(refused.value)

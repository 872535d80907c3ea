"""Hints for other programs' keys: whatever they tell a user to type is there."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from calibench.cli import VERBS, main
from calibench.command_line.hints import OPTION_SYNONYMS
from calibench.configuration.key_hints import KEY_HINTS
from calibench.run_configuration.checks import list_options

DIGITS = {"data": "DigitsDataModule", "model": {"optimizer": "SGD"}}


def test_the_keys_of_hints_are_keys() -> None:
    options = {*list_options(DIGITS), "config", "seed", "seeds", "trainer.callbacks.monitor"}
    named = {key for hint in KEY_HINTS.values() for key in re.findall(r"--([\w.]+)", hint)}
    assert len(named) > 10
    assert named - {*options, "data.batch_size", "model.backbone.pretrained"} == set()


def test_no_key_has_a_hint() -> None:
    assert not {*KEY_HINTS} & {*list_options(DIGITS)}


def test_the_options_of_synonyms_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with suppress(SystemExit):
            main([verb, "--help"])
    text = capsys.readouterr().out
    named = {option for options in OPTION_SYNONYMS.values() for option in options}
    assert {option for option in named if option not in text} <= {"--loss"}

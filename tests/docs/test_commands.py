"""Every command on a page has options that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

from calibench import cli
from calibench.configuration.files import list_configuration_files
from calibench.configuration.run_arguments import read_arguments
from calibench.verbs.fit import TrainingWords
from calibench.verbs.predict import PREDICT_OPTIONS
from tests.docs.pages import ROOT, WRITTEN, blocks, name

PHOTOS = ("my_photos.yaml", "pets.yaml")
"""Configurations as `calibench new images` makes them, whose data have other options than digits."""


def commands() -> Iterator[tuple[str, str]]:
    """Each command of calibench in a block of commands, with its page."""
    for page in WRITTEN:
        for block in blocks(page):
            for line in block.text.splitlines() if block.language == "bash" else []:
                for found in re.findall(r"(?:^|[ /])calibench ([a-z].*?)(?: && |$)", line):
                    yield name(page), found


def stand_in(word: str) -> str:
    """A benchmark for a configuration that an earlier line of the page makes."""
    if word in PHOTOS:
        text = (ROOT / "calibench/templates/images/benchmark.yaml").read_text()
        Path(word).write_text(Template(text).substitute(name=Path(word).stem, data="photos"))
        return word
    return (
        "digits_lt" if word.endswith(".yaml") and word not in list_configuration_files() else word
    )


def check(arguments: list[str]) -> None:
    """Parse a command line as its verb does, and run nothing."""
    verb = " ".join(arguments[: 2 if " ".join(arguments[:2]) in cli.VERBS else 1])
    rest = arguments[len(verb.split()) :]
    if verb in cli.WORDS_ARE_KEYS:
        words = [stand_in(word) for word in rest]
        if read_arguments(words).files:
            TrainingWords.read(words, PREDICT_OPTIONS if verb == "predict" else ())
        return
    cli.parser_of(verb).parse_args(rest)


@pytest.mark.parametrize(("page", "command"), [*dict.fromkeys(commands())])
def test_the_options_exist(
    page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in blocks(ROOT / page):
        if block.title:  # a class of the page stays for the rest of this process: none may have the name of one of ours
            (tmp_path / block.title).write_text(block.text.replace("PolyLoss", "PolyLossOfThePage"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    check(shlex.split(command.replace("PolyLoss", "PolyLossOfThePage"), comments=True))


def test_there_are_commands_and_a_wrong_one_is_found() -> None:
    assert len([*commands()]) > 60
    with pytest.raises(cli.UsageError, match="metrcs"):
        check(["leaderboard", "store", "--metrcs", "nll"])
    with pytest.raises(cli.UsageError, match="gama"):
        check(
            ["fit", "--config", "digits_lt", "--model.loss", "FocalLoss", "--model.loss.gama", "3"]
        )

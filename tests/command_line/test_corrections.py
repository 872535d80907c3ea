"""Whole commands in place of mistaken ones: each message is followed, and the verb takes what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import signature, unwrap
from pathlib import Path

import pytest

from calibench.cli import VERBS, WORDS_ARE_KEYS, check_words, function_of
from calibench.command_line.corrections import corrections, mend, with_whole_command
from calibench.command_line.printed_commands import fill_places
from calibench.command_line.typed_arguments import check_of
from calibench.messages.errors import one_line


@pytest.mark.parametrize(
    ("text", "words", "corrected"),
    [
        ("unknown option `--metric`; did you mean --metrics?", "t --metric ece", "t --metrics ece"),
        ("unknown option `--metric`; did you mean --metrics?", "t --metric=ece", "t --metrics=ece"),
        ("unknown option `epochs`: `--trainer.max_epochs 3`", "--epochs 3 --seed 1", "--trainer.max_epochs 3 --seed 1"),
        ("unknown option `--ci`: leave it out", "t --ci 0.9 -o x.md", "t -o x.md"),
        ("unknown option `--gpus`: `--trainer.devices N` trains on GPUs", "--gpus all", ""),
        ("there is no calibrator `beta`; did you mean BetaCalibration?", "--calibrators ts,beta",
         "--calibrators ts,BetaCalibration"),
        ("no loss `My(b=1)`: write `--losses My --model.loss.b 1`.", "x --losses My(b=1)", "x --losses My --model.loss.b 1"),
        ("`--output` must end in .csv, got `a/x.xlsx`: write `a/x.csv`.", "t --output a/x.xlsx", "t --output a/x.csv"),
        ("unknown option `--y`: labels belong to the file: `t:y.npy`", "t --y y.npy", "t:y.npy"),
        ("unknown option `--data`: it is a word of its own, `t`", "--data t --seed 1", "t --seed 1"),
        ("`v` is one argument too many: a validation set is given as `--val v`", "t v", "t --val v"),
        ("`model.loss`: no class `focal`: `--config losses/focal` sets it", "--model.loss focal", "--config losses/focal"),
        ("there is no file a/x.npz; did you mean y.npz?", "a/x.npz", "a/y.npz"),
        ("there is no metric `x`: none has it; there is no metric `ec`; did you mean ece?", "--metrics nll x ec",
         "--metrics nll ece"),
        ("there is no dataset `cifar`; did you mean cifar10, cifar100?", "cifar", ""),
        ("`--seeds` must look like 1..3, got `1-3`; did you mean 1..3?", "--seeds 1-3", "--seeds 1..3"),
        ("`--model.loss` needs a value.", "--model.loss", ""),
        ("`--jobs` must be a positive integer, got -1. Leave it out for the default, one.", "t --jobs -1", "t"),
        ("there is no run `x` (see `calibench --help`)", "x", ""),
    ],
)  # fmt: skip
def test_a_message_is_followed(text: str, words: str, corrected: str) -> None:
    assert next(corrections(text, words.split()), ([],))[0] == corrected.split()


@pytest.mark.parametrize("verb", sorted({*VERBS} - {*WORDS_ARE_KEYS}))
def test_a_check_takes_the_arguments_of_its_verb(verb: str) -> None:
    function = function_of(verb)
    signature(check_of(function)).bind(**dict.fromkeys(signature(unwrap(function)).parameters))


def test_all_mistakes_are_corrected_until_the_verb_takes_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.csv").write_text("a,b,label\n0.2,0.8,1\n")
    typed = ["test.csv", "--metric", "ece", "--plot", "--n_boot", "10", "--output", "r.xlsx"]
    check = partial(check_words, "evaluate")

    def fault(words: Sequence[str]) -> str:
        try:
            check(words)
        except ValueError as error:
            return one_line(error)
        return ""

    corrected, messages = mend(fault(typed), typed, check, "evaluate")
    assert fault(corrected.words) == ""
    assert corrected.words[:3] == ["test.csv", "--metrics", "ece"]
    assert len(messages) >= 3
    text = with_whole_command(fault(typed), "evaluate", typed, check)
    assert "`calibench evaluate test.csv --metrics ece" in text
    assert "(see" not in text


def test_each_mistake_is_checked_once_where_nothing_can_be_corrected() -> None:
    checked = []

    def check(words: Sequence[str]) -> None:
        checked.append(words)
        wrong = next((word for word in words if word in ("--a", "--b", "--c", "--d")), "")
        raise ValueError(
            f"unknown option `{wrong}`: `--x{wrong} 1`" if wrong else "there is no data"
        )

    words = ["--a", "1", "--b", "1", "--c", "1", "--d", "1"]
    assert mend("unknown option `--a`: `--x--a 1`", words, check)[1] == []
    assert len(checked) == 4


def test_what_would_be_taken_as_a_value_stands_before_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").touch()
    text = "unknown option `--gini`: `--metrics auc` adds it"
    written = [" ".join(words) for words, _ in corrections(text, ["--gini", "t"])]
    assert written == ["--metrics auc t", "t --metrics auc"]


def test_files_that_were_typed_stand_in_the_commands_of_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv", "val.csv"):
        (tmp_path / name).touch()
    text = "FILE: `calibench evaluate FILE --val VAL` or `calibench doctor PART.csv`"
    filled = "FILE: `calibench evaluate a.csv --val val.csv` or `calibench doctor PART.csv`"
    assert fill_places(text, ["a.csv", "--val", "val.csv"]) == filled
    assert fill_places("`calibench leaderboard A B`", ["a.csv", "b.csv"]).count(".csv") == 2

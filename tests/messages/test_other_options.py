"""Options of other programs: whatever an answer tells a user to type is there."""

from __future__ import annotations

import re
from functools import cache

import pytest
import yaml

from calibench.cli import VERBS, WORDS_ARE_KEYS, parser_of
from calibench.configuration.files import list_configuration_files
from calibench.configuration.key_hints import PLAIN_OPTIONS
from calibench.messages.other_options import OPTION_TABLE, Meaning, UnknownOption, meanings
from calibench.run_configuration.checks import list_options
from calibench.run_configuration.keys import KEY_TYPES

SGD = {"data": "DigitsDataModule", "model": {"optimizer": "SGD", "loss": "FocalLoss"}}
ADDED = {"trainer.callbacks+", "trainer.callbacks.monitor", "data.side", "data.max_length"}
OF_OTHERS = {"model.backbone.pretrained", "model.backbone.ARGUMENT", "data.label_column"}
KEYS = {*list_options(SGD), *ADDED, *OF_OTHERS, "model.loss.smoothing", "data.batch_size"}
PREDICT = ("output", "calibrator", "passes", "laplace", "row")
TAKES_KEYS = (*WORDS_ARE_KEYS, "sweep", "features")


@cache
def options_of(verb: str) -> frozenset[str]:
    """The options of a verb without dotted keys."""
    own = [f"--{name}" for name in PREDICT] if verb == "predict" else []
    own = own if verb in WORDS_ARE_KEYS else parser_of(verb).known
    return frozenset([*own, *(PLAIN_OPTIONS if verb in TAKES_KEYS else ())])


def unknown(verb: str, words: tuple[str, ...], value: str = "") -> UnknownOption:
    name = f"--{'-'.join(words)}"
    return UnknownOption(verb, name, options_of(verb), value, verb in TAKES_KEYS)


def answers_for(verb: str) -> set[str]:
    """All that the table answers to somebody who types an option of another program."""
    return {
        option._answer(text)
        for meaning in meanings()
        for value in ("", "x.npy")
        for option in [unknown(verb, meaning.whole_phrases[0], value)]
        for text in option._texts(meaning)
    }


def missing_options(verb: str, code: str) -> list[str]:
    """The options in a text to type that the verb lacks, and the configuration files that are not there."""
    code = code.partition(" | ")[0]  # what follows is another program
    if command := re.match(r"calibench (plot all|plot learning-curves|[a-z]+)\b", code):
        verb = command[1]
        if verb not in VERBS:
            return [code]
    keys = {f"--{key}" for key in KEYS} if verb in TAKES_KEYS else set()
    typed = [
        name for name in re.findall(r"(?<!\S)(-[-\w.+]+)", code) if not name.startswith("--slurm")
    ]
    everywhere = {"--help", "--debug", "--version", f"--{verb}.help"}
    has_help = [name for name in typed if name.endswith(".help")]
    files = re.findall(r"--config ((?:protocols|losses)/[a-z_]+)(?![\w.])", code)
    return [
        *({*typed} - options_of(verb) - keys - everywhere - {*has_help} if typed else []),
        *({*files} - {*list_configuration_files()}),
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_what_an_answer_tells_to_type_is_there(verb: str) -> None:
    codes = {code for answer in answers_for(verb) for code in re.findall(r"`([^`]+)`", answer)}
    codes = {code for code in codes if code.startswith(("-", "calibench "))}
    assert {code: missing for code in codes if (missing := missing_options(verb, code))} == {}


def test_every_meaning_is_an_answer_of_some_verb() -> None:
    def is_answer(meaning: Meaning, verb: str, words: tuple[str, ...]) -> bool:
        option = unknown(verb, words)
        own = {option._answer(text) for text in option._texts(meaning)} - {""}
        return bool(own) and option.find_answer(whole=True) in own

    typed = [(meaning, meaning.whole_phrases[:2]) for meaning in meanings()]
    unreached = [
        phrases
        for meaning, phrases in typed
        if not any(is_answer(meaning, verb, words) for verb in VERBS for words in phrases)
    ]
    assert unreached == []


def test_the_keys_of_a_meaning_are_verbs_or_groups() -> None:
    table = yaml.safe_load(OPTION_TABLE.read_text())
    verbs = {verb.replace(" ", "-") for verb in VERBS}
    assert {verb for group in table["groups"].values() for verb in group.split()} <= verbs
    used = {key for entry in table["meanings"] for key in entry}
    assert used <= {*verbs, *table["groups"], "words", "all"}


def test_plain_options_are_the_keys_without_a_group() -> None:
    assert {f"--{key}" for key in KEY_TYPES} <= {*PLAIN_OPTIONS}


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("--y_true", ": labels belong"),  # a file
        ("--n-bootstraps", "; did you mean --bootstrap?"),  # the longest phrase
        ("--nBoot", "; did you mean --bootstrap?"),
        ("--use-softmax", ": `--scores logits`"),
        ("--parquet", ""),
    ],
)
def test_an_option_is_known_by_its_words(option: str, answer: str) -> None:
    answered = UnknownOption("evaluate", option, options_of("evaluate"), "y.npy").find_answer(
        whole=False
    )
    assert answered.startswith(answer) if answer else answered == ""


def test_a_typed_value_stands_in_the_answer_where_it_fits() -> None:
    def answer(value: str) -> str:
        return UnknownOption("fit", "--num_epochs", (), value, True).find_answer(whole=True)

    assert answer("5") == ": `--trainer.max_epochs 5`"
    assert answer("five") == answer("") == ": `--trainer.max_epochs N`"


def test_an_answer_with_an_option_that_a_verb_lacks_is_none_of_its() -> None:
    meaning = Meaning.from_entry({"words": "colour", "all": ["`--paint` paints", "--hue"]})
    option = UnknownOption("x", "--colour", ["--hue"])
    assert [option._answer(text) for text in option._texts(meaning)] == [
        "",
        "; did you mean --hue?",
    ]

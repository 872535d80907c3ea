"""One line in place of the parser's many: with near matches where its text is understood, else its own text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import calibench
from calibench.messages.errors import UsageError
from calibench.run_configuration.checks import describe_unknown_option
from calibench.run_configuration.parser_messages import shorten_parser_message
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of

DIGITS = ["--config", "digits_lt"]

# Mistakes in names, and what is said of them in Python, too.
NAMES = {
    "--model.loss FocalLos": "`model.loss`: no class `FocalLos`; did you mean FocalLoss",
    "--model.loss FocalLoss --model.loss.gama 3": "`model.loss`: FocalLoss has no argument `gama`; did you mean gamma?",
    "--model.loss nosuch.Loss": "(No module named 'nosuch')",
    "--model.optimizer SDG": "`model.optimizer`: no class `SDG`; did you mean SGD",
    "--model.optimizer torch.optim.Adm": "`model.optimizer`: no class `torch.optim.Adm`; did you mean torch.optim.Adam",
    "--evaluation.calibrators+=TempScaling": "`evaluation.calibrators`: no class `TempScaling`; did you mean TemperatureScaling",
    "--trainer.callbacks nosuch.C": "`trainer.callbacks`: no class `nosuch.C` (No module named 'nosuch')",
    "--seed_everything x": "`seed` must be an integer >= 0",
}  # fmt: skip

# Mistakes in values, and what is said of them; what the parser itself says is asked of it below.
MISTAKES = {
    "--model.loss FocalLoss --model.loss.gamma abc": "`model.loss.gamma`: float expected, got abc",
    "--model.optimizer torch.optim.SGD --model.optimizer.lr abc": "`model.optimizer.lr`: float expected, got abc",
    "--model.loss_scale means": "`model.loss_scale`: mean, sum expected, got means",
    "--trainer.max_epochs three": "`trainer.max_epochs`: int expected, got three",
    "--trainer.precision 8": "bf16-mixed, 32-true, 64-true or 64, 32, 16, bf16 expected, got 8",
    "--data.split_seed rum": "`data.split_seed`: int or run expected, got rum",
    "--threads many": "`threads`: int expected, got many",
}  # fmt: skip


@pytest.mark.parametrize("line", NAMES)
def test_a_wrong_name_is_said_before_the_parser_reads_it(line: str) -> None:
    with pytest.raises(UsageError) as error:
        Experiment(configuration_of([*DIGITS, *line.split()]))
    assert NAMES[line] in str(error.value)


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What jsonargparse says of each mistake, and what the user reads."""
    messages: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        for line in MISTAKES:
            heard: list[str] = []

            def listen(message: str, heard: list[str] = heard) -> str:
                heard.append(message)
                return message

            patch.setattr(
                "calibench.run_configuration.parser_messages.shorten_parser_message", listen
            )
            with pytest.raises(UsageError):
                Experiment(configuration_of([*DIGITS, *line.split()]))
            messages[line] = heard[0]
    return messages


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_said_in_one_line(line: str, said: dict[str, str]) -> None:
    text = shorten_parser_message(said[line])
    assert MISTAKES[line] in text
    assert "\n" not in text


@pytest.mark.parametrize("line", MISTAKES)
def test_text_that_is_worded_otherwise_is_given_whole(line: str, said: dict[str, str]) -> None:
    """As if a later jsonargparse had changed a word of one of its lines: nothing that it says may be lost."""
    message = said[line]
    words = dict.fromkeys(
        re.findall(r"[A-Za-z]{4,}", re.sub(r"['\"`<\[].*?['\"`>\]]", "", message))
    )
    for word in words:
        if word in line or word in ("value", "type", "abc"):
            continue
        changed = re.sub(rf"\b{word}\b", "Foo", message)
        text = shorten_parser_message(changed)
        own = " ".join(changed.split())
        kept = [part for part in _facts(line) if part in own]
        assert text == own or all(part in text for part in kept), (word, text)


def _facts(line: str) -> list[str]:
    """What a reader must learn: the last option, as a key, and the value that was given."""
    option, *value = line.split()[-2:] if " " in line else line.split("+=")
    return [option.rpartition(".")[2].removeprefix("--"), *value]


@pytest.mark.parametrize(
    "message",
    [
        "",
        "something else",
        'Parser key "a":\n  A thing we never saw\n  and another',
        "Expected a <class 'int'>",
        "Parser key \"x\":\n  Expected a <class 'int'>. Got value: a\n b",
        "Problem with given class_path 'a.B':\n  Parser key",
        "(((",
    ],
)
def test_what_is_not_understood_is_the_parsers_own_text(message: str) -> None:
    assert shorten_parser_message(message) == " ".join(message.split())


def test_the_configuration_as_a_whole_is_not_named() -> None:
    text = "`data`: DigitsDataModule has no argument `embedding`"
    assert shorten_parser_message(f'Parser key "config":\n  {text}') == text


def test_that_nothing_could_be_given_is_not_said() -> None:
    """A union with None lists it among the types: before the member at fault in jsonargparse 4.46 to 4.50."""
    message = """Parser key "a.b":
      Does not validate against any of the Union subtypes
      Errors:
        - Expected a <class 'NoneType'>. Got value: X
        - Expected a <class 'int'>. Got value: X"""
    assert shorten_parser_message(message) == "`a.b`: int expected, got X"


def test_one_unknown_cause_keeps_its_key() -> None:
    assert shorten_parser_message('Parser key "a.b":\n  Too blue') == "`a.b`: Too blue"
    assert shorten_parser_message('Parser key "a.b":\n  a.b is too blue') == "a.b is too blue"


def test_an_option_in_a_group_is_named_whole() -> None:
    assert describe_unknown_option("losss", ["--model.loss"], "model").endswith(
        "did you mean model.loss?"
    )


def test_regular_expressions_over_its_messages_stand_in_one_file() -> None:
    """Words of jsonargparse's messages are looked for nowhere else."""
    root = Path(calibench.__file__).parent
    words = (
        "Parser key",
        "Got value",
        "Given value",
        "class_path '",
        "not accepted",
        "dot import path",
    )
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(word in path.read_text() for word in words)
    }
    assert found == {"run_configuration/parser_messages.py"}

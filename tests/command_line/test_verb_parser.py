"""A typed, documented function as a verb: what its signature and docstring become on the command line."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from calibench.command_line.docstrings import Docstring
from calibench.command_line.typed_arguments import Option
from calibench.command_line.verb_parser import VerbParser
from calibench.messages.checks import Count, unit_interval
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import fill_docstring

CALLS: list[dict[str, object]] = []


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes:
        clip: Raise smaller ones
            to this.
        scores: What they are.

    Files:
        x.npz    arrays
    """

    clip: Annotated[float, "P", unit_interval] = 0.0
    scores: Literal["logits", "probs"] | None = None


@dataclass(frozen=True)
class Named:
    """Names.

    Attributes:
        names: Some names.
        argument: One of each.
    """

    names: Annotated[tuple[str, ...], "NAME"]
    _: KW_ONLY
    argument: Annotated[tuple[str, ...], Option("K=V", repeated=True)] = ()


READING = Reading(clip=0.25)


@fill_docstring(known="a b")
def tried(
    named: Named,
    *,
    output: Annotated[Path, Option("FILE", ("-o",))],
    n_bins: tuple[Count, ...] = (15, 20),
    fast: bool = False,
    class_: Annotated[str | None, "CLASS"] = None,
    reading: Reading = READING,
) -> int:
    """Try 5 % of {known}.

    And say so.

    Args:
        named: What is tried.
        output: Where it goes.
        n_bins: Numbers of bins.
        fast: Whether it is quick.
        class_: A class.
        reading: How.

    Raises:
        UsageError: Never.

    Examples:
        calibench tried a    one

    That is all.
    """
    CALLS.append(locals())
    return 3


def called(line: str) -> dict[str, object]:
    assert VerbParser("tried", tried).run(line.split()) == 3
    return CALLS.pop()


def test_values_have_their_types_and_groups_are_dataclasses() -> None:
    line = "a b -o x.txt --n-bins 3 4 --fast --class 8 --clip .5 --scores probs --argument k=1 --argument l=2"
    assert called(line) == {
        "named": Named(("a", "b"), argument=("k=1", "l=2")),
        "output": Path("x.txt"),
        "n_bins": (3, 4),
        "fast": True,
        "class_": "8",
        "reading": Reading(0.5, "probs"),
    }


def test_what_is_not_given_has_the_default_of_the_signature() -> None:
    assert called("a --output x") == {
        "named": Named(("a",)), "output": Path("x"), "n_bins": (15, 20), "fast": False, "class_": None,
        "reading": Reading(0.25),
    }  # fmt: skip


def test_an_underscore_in_a_name_is_a_hyphen() -> None:
    assert called("a -o x --n_bins 7")["n_bins"] == (7,)
    assert called("a_b -o n_bins")["named"] == Named(("a_b",))


def test_an_option_may_stand_before_the_words() -> None:
    assert called("-o x --fast a b")["named"] == Named(("a", "b"))
    assert called("a -o x b")["named"] == Named(("a", "b"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-o x", "NAME is missing: `calibench tried"),
        ("a", "--output/-o is missing"),
        ("a -o x --scores prob", "`--scores` has no `prob`; did you mean probs?"),
        ("a -o x --clip much", "`--clip` takes a number, got `much`."),
        ("a -o x --clip 1", "`--clip` must lie in [0, 1), got 1.0."),
        ("a -o x --n-bins 1 0", "`--n-bins` must be a positive integer, got 0."),
        ("a -o x --n-bns 1", "unknown option `--n-bns`; did you mean --n-bins? (see `calibench tried --help`)"),
        ("a -o x --fast --fst", "unknown option `--fst`"),
        ("a -o", "`--output` needs a value"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        VerbParser("tried", tried).run(line.split())
    assert "\n" not in str(caught.value)
    assert CALLS == []


def test_the_help_is_the_docstring(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        VerbParser("tried", tried).run(["--help"])
    text = capsys.readouterr().out
    words = " ".join(text.split()).replace("--output, -o FILE", "--output FILE, -o FILE")  # 3.13's
    for expected in (
        "Try 5 % of a b. And say so.",
        "NAME Some names.",
        "--output FILE, -o FILE Where it goes.",
        "--n-bins N [N ...] Numbers of bins. (default: 15 20)",
        "--clip P Raise smaller ones to this. (default: 0.25)",
        "--scores {logits,probs} What they are.",
        "--class CLASS A class.",
        "examples: calibench tried a one That is all. files: x.npz arrays",
    ):
        assert expected in words
    assert "Never" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_docstring_is_split_into_sections() -> None:
    parts = Docstring.from_object(Reading)
    assert parts.description == "How files are read."
    assert parts.arguments == {"clip": "Raise smaller ones to this.", "scores": "What they are."}
    assert parts.epilog == "files:\n  x.npz    arrays"


def test_what_is_unknown_can_go_to_the_verb() -> None:
    def check(name: str, parser: VerbParser) -> None:
        if "." not in name:
            raise UsageError(f"`{name}` is no key.")

    def keys(
        kind: str, *, jobs: int = 1, rest: Annotated[tuple[str, ...], Option(rest=check)] = ()
    ) -> int:
        """Take keys."""
        assert (kind, jobs, rest) == ("a", 2, ["--x.y=3"])
        return 0

    keys.__annotations__["rest"] = Annotated[tuple[str, ...], Option(rest=check)]
    assert VerbParser("keys", keys).run(["a", "--x.y", "3", "--jobs", "2"]) == 0
    assert VerbParser("keys", keys).run(["--jobs", "2", "--x.y", "3", "a"]) == 0  # 3 is no `kind`
    assert VerbParser("keys", keys).run(["--x.y=3", "--jobs", "2", "a"]) == 0
    with pytest.raises(UsageError, match="`--xy` is no key"):
        VerbParser("keys", keys).run(["a", "--xy", "3"])

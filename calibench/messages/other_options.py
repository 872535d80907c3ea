"""Options of other programs: what their words mean, and what to type here, from the table beside this file."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from calibench.messages.errors import did_you_mean

OPTION_TABLE = Path(__file__).with_suffix(".yaml")

Words = tuple[str, ...]

_FILLERS = {
    "n", "num", "nb", "number", "use", "no", "not", "do", "the", "of", "is", "with", "my", "enable", "enabled",
    "disable", "set",
}  # fmt: skip
"""Words that say little about what an option means: those of `--use-wandb`, `--n-bins` or `--no-cuda`."""
_OPTIONS = re.compile(r"`(--[\w.-]+)")
_PLACES = re.compile(r"\{([A-Z][\w.]*)\}")
_CLASS = re.compile(r"(?:\w+\.)*[A-Z]\w*$")
_EVERYWHERE = ("--debug", "--help", "--version")


@dataclass(frozen=True)
class Meaning:
    """One meaning that options of other programs have.

    Attributes:
        phrases: The words that others have for it.
        whole_phrases: Those that are all of an option.
        answers: What to type here, by verb or group of verbs: texts, of which the first that fits is given, or such
            texts by whether the value is a `class`, a `file` or another `name`.
    """

    phrases: tuple[Words, ...]
    whole_phrases: tuple[Words, ...]
    answers: Mapping[str, Any]

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> "Meaning":
        """The meaning in an entry of the table."""
        texts = [text.strip() for text in entry["words"].split(",")]
        phrases = tuple(option_words(text) for text in texts if not text.startswith("="))
        whole = tuple(option_words(text.removeprefix("=")) for text in texts)
        return cls(phrases, whole, {verb: entry[verb] for verb in entry if verb != "words"})

    def match_length(self, spellings: Sequence[Words], *, whole: bool) -> int:
        """Number of words of the longest phrase that is an option, or a part of it; 0 if none is."""
        if whole:
            return max(
                (len(words) for words in spellings if words in self.whole_phrases), default=0
            )
        phrases = (
            phrase for phrase in self.phrases for words in spellings if _holds(words, phrase)
        )
        return max(map(len, phrases), default=0)


def option_words(option: str) -> Words:
    """The words of an option in small letters and without endings of the plural: those of `n-bins` and `nBin`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", option)
    return tuple(_singular(word) for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word)


def _singular(word: str) -> str:
    return word if len(word) < 4 or word.endswith("ss") else word.removesuffix("s")


def _holds(words: Words, phrase: Words) -> bool:
    """Whether the words of a phrase stand one after the other among others."""
    starts = range(len(words) - len(phrase) + 1)
    return any(words[start : start + len(phrase)] == phrase for start in starts)


@cache
def meanings() -> tuple[Meaning, ...]:
    """All meanings, in the order of the table."""
    return tuple(Meaning.from_entry(entry) for entry in _table()["meanings"])


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.load(OPTION_TABLE.read_bytes(), Loader=_LOADER)
    return table


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class UnknownOption:
    """An option that a verb lacks.

    Attributes:
        verb: The verb, `evaluate` or `plot all`.
        name: The option, with dashes or without.
        options: The options that the verb has.
        value: What was typed behind it.
        takes_keys: Whether dotted keys of a configuration may stand beside the options.
    """

    verb: str
    name: str
    options: Collection[str]
    value: str = ""
    takes_keys: bool = False

    def find_answer(self, *, whole: bool) -> str:
        """`; did you mean --output?` or `: SENTENCE` for what it means in other programs; an empty string if unknown.

        Args:
            whole: Whether all its words must be those of a meaning, rather than some of them.
        """
        words = option_words(self.name)
        spellings = (words, tuple(word for word in words if word not in _FILLERS))
        lengths = [(entry.match_length(spellings, whole=whole), entry) for entry in meanings()]
        matches = sorted((pair for pair in lengths if pair[0]), key=lambda pair: -pair[0])
        answers = (self._answer(text) for _, meaning in matches for text in self._texts(meaning))
        return next(filter(None, answers), "")

    def _texts(self, meaning: Meaning) -> Iterator[str]:
        """The texts of a meaning for the verb: its own, those of its groups, or those for all verbs."""
        verb = self.verb.replace(" ", "-")
        groups = [group for group, verbs in _table()["groups"].items() if verb in verbs.split()]
        place = next((key for key in (verb, *groups, "all") if key in meaning.answers), "")
        answer = meaning.answers.get(place, "")
        if isinstance(answer, Mapping):
            kinds = {
                "class": _CLASS.match(self.value),
                "file": Path(self.value).suffix or (self.value and Path(self.value).exists()),
                "name": True,
            }
            answer = next(answer[kind] for kind, fits in kinds.items() if fits and kind in answer)
        yield from [answer] if isinstance(answer, str) else answer

    def _answer(self, text: str) -> str:
        """The sentence of a text of the table; an empty string if the verb lacks the options in it."""
        if text.startswith("--"):
            return did_you_mean([name for name in text.split() if name in self.options][:1])
        named = {name for name in _OPTIONS.findall(text) if not (self.takes_keys and "." in name)}
        if not named <= {*self.options, *_EVERYWHERE}:
            return ""
        return f": {_PLACES.sub(self._fill, text)}" if text else ""

    def _fill(self, match: re.Match[str]) -> str:
        """The value that was typed, where it can stand for a word in capitals; otherwise this word."""
        word = match[1]
        if word == "OPTION":
            return self.name.lstrip("-").replace("-", "_")
        fits = bool(self.value) and not self.value.startswith("-")
        if word == "N":
            fits = self.value.isdecimal()
        return shlex.quote(self.value) if fits else word

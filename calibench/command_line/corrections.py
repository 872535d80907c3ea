"""Whole commands in place of mistaken ones: what a message says is tried on the words, until the verb takes them.

A message has in backticks what is wrong, and behind it what to type: an option with its value, a word, or the names
behind "did you mean". Each way to put the one in the place of the other is tried. The verb's own check says which it
takes, or names the next mistake: so a command that is printed was checked, and can be typed as it is.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from calibench.command_line.printed_commands import fill_places, is_literal, whole_commands
from calibench.messages.errors import one_line

Check = Callable[[Sequence[str]], None]
"""Raises a ValueError, a FileNotFoundError or a SystemExit for words that a verb does not take."""

MOST_CORRECTIONS = 6
LONGEST_COMMAND = 300  # characters; a longer one is not printed
LONGEST_TEXT = 220  # characters of two messages; of longer ones the first is printed

_SEE = re.compile(r" \(see `[^`]*`\)")
_QUOTED = re.compile(r"`([^`]+)`")
_NEAR_NAMES = re.compile(r"; did you mean (\S[^;?]*)\?")
_REMEDY = re.compile(r": [^`;,]*`([^`]+)`")
_LEAVE_OUT = re.compile(r"(?:: l|\. L)eave it out")


class Correction(NamedTuple):
    """The words of a command after one correction, and whether it left out an option that no message says to."""

    words: list[str]
    leaves_out: bool = False


@dataclass(frozen=True)
class Mistake:
    """The mistake in a command that a message is about: the words of it, and what to type instead.

    Attributes:
        words: The words.
        start: The place of the first wrong one: an option, or a value or a file.
        end: The place behind the last one: behind the values of an option.
        wrong: What is wrong: the option, or its value, or a part of it between commas.
        name: The likeliest name for it; empty if none is the likeliest.
        remedy: What to type in its place, as words; empty if a name stands for it, or nothing does.
        is_unknown: Whether it is an option that the verb lacks.
        may_be_left: Whether the command does without it: an option or a metric with nothing in its place.
        is_to_leave: Whether it is to be left out.
    """

    words: list[str]
    start: int
    end: int
    wrong: str
    name: str
    remedy: list[str]
    is_unknown: bool
    may_be_left: bool
    is_to_leave: bool

    @classmethod
    def from_message(cls, text: str, words: Sequence[str]) -> "Mistake | None":
        """The mistake that a message names; None if it names no word that was typed."""
        near = _NEAR_NAMES.search(text)
        last_word = text[: near.start()].split()[-1:] if near else []
        typed = [part for part in (*_QUOTED.findall(text), *last_word) if _find(words, part) >= 0]
        if not typed:
            return None
        wrong, start = typed[0], _find(words, typed[0])
        end = _end_of_values(words, start)
        if _is_option(words[start]) and words[start + 1 : start + 2] == typed[1:2] != []:
            wrong, end = typed[1], start + 2
        names = near[1].split(", ") if near else []
        begin = [name for name in names if name.lower().startswith(wrong.lower())]
        name = names[0].split()[0] if names and len(begin) < 2 else ""
        behind = text.partition(f"`{wrong}`")[2]
        remedy = _REMEDY.search(behind)
        remedy_words = _split(remedy[1]) if remedy and not near else []
        if not is_literal(remedy_words) or remedy_words[:1] == ["calibench"]:
            remedy_words = []
        is_alone = not near and not remedy_words and not behind.startswith(": `-")
        return cls(
            [*words],
            start,
            end,
            wrong,
            name if is_literal([name]) else "",
            remedy_words,
            text.startswith("unknown option "),
            is_alone and text.startswith(("unknown option ", "there is no metric ")),
            _LEAVE_OUT.search(text) is not None,
        )

    def corrections(self) -> Iterator[Correction]:
        """The words with the mistake corrected in each way, the likeliest first."""
        if self.is_to_leave:
            yield Correction(self._swap_in([]))
            return
        if self.name and self.is_unknown:
            yield from map(Correction, self._rename(self.name))
        elif self.name:
            yield Correction(self._replace(self.name))
        elif self.remedy:
            yield from map(Correction, self._type(self.remedy))
        if self.is_unknown and self.wrong in self.words[self.start + 1 : self.end]:
            yield Correction(self._swap_in([self.wrong]))
        elif self.may_be_left:
            yield Correction(self._swap_in([]), leaves_out=True)

    @property
    def _names_option(self) -> bool:
        """Whether what is wrong is an option, not its value."""
        option = self.words[self.start].partition("=")[0]
        return _is_option(option) and option.lstrip("-") == self.wrong.lstrip("-")

    def _swap_in(self, new: Sequence[str]) -> list[str]:
        """The words with others in the place of the wrong ones."""
        return [*self.words[: self.start], *new, *self.words[self.end :]]

    def _rename(self, name: str) -> Iterator[list[str]]:
        """The words with the option under another name, and with the value of `--metric metric=ece` alone."""
        _, equals, value = self.words[self.start].partition("=")
        name = name if name.startswith("-") else f"--{name}"
        values = self.words[self.start + 1 : self.end]
        if "=" in "".join(values[:1]) and name != "--keys":
            yield self._swap_in([name, values[0].partition("=")[2], *values[1:]])
        yield self._swap_in([f"{name}{equals}{value}", *values])

    def _replace(self, name: str) -> list[str]:
        """The words with another name for the wrong one."""
        return [_replace_part(word, self.wrong, name) for word in self.words]

    def _type(self, remedy: list[str]) -> Iterator[list[str]]:
        """The words with what a message says to type, in the place of the wrong ones, or at the end before a value."""
        others = self._swap_in([])
        if remedy[0].startswith("-"):
            if self.words[self.start - 1 : self.start] == remedy[:1]:
                yield [*self.words[: self.start - 1], *remedy, *self.words[self.end :]]
            elif not {*remedy} <= {*others}:
                yield self._swap_in(remedy)
                if not all(map(_is_option, self.words[self.end : self.end + 1])):
                    yield [
                        *others,
                        *remedy,
                    ]  # where an option would take the next word as its value
            return
        file = remedy[0].partition(":")[0]
        if file in others and len(remedy) == 1:
            yield [remedy[0] if word == file else word for word in others]
        elif len(remedy) == 1 and not self._names_option:
            yield self._replace(remedy[0])


def _split(text: str) -> list[str]:
    """The words of a text in backticks; none where its quotes are not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _is_option(word: str) -> bool:
    return re.match("--?[A-Za-z]", word) is not None


def _find(words: Sequence[str], part: str) -> int:
    """The place of a word, an option with or without dashes, or a value between commas; -1 if it is not there."""
    places, names = range(len(words)), (part, f"--{part}")
    exact = (n for n in places if words[n] == part or words[n].partition("=")[0] in names)
    inside = (n for n in places if _replace_part(words[n], part, "") != words[n])
    return next(exact, next(inside, -1))


def _replace_part(word: str, wrong: str, right: str) -> str:
    """A word with another text for a wrong one, which may stand between commas or behind the `=` of an option."""
    name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    is_path = "://" not in wrong and "/" in wrong and right != "" and "/" not in right
    if value == wrong and is_path and not Path(right).exists():
        right = str(Path(wrong).with_name(right))  # a file beside the one that is not there
    parts = [right if part == wrong else part for part in value.split(",")]
    return f"{name}{equals}{','.join(parts)}"


def _end_of_values(words: Sequence[str], start: int) -> int:
    """The place behind the values of an option, of which a file is none if it is the only one; behind other words."""
    if not _is_option(words[start]) or "=" in words[start]:
        return start + 1
    values = [*takewhile(lambda word: not _is_option(word), words[start + 1 :])]
    others = [*words[:start], *words[start + 1 + len(values) :]]
    if not any(Path(word).exists() for word in others):
        values = [*takewhile(lambda word: not Path(word).exists(), values)]
    return start + 1 + len(values)


def with_whole_command(text: str, verb: str, words: Sequence[str], check: Check) -> str:
    """A message with the whole command to type behind it, if all mistakes in the words can be corrected."""
    text = fill_places(text, words)
    corrected, messages = mend(text, words, check, verb)
    command = shlex.join(["calibench", *verb.split(), *corrected.words])
    if not messages or command in text or len(command) > LONGEST_COMMAND:
        return text
    plain = "; ".join(message.rstrip(".") for message in messages[:2])
    plain = plain if len(plain) <= LONGEST_TEXT else messages[0].rstrip(".")
    if corrected.leaves_out:
        return f"{plain}; without it: `{command}`"
    return f"{plain} Type `{command}`" if plain[-1] == "?" else f"{plain}; type `{command}`"


def mend(
    text: str, words: Sequence[str], check: Check, verb: str = "", left: int = MOST_CORRECTIONS
) -> tuple[Correction, list[str]]:
    """The words of a mistaken command, corrected as its messages say, and these messages; none if they cannot be.

    Args:
        text: The message about the first mistake.
        words: The words behind the verb.
        check: Checks such words.
        verb: The verb, whose whole commands in messages are taken.
        left: How many mistakes may be corrected.
    """
    plain = _SEE.sub("", text)
    for correction in corrections(plain, words, verb) if left else ():
        try:
            check(correction.words)
        except (ValueError, OSError) as error:
            next_text = fill_places(one_line(error), correction.words)
            later = mend(next_text, correction.words, check, verb, left - 1)
            if later[1]:
                return Correction(later[0].words, correction.leaves_out), [plain, *later[1]]
        except SystemExit:
            continue
        else:
            return correction, [plain]
    return Correction([]), []


def corrections(text: str, words: Sequence[str], verb: str = "") -> Iterator[Correction]:
    """The words with the mistakes of one message corrected in each way, the likeliest first.

    The whole command of a verb in the message is the first. Of several names that there are not, each is replaced by
    its likeliest, or left out where it has none.
    """
    start = verb.split()
    commands = [line for line in whole_commands(text) if start and _keeps(line, text, words)]
    yield from (Correction(line[len(start) :]) for line in commands if line[: len(start)] == start)
    first, *others = re.split("; (?=there is no )", text)
    for other in others:
        mistake = Mistake.from_message(other, words)
        if mistake is None:
            return
        words = next((correction.words for correction in mistake.corrections()), [])
    mistake = Mistake.from_message(first, words)
    for correction in mistake.corrections() if mistake else ():
        if correction.words not in ([], [*words]):
            yield correction


def _keeps(command: Sequence[str], text: str, words: Sequence[str]) -> bool:
    """Whether a whole command in a message has a word that was typed, and all options but those in the message."""
    options = [word.partition("=")[0] for word in words if _is_option(word)]
    unquoted = {option for option in options if f"`{option}`" not in text}
    return not words or (not {*words}.isdisjoint(command) and unquoted <= {*command})

"""Parser of a verb: the signature of its function says the arguments, the docstring is the help, mistakes are one line.

jsonargparse, which reads the configuration of a run, was tried: it takes lists as `[a,b]` and not as `a b`, adds
`--config` and `--print_config` to every verb, words a mistake in three to eight lines, and costs as much as
`calibench --help` does in all. So a signature becomes argparse's arguments here. A ValueError of a verb, or a
FileNotFoundError, is the user's mistake, and a line on the terminal.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import partial
from inspect import signature, unwrap
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from calibench.command_line.hints import (
    FILE_HINTS,
    MISSING_VALUE_HINTS,
    WORD_HINTS,
    synonym_word,
)
from calibench.command_line.typed_arguments import Argument, Arguments, check_of
from calibench.files.table_file import TABLE_KINDS
from calibench.files.tables import open_table
from calibench.messages.errors import UsageError, did_you_mean, near_matches
from calibench.messages.other_options import UnknownOption
from calibench.messages.printable_text import terminal_width, wrap_text

HELP_OF_WINDOWS = ("/?", "/h", "/help")
_LABELS_FILE = re.compile(
    r"(?:y|labels?|targets?|truth|answers|gt|ground_?truth|y_?(?:true|test|val))(?![a-z])",
    re.IGNORECASE,
)


def _flatten_options(values: Mapping[str, object]) -> dict[str, object]:
    """Values by name, those in dataclasses of options among them."""
    flat = dict(values)
    for value in values.values():
        if is_dataclass(value):
            flat |= _flatten_options(vars(value))
    return flat


class VerbParser(argparse.ArgumentParser):
    """Parser of a verb's own options: a mistake is a UsageError, with near matches.

    Args:
        verb: The verb.
        function: What it does. It returns the exit code; or the words of another verb that goes on; or a result that
            `tell` prints, given those of the verb's arguments that it takes.
    """

    def __init__(self, verb: str, function: Callable[..., Any]) -> None:
        self.verb = verb
        self.find_elsewhere: Callable[[str, Sequence[str]], str] = lambda name, words: ""
        self.known: list[str] = []  # before the base class adds `--help`
        self._words: Sequence[str] = ()  # that are parsed
        self.rest: str | None = None
        self.check_rest: Callable[[str, VerbParser], None] = lambda name, _: self.refuse_option(
            name
        )
        self.arguments = Arguments(unwrap(function))
        self._check_values = check_of(function)
        super().__init__(
            prog=f"calibench {verb}",
            allow_abbrev=False,
            formatter_class=partial(
                argparse.RawDescriptionHelpFormatter, max_help_position=24, width=terminal_width()
            ),
            description=wrap_text(self.arguments.docstring.description),
            epilog=wrap_text("\n\n".join(filter(None, self.arguments.epilogs))),
        )
        self.arguments.declare(self)
        for argument in self._own_arguments:
            if check := argument.type.option.rest:
                self.rest, self.check_rest = argument.attribute, check
        if self.rest:
            self.usage = f"{self.format_usage().partition(': ')[2].rstrip()} [--KEY VALUE ...]"

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add an argument, whose name may be a near match."""
        action = super().add_argument(*args, **options)
        self.known += action.option_strings
        return action

    def parse_args(self, args: Sequence[str]) -> Any:  # type: ignore[override]
        """Parse; raises a UsageError for a mistake: a misspelt option before one that is missing."""
        words = [self._hyphenate(word) for word in args]
        words_before_dashes = list(takewhile(lambda text: text != "--", words))
        names = [text.partition("=")[0] for text in words_before_dashes if text.startswith("--")]
        self._words = words
        for word in words:
            self._check_word(word)
        for name in names if not {"-h", "--help"} & set(words_before_dashes) else ():
            if name not in self.known:
                self.check_rest(name, self)
        if self.rest is not None:
            options, further_words = self.parse_known_args([*self._join_values(words)])
            setattr(options, self.rest, further_words)
            return options
        options, further_words = self.parse_known_intermixed_args(words)
        for text in further_words:
            if text.startswith("-"):
                self.refuse_option(text.partition("=")[0])
            hint = self._hint_for_file(text, words, len(further_words))
            self.error(f"`{text}` is one argument too many{hint}")
        self._refuse_swapped(options)
        self._refuse_file_as_choice(options)
        return options

    def _check_word(self, word: str) -> None:
        """Raise a UsageError for a word as other shells have it: `/?`, `/output:x.html`, or several words in one."""
        if not word or Path(word).exists():
            return
        if word in HELP_OF_WINDOWS:
            self.error(f"`{word}`: `{self.prog} --help` prints the help")
        slashed = re.fullmatch(r"/([a-zA-Z-]+)(?:[:=](.*))?", word)
        if slashed and (option := f"--{slashed[1].lower()}") in self.known:
            self.error(f"`{word}`: write `{option}{f' {slashed[2]}' if slashed[2] else ''}`")
        if word != word.strip() and Path(word.strip()).is_file():
            self.error(f"`{word}` ends in a blank: leave it out")
        if option_inside := re.match(r"(\S+) (--[a-z].*)", word):
            separate = f"`{option_inside[1]} {option_inside[2]}`"
            self.error(f"quotes make one word of several: write {separate} without them")

    def _join_values(self, words: Sequence[str]) -> Iterator[str]:
        """Words in which a key of the rest and its value are one, so that the value is no positional argument."""
        left = deque(words)
        while left:
            word = left.popleft()
            is_key = word.startswith("--") and "=" not in word and word not in (*self.known, "--")
            is_followed = bool(left) and not left[0].startswith("--")
            yield f"{word}={left.popleft()}" if is_key and is_followed else word

    def _hint_for_file(self, text: str, words: Sequence[str], number: int) -> str:
        """A hint at files too many: labels of the one before it, or the validation set; an empty string for others."""
        before = words[max(0, words.index(text) - 1)]
        is_alone = not self._positional and number == 1 and not {"--val", "--apply"} & {*words}
        if Path(text).is_file() and not is_alone and (hint := FILE_HINTS.get(self.verb)):
            return f": {hint}"
        if number > 1 and Path(text).is_file():
            return ": several models are compared by `calibench evaluate A B`"
        are_arrays = text.endswith(".npy") and before.endswith(".npy")
        is_labels = Path(text).is_file() and _LABELS_FILE.match(Path(text).stem)
        if (are_arrays or is_labels) and Path(before).suffix and before != text:
            return f": labels belong to the file as `{before}:{text}`"
        if "--output" in self.known and Path(text).suffix and not Path(text).exists():
            return f": a file to write is given as `--output {text}`"
        if not Path(text).is_file() and (hint := WORD_HINTS.get(self.verb)):
            return f": {hint}"
        if "--val" not in self.known or not Path(text).is_file():
            return ""
        if "val" in Path(before).stem and "val" not in Path(text).stem:
            return f": the test set comes first, `{self.prog} {text} --val {before}`"
        return f": a validation set is given as `--val {text}`"

    def _hyphenate(self, word: str) -> str:
        """An option with hyphens, where it is known so: `--n_bins` is `--n-bins`."""
        name, equals, value = word.partition("=")
        spelled = name.replace("_", "-")
        return f"{spelled}{equals}{value}" if spelled in self.known else word

    def check(self, words: Sequence[str]) -> dict[str, object]:
        """The values of a command line by name; raises a ValueError for a mistake in it, and nothing is done."""
        values = self.arguments.values(self.parse_args(words))
        self._check_values(**values)
        return values

    def run(self, words: Sequence[str]) -> int | list[str]:
        """Do what a command line says; raises a ValueError for a mistake in it."""
        values = self.arguments.values(self.parse_args(words))
        result = self.arguments.make(**values)
        if isinstance(result, int | list):
            return result
        options = _flatten_options(values)
        result.tell(**{name: options[name] for name in signature(result.tell).parameters})
        return 0

    def refuse_option(self, name: str, others: Sequence[str] = (), *, hint: str = "") -> NoReturn:
        """Raise a UsageError: there is no such option, neither here nor among the others; the hint says what is."""
        options = [*self.known, *others]
        value, takes_keys = self._value_of(name), self.rest is not None
        unknown = UnknownOption(self.verb, name, options, value, takes_keys)
        bare = [option.removeprefix("--") for option in options if option.startswith("--")]
        likely = get_close_matches(name.lstrip("-").replace("_", "-"), bare, 1, 0.8)
        typos = [typo for typo in likely if not value or self._takes(f"--{typo}", value)]
        word = self._first_choice(name)
        with_value = {part.name.removeprefix("--") for part in self._options if part.spelled_value}
        near = [option for option in bare if value or option not in with_value]
        is_short = len(name.lstrip("-")) < 5  # two letters in the other order are half of it
        answers: Iterator[Callable[[], str]] = iter(
            (
                lambda: f": a word without dashes, `{self.prog} {word}`" if word else "",
                lambda: unknown.find_answer(whole=True),
                lambda: self._describe_column(value),
                lambda: did_you_mean(f"--{typo}" for typo in typos),
                lambda: self.find_elsewhere(name, self._words),
                lambda: unknown.find_answer(whole=False),
                lambda: f": {hint}" if hint else "",
                lambda: near_matches(name.lstrip("-"), near, prefix="--", loosely=is_short),
                lambda: self._describe_options(value),
            )
        )
        self.error(f"unknown option `{name}`{next(filter(None, (answer() for answer in answers)))}")

    def _takes(self, option: str, value: str) -> bool:
        """Whether an option may have a value, where it has few."""
        parts = [part for part in self._options if part.name == option]
        choices = parts[0].type.option.allowed_values if parts else []
        near = get_close_matches(value.lower(), choices, 1, 0.5)
        return not choices or bool(near)

    def _describe_column(self, value: str) -> str:
        """How a column is named that was typed behind an option, `--outcome death`; empty where it names none."""
        files = [Path(word) for word in self._words if Path(word).suffix in TABLE_KINDS]
        if "--keys" not in self.known or not value or not files or not files[0].is_file():
            return ""
        try:
            table = open_table(files[0], is_silent=True)
            if value not in table.written:
                return ""
            cells = table.frame([table.names[table.written.index(value)]]).iloc[:, 0]
        except (OSError, ValueError):
            return ""
        if cells.dtype.kind == "f" and cells.between(0, 1).all():
            return f": `--keys probs={value}` reads this column as probabilities"
        if cells.nunique() <= len(cells) / 2:
            return f"; labels are named by `--keys target={value}`, and other columns are left out"
        return f": leave it out, the column `{value}` is not needed"

    def _describe_options(self, value: str) -> str:
        """The options that take such a value: a number, a file or a name; all of the verb where none was typed."""
        options = [part for part in self._options if part.name != "--help"]
        kinds = [part for part in options if part.takes(value)]
        names = ", ".join(f"{part.name}{part.spelled_value}" for part in kinds or options)
        if not options:
            return ": leave it out, there are no options"
        if kinds and value:
            return f"; options with such a value are {names}"
        return f"; there are {names}"

    @property
    def _options(self) -> list[Argument]:
        """The options of the function and of its groups."""
        return [part for part in self.arguments.flat() if part.as_option]

    def _value_of(self, name: str) -> str:
        """The word that was typed behind an option; an empty string where none was."""
        words = [word for text in self._words for word in text.split("=", 1)]
        places = [place for place, word in enumerate(words[:-1]) if word == name]
        return "" if not places or words[places[0] + 1].startswith("-") else words[places[0] + 1]

    def _first_choice(self, option: str) -> str:
        """The choice of the first argument that an option spells, `losses` of `--losses`; empty if it is none."""
        choices = self._positional[0].type.option.allowed_values if self._positional else []
        word = option.lstrip("-")
        return next((name for name in (word, word.replace("_", "-")) if name in choices), "")

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError; where arguments are missing, with an example of a whole command."""
        missing = message.partition("the following arguments are required: ")[2]
        if missing:
            self._check_first_word()
        if missing and (example := self._first_example()):
            names = missing.partition("}")[2] if "{" in missing else missing
            verb = "are" if ", " in names else "is"
            example = self._complete(missing, example)
            message = f"{missing} {verb} missing: `{example}`, for instance"
        name, _, fault = message.removeprefix("argument ").partition(": ")
        if fault.startswith("expected "):
            option = name.partition("/")[0]
            message = f"`{option}` needs a value{MISSING_VALUE_HINTS.get(option, '')}"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    @property
    def _own_arguments(self) -> list[Argument]:
        """Arguments of the function itself, without those of groups."""
        return [part for part in self.arguments.parts.values() if isinstance(part, Argument)]

    @property
    def _positional(self) -> list[Argument]:
        """Arguments of the function itself that are words without an option."""
        return [part for part in self._own_arguments if not part.as_option]

    def _check_first_word(self) -> None:
        """Raise a UsageError for a first word that is none of the choices there, if it names no file."""
        word = "".join(self._words[:1])
        if not self._positional or not word or word.startswith("-") or Path(word).exists():
            return
        first, *others = self._positional
        if not synonym_word(word, first.type.option.allowed_values):
            first.type.read(first.attribute, word)
        if others and (check := others[0].type.option.check_beside) and len(self._words) > 1:
            check(word, self._words[1])

    def _refuse_file_as_choice(self, options: argparse.Namespace) -> None:
        """Raise a UsageError where a file stands alone in place of the choice before it: `plot test.npz`."""
        first = self._positional[0] if len(self._positional) > 1 else None
        choices = first.type.option.allowed_values if first else []
        word = getattr(options, first.attribute) if first else ""
        if choices and word not in choices and Path(word).exists():
            example = self._first_example().split()
            choice = next((part for part in example if part in choices), choices[0])
            command = shlex.join([*self.prog.split(), choice, *self._words])
            self.error(f"the first word is one of {', '.join(choices)}: `{command}`, for instance")

    def _complete(self, missing: str, example: str) -> str:
        """The typed words with a missing option as an example has it; the example itself where that is not enough."""
        option, *other_names = missing.split("/")
        parts = example.split()
        if not self._positional and Path("".join(self._words[:1])).is_file() and "--val" in parts:
            parts[parts.index("--val") + 1] = self._words[0]
            return shlex.join(parts)
        values = [parts[parts.index(name) + 1] for name in (option, *other_names) if name in parts]
        first_word = "".join(self._words[:1])
        allowed = self._positional[0].type.option.allowed_values if self._positional else [""]
        fits = first_word in allowed if allowed else not first_word.startswith("-")
        typed = {option, *other_names, *self._words}
        fits = fits or typed.issuperset(part for part in parts if part.startswith("-"))
        words = [*self._words]
        if not fits and (meant := synonym_word(first_word, allowed)):
            fits, words[0] = True, meant
        if (
            allowed
            and Path(first_word).exists()
            and len(self._positional) > 1
            and len(self._words) == 1
        ):
            return shlex.join([*parts[:3], first_word, *parts[4:]])  # the second of two words alone
        if not (values and first_word and fits and option.startswith("-")):
            return example
        # `x.png` alone may stand for the file that is missing
        files = [word for word in self._words[1:] if Path(word).suffix and not Path(word).exists()]
        value = files[-1] if option == "--output" and files else values[0]
        words = [word for word in words if word != value]
        return shlex.join([*self.prog.split(), *words, option, value])

    def _first_example(self) -> str:
        """The first example of the help that has a typed option, or the first of all; empty without any."""
        lines = (line.strip() for text in self.arguments.epilogs for line in text.splitlines())
        examples = [line for line in lines if line.startswith(f"{self.prog} ")]
        typed = {word for word in self._words if word.startswith("--")}
        likely = [line for line in examples if not typed.isdisjoint(line.split())] or examples
        return re.split(r" {2,}", (likely or [""])[0])[0]

    def _refuse_swapped(self, options: argparse.Namespace) -> None:
        """Raise a UsageError where the first argument is one of a few words, and stands behind another one."""
        texts = [
            (part.type.option.allowed_values, getattr(options, part.attribute))
            for part in self._positional
        ]
        if len(texts) < 2 or not isinstance(texts[1][1], str):
            return
        (words, first), (_, second), *_ = texts
        if words and first not in words and second in words:
            others = [word for word in self._words if word not in (first, second)]
            command = shlex.join([*self.prog.split(), second, first, *others])
            self.error(f"`{second}` comes first: `{command}`")

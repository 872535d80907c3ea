"""Parser of a verb's own options: an error is one line with near matches."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from calibench.ground.errors import UsageError, near_matches

# What argparse says of a wrong choice; in other words, the user gets those words.
_CHOICE = re.compile(
    r"(argument (?P<name>\S+): )invalid choice: '(?P<value>.*?)' \(choose from (?P<known>.*)\)"
)


class VerbParser(argparse.ArgumentParser):
    """Reports a mistake as a UsageError, with near matches.

    Args:
        verb: The verb.
    """

    def __init__(self, verb: str) -> None:
        self.known: list[str] = []  # before the base class adds `--help`
        super().__init__(
            prog=f"calibench {verb}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add an argument, whose name may be a near match."""
        return self._noted(super().add_argument(*args, **options))

    def add_mutually_exclusive_group(self, **options: Any) -> Any:
        """Add a group, the names of whose arguments may be near matches too."""
        group = super().add_mutually_exclusive_group(**options)
        add = group.add_argument
        group.add_argument = lambda *args, **more: self._noted(add(*args, **more))  # type: ignore[method-assign]
        return group

    def _noted(self, action: argparse.Action) -> argparse.Action:
        self.known += action.option_strings
        return action

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse; raises a UsageError for a mistake: a misspelt option before one that is missing."""
        given = list(takewhile(lambda text: text != "--", args or ()))
        names = [text.partition("=")[0] for text in given if text.startswith("--")]
        for name in names if not {"-h", "--help"} & set(given) else ():
            if name not in self.known:
                self.refuse_option(name)
        options, rest = self.parse_known_args(args, namespace)
        for text in rest:
            if text.startswith("-"):
                self.refuse_option(text.partition("=")[0])
            self.error(f"`{text}` is one argument too many")
        return options

    def refuse_option(self, name: str, others: Sequence[str] = ()) -> NoReturn:
        """Raise a UsageError: there is no such option, neither here nor among the others."""
        self.error(f"unknown option `{name}`{near_matches(name, [*self.known, *others])}")

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError."""
        if found := _CHOICE.fullmatch(message):
            known = [name.strip().strip("'") for name in found["known"].split(",")]
            near = near_matches(found["value"], known)
            message = f"`{found['name']}` has no `{found['value']}`{near} (choose from {', '.join(known)})"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

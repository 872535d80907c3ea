"""Parser of a verb's own options: an error is one line with near matches."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
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
        action: argparse.Action = super().add_argument(*args, **options)
        self.known += action.option_strings
        return action

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse; raises a UsageError for a mistake."""
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

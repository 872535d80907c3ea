"""Titles of metrics in tables and plots, their units, and which direction is better; without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

LESS, NEITHER, MORE = -1, 0, 1  # what is better


@dataclass(frozen=True)
class Title:
    """How a metric is printed and compared.

    Attributes:
        title: Its name in a table.
        percent: Whether print shows it in percent (files hold fractions).
        decimals: Printed decimals.
        direction: -1 where less is better, 1 where more is, 0 where neither is.
        smallest: Lower end of its range.
        largest: Upper end of its range.
    """

    title: str
    direction: int = LESS
    percent: bool = False
    decimals: int = 3
    smallest: float = 0.0
    largest: float = math.inf

    @property
    def label(self) -> str:
        """The title with its unit."""
        return f"{self.title} %" if self.percent else self.title

    def show(self, value: float, sign: str = "") -> str:
        """A value as a table prints it, in percent where the metric is; `sign` as in a format."""
        return f"{value * (100 if self.percent else 1):{sign}.{self.decimals}f}"


rate = partial(Title, percent=True, decimals=2, largest=1.0)
signed = partial(Title, smallest=-math.inf)
signed_rate = partial(Title, percent=True, decimals=2, smallest=-math.inf, largest=2.0)


@dataclass(frozen=True)
class Entry:
    """A metric class in the table of the family.

    Attributes:
        line: What it is, and where it is from: the first line of its docstring.
        values: What files call its value, or each of its values, with their titles.
        variants: The same for other arguments: MCE is ECE with the norm `max`.
        of_labelled_sets: Whether it takes probabilities and targets and gives numbers, or one for each class.
        name: What a command line may call all of its values.
    """

    line: str
    values: Mapping[str, Title]
    variants: Mapping[str, Title] = field(default_factory=dict)
    of_labelled_sets: bool = True
    name: str = ""

    @property
    def names(self) -> list[str]:
        """What a command line may call the class, in small letters."""
        titles = (title.title.casefold() for title in self.values.values())
        return [*filter(None, [self.name]), *self.values, *titles]

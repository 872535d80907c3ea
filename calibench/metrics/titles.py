"""Titles of metrics in tables and plots, their units, and which direction is better; without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

LESS, NEITHER, MORE = -1, 0, 1  # what is better


@dataclass(frozen=True)
class Title:
    """How a metric is printed and compared.

    Attributes:
        direction: -1 where less is better, 1 where more is, 0 where neither is.
        percent: Whether print shows it in percent (files hold fractions).
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

    @property
    def scale(self) -> int:
        """Factor from a value in files to the printed or drawn one."""
        return 100 if self.percent else 1

    def show(self, value: float, sign: str = "") -> str:
        """A value as a table prints it, in percent where the metric is; `sign` as in a format."""
        return f"{value * self.scale:{sign}.{self.decimals}f}"


rate = partial(Title, percent=True, decimals=2, largest=1.0)
signed = partial(Title, smallest=-math.inf)
signed_rate = partial(Title, percent=True, decimals=2, smallest=-math.inf, largest=2.0)


Titles = Mapping[str, Title]
"""Names of values in files, in the order of `compute`, each with its title."""


@dataclass(frozen=True)
class MetricEntry:
    """A metric class in the table of the family.

    Attributes:
        line: What it is, and where it is from: the first line of its docstring.
        values: What files call its value, or each of its values in the order of `compute`, with their titles.
        variants: The same for other arguments, by these: MCE is ECE with the norm `max`.
        of_labelled_sets: Whether it takes probabilities and targets and gives numbers, or one for each class.
        name: What a command line may call all of its values.
    """

    line: str
    values: Titles
    variants: Mapping[str, Titles] = field(default_factory=dict)
    of_labelled_sets: bool = True
    name: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the class on a command line, in small letters; those of a variant stand for its arguments too."""
        titles = (title.title.casefold() for title in self.values.values())
        variants = (name for values in self.variants.values() for name in values)
        return [*filter(None, [self.name]), *self.values, *titles, *variants]

    def variant_of(self, value: str) -> list[str]:
        """The arguments of the variant with a value of this name: `max` of `mce`; none of the class's own values."""
        keys = (key for key, values in self.variants.items() if value in values)
        return next(keys, "").split()

    @property
    def all_values(self) -> dict[str, Title]:
        """Its values, whatever its arguments."""
        variants = (title for values in self.variants.values() for title in values.items())
        return {**self.values, **dict(variants)}


class MetricTitles:
    """Mixin that gives a metric class its column names and titles: those of its `titles`, if it has any.

    Attributes:
        titles: What files call the value of `compute`, or each of its values in their order, with their titles.
        variant_titles: The same for other arguments, by these: MCE is ECE with the norm `max`.
        group_name: What a command line may call all of its values.
        of_labelled_sets: Whether it takes probabilities and targets and gives numbers, or one for each class.
        name: What files call its value, whatever the number of bins; an instance may be a variant.
        title: What tables and plots call it.
        percent: Whether tables print it in percent; files hold fractions.
        value_names: What files call each value of the dict that `compute` returns, in its order.
    """

    titles: ClassVar[Titles] = {}
    variant_titles: ClassVar[Mapping[str, Titles]] = {}
    group_name: ClassVar[str] = ""
    of_labelled_sets: ClassVar[bool] = True
    name: str
    title: str
    percent: ClassVar[bool] = True
    higher_is_better: bool | None = False
    value_names: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "titles" not in vars(cls):
            return
        titles = cls.titles.values()
        cls.percent = any(title.percent for title in titles)
        directions = {title.direction for title in titles}
        cls.higher_is_better = {LESS: False, MORE: True}.get(
            directions.pop() if len(directions) == 1 else NEITHER
        )
        _name(cls, cls.titles, cls.group_name)

    @classmethod
    def table_entry(cls) -> MetricEntry:
        """The entry of the class in the table of the family."""
        line = (cls.__doc__ or "").partition("\n")[0]
        return MetricEntry(
            line, cls.titles, cls.variant_titles, cls.of_labelled_sets, cls.group_name
        )

    def take_variant_name(self, *options: str) -> None:
        """Take the names and the title of values with these arguments, if they have others."""
        if values := self.variant_titles.get(" ".join(options)):
            _name(self, values)


def _name(
    metric: type[MetricTitles] | MetricTitles, values: Mapping[str, Title], name: str = ""
) -> None:
    metric.name, metric.value_names = name or next(iter(values)), tuple(values)
    metric.title = name.replace("_", " ") or next(iter(values.values())).title

"""The scores of an evaluation as entries of a table and as sentences, and the mark of those that are at their floor."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from calibench.statistics.number import VAL, Key, Number
from calibench.tables.grid import PrintedNumber
from calibench.tables.titles import metric_info

MARK = "°"
_MEANING = f"{MARK} cannot be told from perfect calibration at this number of examples"


_BY = "ece"  # the metric that sentences speak of


class Measure(NamedTuple):
    """A metric of a set in a table: its heading, the set, the metric, and its uncertainty score or label, if any."""

    label: str
    split: str
    metric: str
    score: str | None = None
    of: str | None = None


def measures(split: str, metrics: Sequence[str]) -> list[Measure]:
    """Metrics of a set under their titles."""
    return [Measure(metric_info(name).label, split, name) for name in metrics]


def detection(numbers: Iterable[Number]) -> list[Measure]:
    """Out-of-distribution AUROC by entropy, for every set that has it."""
    keys = (number.key for number in numbers)
    sets = dict.fromkeys(key.split for key in keys if key.metric == "ood_auroc")
    return [Measure(f"OOD AUROC % {name}", name, "ood_auroc", "entropy") for name in sets]


class Scores:
    """Numbers of an evaluation by key; of several numbers of bins the first."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._numbers: dict[Key, Number] = {}
        for number in numbers:
            self._numbers.setdefault(number.key._replace(n_bins=None), number)

    def entry(self, measure: Measure, calibrator: str, model: str = "") -> PrintedNumber:
        """The number with its interval, if it has one; an empty text where there is none."""
        number = self._number(measure, calibrator, model)
        if number is None:
            return PrintedNumber("")
        ends = (number.value, *(number.interval or ()))
        value, *interval = (printed(end, measure.metric) for end in ends)
        mark = MARK if number.verdict is not None and number.verdict.marked else ""
        return PrintedNumber(value, interval=tuple(interval), best=bool(number.best), mark=mark)

    def floor_note(self, columns: Iterable[Measure], of: Iterable[tuple[str, str]]) -> list[str]:
        """The line under a table that says what its marks mean, if it has any: one limit, or floor, a sentence."""
        numbers = (self._number(column, *place) for column in columns for place in of)
        found = [(metric_info(n.key.metric), n.verdict) for n in numbers if n]
        marked = [(info, v) for info, v in found if v and v.marked]
        limits = [(i.title, v.limit, i.percent) for i, v in marked if v.limit is not None]
        floors = [(i.title, v.floor, i.percent) for i, v in marked if v.limit is None]
        if not limits:
            return list(note(floors))
        named = {"Limit": _ranges(limits), "Floor": _ranges(floors)}
        each = [f"{n} of {t} {value}" for n, of in named.items() for t, value in of.items()]
        return [". ".join([_MEANING, *each])]

    def _number(self, measure: Measure, calibrator: str, model: str) -> Number | None:
        split, metric, score, label = measure[1:]
        return self._numbers.get(Key(metric, split, calibrator, score, None, label, model))


def printed(number: float, metric: str) -> str:
    """Percent with two decimals, anything else with four."""
    percent = metric_info(metric).percent and math.isfinite(number)
    return f"{100 * number:.2f}" if percent else f"{number:.4f}"


def note(marked: Iterable[tuple[str, float, bool]]) -> Iterator[str]:
    """The line under a table with marked values; none where no value is marked.

    `marked` are the title of each marked value's metric, its floor, and whether it is printed in percent.
    """
    floors = _ranges(marked)
    if len(floors) == 1:
        yield f"{_MEANING}; floor {floors.popitem()[1]}"
    elif floors:
        yield f"{_MEANING}; floors: {', '.join(f'{title} {of}' for title, of in floors.items())}"


def _ranges(values: Iterable[tuple[str, float, bool]]) -> dict[str, str]:
    """What is known of each title: `1.1 to 2 %`, of (title, value, whether it is printed in percent)."""
    found: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for title, value, percent in values:
        found.setdefault(title, []).append(value * (100 if percent else 1))
        units[title] = " %" * percent
    return {title: f"{_range(each)}{units[title]}" for title, each in found.items()}


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


def sentences(numbers: Iterable[Number], sizes: Mapping[str, int]) -> list[str]:
    """One sentence for each row of the tables, by its ECE with the first number of bins; sets one after the other."""
    first: dict[tuple[str, str, str], Number] = {}
    for number in numbers:
        if number.key.metric == _BY and number.key.split != VAL:
            place = number.key.split, number.key.model, number.key.calibrator
            first.setdefault(place, number)
    splits = list(dict.fromkeys(split for split, *_ in first))
    places = sorted(first, key=lambda place: splits.index(place[0]))
    return [
        f"{name}: {first[place].in_words(sizes[place[0]])}"
        for name, place in zip(_names(places), places, strict=True)
    ]


def _names(places: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """What names each place: the parts in which they differ, at least the calibrator."""
    differ = [len(set(parts)) > 1 for parts in zip(*places, strict=True)]
    for place in places:
        *others, calibrator = (
            part for part, shown in zip(place, [*differ[:2], True], strict=True) if shown
        )
        yield ", ".join([*others, calibrator])

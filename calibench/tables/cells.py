"""The scores of an evaluation as entries of a table and as sentences, and the mark of errors below their limit."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from calibench.statistics.calibration_verdict import CalibrationVerdict
from calibench.statistics.number import VAL, Key, Number
from calibench.tables.grid import PrintedNumber
from calibench.tables.metric_titles import metric_info

MARK = "°"
_MEANING = f"{MARK} consistent with perfect calibration at this number of examples"
_BY = "ece"  # the metric that sentences speak of


def measures(split: str, metrics: Sequence[str]) -> list[Key]:
    """Metrics of a set, raw and of a single model, as the columns of a table are known."""
    return [Key(name, split) for name in metrics]


def detection(numbers: Iterable[Number]) -> list[Key]:
    """Out-of-distribution AUROC by entropy, for every set that has it."""
    keys = (number.key for number in numbers)
    sets = dict.fromkeys(key.split for key in keys if key.metric == "ood_auroc")
    return [Key("ood_auroc", name, score="entropy") for name in sets]


def label(column: Key) -> str:
    """The title of a metric of a set, as the heading of a column."""
    of_ood = column.metric == "ood_auroc"
    return f"OOD AUROC % {column.split}" if of_ood else metric_info(column.metric).label


class Scores:
    """Numbers of an evaluation by key; of several numbers of bins the first."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._numbers: dict[Key, Number] = {}
        for number in numbers:
            self._numbers.setdefault(number.key._replace(n_bins=None), number)

    def entry(self, key: Key) -> PrintedNumber:
        """The number with its interval, if it has one; an empty text where there is none."""
        number = self._numbers.get(key)
        if number is None:
            return PrintedNumber("")
        ends = (number.value, *(number.interval or ()))
        value, *interval = (printed(end, key.metric) for end in ends)
        mark = MARK if number.is_marked else ""
        return PrintedNumber(value, interval=tuple(interval), best=bool(number.best), mark=mark)

    def floor_note(self, keys: Iterable[Key]) -> list[str]:
        """The line under a table that says what its marks mean, if it has any: with their limits."""
        numbers = (self._numbers[key] for key in keys if key in self._numbers)
        verdicts = [(metric_info(n.key.metric), n.verdict) for n in numbers if n.is_marked]
        marked = [(info.title, v, info.percent) for info, v in verdicts if v]
        limits = [(title, v.limit, percent) for title, v, percent in marked if v.limit is not None]
        if not marked:
            return []
        each = [f"{title} {value}" for title, value in _ranges(limits).items()]
        return [f"{_MEANING}; limits: {', '.join(each)}" if each else _MEANING]


def printed(number: float, metric: str) -> str:
    """Percent with two decimals, anything else with four."""
    percent = metric_info(metric).percent and math.isfinite(number)
    return f"{100 * number:.2f}" if percent else f"{number:.4f}"


def note(marked: Iterable[tuple[str, float, bool]]) -> Iterator[str]:
    """The line under a table with marked values; none where no value is marked.

    `marked` are the title of each marked value's metric, its floor, and whether it is printed in percent. The floor,
    a mean, is not printed: it is no limit.
    """
    if any(True for _ in marked):
        yield _MEANING


def _ranges(values: Iterable[tuple[str, float, bool]]) -> dict[str, str]:
    """Range of the values of each title: `1.1 to 2 %`, of (title, value, whether it is printed in percent)."""
    values_by_title: dict[tuple[str, bool], list[float]] = {}
    for title, value, percent in values:
        values_by_title.setdefault((title, percent), []).append(value * (100 if percent else 1))
    texts = {}
    for (title, percent), each in values_by_title.items():
        low, high = f"{min(each):.2g}", f"{max(each):.2g}"
        texts[title] = (low if low == high else f"{low} to {high}") + " %" * percent
    return texts


Place = tuple[str, str, str]
"""Set, model and calibrator of a row."""


def sentences(
    numbers: Iterable[Number],
    sizes: Mapping[str, int],
    verdicts: Mapping[Place, CalibrationVerdict] | None = None,
) -> list[str]:
    """One sentence for each row of the tables, its verdict or else that of its ECE; sets one after the other."""
    first: dict[Place, Number] = {}
    for number in numbers:
        if number.key.metric == _BY and number.key.split != VAL:
            place = number.key.split, number.key.model, number.key.calibrator
            first.setdefault(place, number)
    splits = list(dict.fromkeys(split for split, *_ in first))
    models = {model for _, model, _ in first}
    named = (len(splits) > 1, len(models) > 1, True)  # where sets or models differ
    words = {place: number.in_words(sizes[place[0]]) for place, number in first.items()}
    words |= {place: verdict.in_words() for place, verdict in (verdicts or {}).items()}
    return [
        f"{', '.join(compress(place, named))}: {words[place]}"
        for place in sorted(first, key=lambda place: splits.index(place[0]))
    ]

"""The mark of a calibration error that is not above its floor, and the line under a table that says what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MARK = "°"
_MEANING = f"{MARK} cannot be told from perfect calibration at this number of examples"


def note(marked: Iterable[tuple[str, float, bool]]) -> Iterator[str]:
    """The line under a table with marked values; none where no value is marked.

    Args:
        marked: The title of each marked value's metric, its floor, and whether it is printed in percent.
    """
    floors: dict[str, list[float]] = {}
    for title, floor, percent in marked:
        floors.setdefault(f"{title}|{' %' if percent else ''}", []).append(
            floor * (100 if percent else 1)
        )
    if len(floors) == 1:
        (key, values), *_ = floors.items()
        yield f"{_MEANING}; floor {_range(values)}{key.partition('|')[2]}"
    elif floors:
        each = (_named(*key.split("|"), values) for key, values in floors.items())
        yield f"{_MEANING}; floors: {', '.join(each)}"


def _named(title: str, unit: str, values: list[float]) -> str:
    return f"{title} {_range(values)}{unit}"


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"

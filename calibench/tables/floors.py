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
    floors: dict[tuple[str, str], list[float]] = {}
    for title, floor, percent in marked:
        key = title, " %" if percent else ""
        floors.setdefault(key, []).append(floor * (100 if percent else 1))
    each = [f"{title} {_range(values)}{unit}" for (title, unit), values in floors.items()]
    if len(floors) == 1:
        ((title, _),) = floors
        yield f"{_MEANING}; floor {each[0].removeprefix(f'{title} ')}"
    elif floors:
        yield f"{_MEANING}; floors: {', '.join(each)}"


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"

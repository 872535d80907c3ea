"""All that is wrong with a file, in one line: the first five places, and how many there are."""

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter

_SHOWN = 5


def in_one_line(problems: Mapping[str, str], total: int, what: str) -> str:
    """`row 3: the label is empty; row 9: 2 cells, 3 were expected (2 of 40 rows)`.

    Args:
        problems: What is wrong, by place, in their order.
        total: How many places there are.
        what: What they are called, `rows`.
    """
    first = list(problems.items())[:_SHOWN]
    groups = groupby(first, key=itemgetter(1))
    parts = [f"{', '.join(place for place, _ in places)}: {wrong}" for wrong, places in groups]
    more = ["..."] if len(problems) > _SHOWN else []
    return f"{'; '.join(parts + more)} ({len(problems)} of {total} {what})"


def of_rows(problems: Mapping[int, str]) -> dict[str, str]:
    """What is wrong with rows, by what these are called, in their order."""
    return {f"row {row}": problems[row] for row in sorted(problems)}

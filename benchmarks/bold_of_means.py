"""Bold of committed tables of which only means and deviations are known: the unpaired comparison with the best.

    python benchmarks/bold_of_means.py README.md benchmarks/results/*.md

Rewrites the bold of every Markdown table whose line on bold says `unpaired`, from its printed means and
deviations, and the line on what its seeds cannot show. Tables that `calibench leaderboard` made from runs compare
seed by seed and are left alone. A table and the one below it without an `NLL` of its own share the lines.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from calibench.ranking.bold import NOISY, PROMISE, WELCH, detectable_amount, separate_variance_lines
from calibench.statistics import BestComparison, comparison_of_means
from calibench.tables.grid import SCATTER
from calibench.tables.metric_titles import METRICS

UNPAIRED = f"- bold: {PROMISE.removesuffix(')')}; unpaired: from means and deviations)"

_LINES = re.compile(
    rf"- smallest differences that \d+ seeds detect.*\n|- \d+ of \d+ {WELCH}\n|- {NOISY}\n"
)
_COSTS = ("s/run", "s/epoch", "peak MB")
_DIRECTIONS = {info.title: info.direction for info in METRICS.values()}
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_CELL = re.compile(rf"\*{{0,2}}([\d.]+) ± ([\d.]+)\*{{0,2}}{SCATTER}?")


Seen = dict[str, BestComparison]


def rewritten(text: str) -> str:
    """A Markdown text with the bold of its unpaired tables made again."""
    parts = re.split(r"(?<=\n)(?=<!-- |#+ )", text)  # a part: what shares one line on bold
    return "".join(_part(part) if UNPAIRED in part else part for part in parts)


def _part(part: str) -> str:
    seen: Seen = {}
    part = _TABLE.sub(lambda table: _table(table[0], seen), _LINES.sub("", part))
    shown = [title for title in ("NLL", "Error %") if title in seen]
    amounts = " and ".join(_amount(title, seen[title].detectable) for title in shown)
    seeds = min(found.seeds for found in seen.values())
    lines = [UNPAIRED, f"- smallest differences that {seeds} seeds detect: {amounts}"]
    lines += [f"- {line}" for line in separate_variance_lines([*seen.values()])]
    return part.replace(UNPAIRED, "\n".join(lines))


def _amount(title: str, value: float) -> str:
    name, _, unit = title.partition(" ")
    return detectable_amount(name, value / 100 if unit else value, percent=bool(unit))


def _table(text: str, seen: Seen) -> str:
    """One table; the comparisons of its columns are added to `seen`."""
    head, rule, *rows = (
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()
    )
    if "seeds" not in head:
        return text
    seeds = [int(row[head.index("seeds")]) for row in rows]
    for place, title in enumerate(head):
        found = _compared(title, [row[place] for row in rows], seeds)
        if found is not None:
            seen.setdefault(title, found)
        for number, row in enumerate(rows):
            plain = row[place].removesuffix(SCATTER).strip("*")
            noisy = found is not None and number in found.noisy
            bold = found is not None and found.bold[number] and not noisy
            row[place] = f"{plain}{SCATTER}" if noisy else f"**{plain}**" if bold else plain
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def _compared(title: str, cells: Sequence[str], seeds: Sequence[int]) -> BestComparison | None:
    """The comparison of a column; None where it is no quality, a cost, or has no deviations."""
    name = title.partition(" %")[0].partition(" +")[0]
    numbers = [_CELL.fullmatch(cell) for cell in cells]
    direction = _DIRECTIONS.get(name, 0)
    if name in _COSTS or not direction or not all(numbers):
        return None
    means, deviations = ([float(number[group]) for number in numbers if number] for group in (1, 2))
    return comparison_of_means(means, deviations, seeds, higher_is_better=direction > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    for file in parser.parse_args(arguments).files:
        file.write_text(rewritten(file.read_text()))


if __name__ == "__main__":
    main()

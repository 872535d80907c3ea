"""Losses against a baseline with data sets as the sample: what a reader may expect on the next data set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from calibench.ground.errors import near_matches
from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Table
from calibench.statistics.data_sets import SetComparison, compared_over_sets, power
from calibench.tables.grid import Grid, PrintedNumber, TableEntry, headings

EFFECTS = (0.02, 0.05, 0.10)  # whose power is printed
NO_PRIMARY = (
    "no comparison was fixed in advance (`primary` of a suite): all of these are exploratory"
)


@dataclass(frozen=True)
class Primary:
    """The comparison that a suite fixes before its runs are there: `primary` of its file.

    Attributes:
        metric: The column that is compared.
        baseline: The loss that the others are compared with.
        losses: The losses that are tested alone; all other comparisons are exploratory.
        benchmarks: The benchmarks that count; all if empty.
    """

    metric: str
    baseline: str
    losses: Sequence[str]
    benchmarks: Sequence[str] = ()


@dataclass(frozen=True)
class OverSets:
    """Losses against a baseline, over the data sets that each shares with it.

    Attributes:
        column: What is compared.
        baseline: The other loss.
        primary: The comparisons that were fixed in advance, by loss.
        exploratory: All others, lowest first.
    """

    column: Column
    baseline: str
    primary: Mapping[str, SetComparison] = field(default_factory=dict)
    exploratory: Mapping[str, SetComparison] = field(default_factory=dict)

    def grid(self) -> Grid:
        """The comparisons as a table."""
        kinds = {"primary": self.primary, "exploratory": self.exploratory}
        rows: list[list[TableEntry]] = [
            [loss, kind, *map(PrintedNumber, cells(of)), of.verdict]
            for kind, found in kinds.items()
            for loss, of in found.items()
        ]
        titles = ("comparison", "data sets", "lower on", "difference %", "95 % t interval", "p")
        title = f"{self.column.title} against {self.baseline}, data sets as the sample"
        return Grid(title, headings("loss", *titles, "verdict"), rows, list(self._lines()))

    def _lines(self) -> Iterator[str]:
        yield "difference: of the metric's means over seeds, relative, geometric mean over data sets; each counts once"
        families = [found for found in (self.primary, self.exploratory) if found]
        needed = max(of.needed for found in families for of in found.values())
        yield (
            "p: exact sign-flip test over data sets, Holm over the comparisons of a kind; "
            f"{needed} data sets are needed for one below 5 %"
        )
        yield "no difference beyond 5 %: two one-sided t-tests, Holm; else it cannot be told"
        yield from () if self.primary else (NO_PRIMARY,)
        first = next(iter(families[0].values()))
        if not math.isnan(first.deviation):
            yield power_line(first.effect.sets, first.deviation)


def cells(of: SetComparison) -> tuple[str, str, str, str, str]:
    """Data sets, on how many it is lower, difference, interval and p-value of a comparison, as text."""
    effect = of.effect
    ends = "" if math.isnan(effect.low) else f"{100 * effect.low:.1f} to {100 * effect.high:.1f}"
    return str(effect.sets), str(of.lower), f"{100 * effect.value:.1f}", ends, f"{of.p:.2g}"


def power_line(sets: int, deviation: float) -> str:
    """How often a primary comparison finds a difference of 2, 5 and 10 %."""
    found = [power(sets, deviation, -effect) for effect in EFFECTS]
    effects, shares = (", ".join(f"{100 * one:.0f}" for one in of) for of in (EFFECTS, found))
    return (
        f"with {sets} data sets and a deviation of {deviation:.2g} over them, one comparison fixed in advance finds a "
        f"difference of {effects} % in {shares} % of the cases"
    )


def compare_over_sets(
    tables: Sequence[Table], column: Column, *, baseline: str, primary: Sequence[str] = ()
) -> OverSets:
    """Compare every loss with a baseline, with data sets as the sample.

    A data set's tables (networks) are averaged, so that each data set counts once.

    Args:
        tables: The tables.
        column: A metric of which less is better.
        baseline: A loss.
        primary: The losses whose comparison was fixed in advance.

    Raises:
        ValueError: If more of the metric is better, or the baseline or a primary loss shares no data set with others.
    """
    if column.info.direction >= 0:
        raise ValueError(
            f"a relative difference needs a metric of which less is better, got {column}."
        )
    logs: dict[str, dict[str, list[float]]] = {}
    for table in tables:
        means = {row.label: row.values[column].mean for row in table.rows if column in row.values}
        base = means.pop(baseline, math.nan)
        for label, mean in means.items():
            if not (math.isnan(mean) or math.isnan(base)):
                logs.setdefault(label, {}).setdefault(table.data, []).append(_log_ratio(mean, base))
    for name in (baseline, *primary) if not logs else primary:
        if name not in logs:
            known = dict.fromkeys(row.label for table in tables for row in table.rows)
            raise ValueError(
                f"no data set has {column} of {name} and of another loss{near_matches(name, known)}."
            )
    of_sets = {
        label: [math.fsum(of) / len(of) for of in sets.values()] for label, sets in logs.items()
    }
    others = sorted(
        of_sets.keys() - set(primary),
        key=lambda label: (sum(of_sets[label]) / len(of_sets[label]), label),
    )
    first, rest = (
        dict(zip(names, compared_over_sets([of_sets[name] for name in names]), strict=True))
        for names in (primary, others)
    )
    return OverSets(column, baseline, first, rest)


def _log_ratio(ours: float, theirs: float) -> float:
    """Of two scores; 0 of equal ones, also of two zeros or two infinite ones."""
    if ours == theirs:
        return 0.0
    return (
        math.log(ours / theirs)
        if ours > 0 < theirs and math.isfinite(theirs)
        else math.copysign(math.inf, ours - theirs)
    )

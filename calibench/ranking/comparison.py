"""Comparison of losses over several tables: by mean ranks (Friedman, Nemenyi, Wilcoxon), and against a baseline.

Against a baseline data sets are the sample: what a reader may expect on the next data set.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from statistics import fmean

import numpy as np

from calibench.messages.errors import near_matches
from calibench.messages.printable_text import count_of
from calibench.messages.spelling import spell_argument
from calibench.ranking.columns import Column
from calibench.ranking.table import Row, Table
from calibench.statistics import LEVEL, holm, rankable, wilcoxon_signed_rank
from calibench.statistics.data_sets import (
    RankComparison,
    SetComparison,
    compare_log_ratios,
    compare_ranks,
    find_cliques,
    sign_test_power,
)
from calibench.statistics.pairs import Beats, Runs, estimate_beats
from calibench.tables.grid import Grid, PrintedNumber, TableEntry, headings

EFFECTS = (0.02, 0.05, 0.10)  # whose power is printed
NO_PRIMARY = (
    "no comparison was fixed in advance (`primary` of a suite): all of these are exploratory"
)


@dataclass(frozen=True)
class Comparison:
    """The mean ranks of losses over several tables, best first, and which of them differ significantly.

    Attributes:
        beaten: How likely a run of the first beats one of each of the others.
        p_values: Of "each of the others is worse than the first": signed-rank test over the tables, Holm over all
            ordered pairs of losses, as it was these tables that made one the first.
    """

    column: Column
    tables: list[str]
    methods: list[str]
    ranks: RankComparison
    beaten: list[Beats]
    p_values: list[float]
    left_out: list[str]

    def lines(self) -> list[str]:
        """The comparison as text."""
        width = max(map(len, self.methods))
        heads = (
            f"{'loss':<{width}}  win rate  mean rank  95 % t, tables  "
            "P(first is better), 95 %  p (signed-rank, Holm over all pairs)"
        )
        ranked = zip(self.methods, self.ranks.mean_ranks, self.ranks.intervals, strict=True)
        shares = (
            f"{beats.probability:.2f}, {beats.low:.2f} to {beats.high:.2f}" for beats in self.beaten
        )
        comparisons = zip(shares, self.p_values, strict=True)
        against = ["", *(f"  {share:>24}  {p:36.2g}" for share, p in comparisons)]
        body = []
        for (method, rank, (low, high)), worse in zip(ranked, against, strict=True):
            interval = "" if math.isnan(low) else f"{low:.2f} to {high:.2f}"
            win_rate = (len(self.methods) - rank) / (len(self.methods) - 1)
            body.append(f"{method:<{width}}  {win_rate:8.0%}  {rank:9.2f}  {interval:>14}{worse}")
        difference = self.ranks.critical_difference
        groups = find_cliques(self.ranks.mean_ranks, difference)
        named = ["{" + ", ".join(self.methods[i] for i in group) + "}" for group in groups]
        return [
            f"{self.column.title} over {len(self.tables)} tables: {', '.join(self.tables)}",
            heads,
            *body,
            self.alike,
            f"critical difference of mean ranks (Nemenyi, {LEVEL:.0%}): {difference:.2f}; "
            f"no significant difference: {', '.join(named) or 'none'}",
            "win rate: fraction of the other losses that a loss beats, mean over tables",
            "P and its interval are of runs on these tables, not of the next data set",
            *self.left_out,
        ]

    @property
    def alike(self) -> str:
        """The result of Friedman's test of all losses at once, in words."""
        p = self.ranks.friedman_p
        return f"all alike (Friedman): {'not tested' if math.isnan(p) else f'p = {p:.2g}'}"


def compare(tables: Sequence[Table], column: Column, *, allow_missing: bool = False) -> Comparison:
    """Compare the losses that tables have in common.

    Losses that some table lacks altogether are left out, if two others remain, and named. With `allow_missing` all
    losses are compared, also where runs are missing: means are over the seeds that finished, a table without some loss
    is left out if two others remain, and the result names both. Raises a ValueError if runs are missing and this is not
    allowed, or fewer than two tables remain.
    """
    methods = list(dict.fromkeys(row.label for table in tables for row in table.rows))
    rows = {t.title: {row.label: row for row in t.rows} for t in tables}
    not_everywhere = [m for m in methods if any(m not in of_table for of_table in rows.values())]
    dense = [title for title in rows if _has_all_means(rows[title], methods, column)]
    leaves_out = not allow_missing or len(dense) < 2
    if not_everywhere and leaves_out and len(methods) - len(not_everywhere) > 1:
        methods = [method for method in methods if method not in not_everywhere]
        rows = {
            title: {label: of_table[label] for label in methods} for title, of_table in rows.items()
        }
    else:
        not_everywhere = []
    holes = [hole for table in tables for hole in _holes(table, rows[table.title], methods, column)]
    if holes and not allow_missing:
        raise ValueError(
            f"a comparison needs every run; missing: {'; '.join(holes)} "
            f"({spell_argument('allow_missing')} compares what there is)."
        )
    dense = [title for title in rows if _has_all_means(rows[title], methods, column)]
    if len(dense) < 2 or len(methods) < 2:
        counts = f"{count_of(len(dense), 'table')} and {count_of(len(methods), 'loss', 'losses')}"
        raise ValueError(
            f"a comparison over data sets needs two tables with the same losses, got {counts}: add runs of another "
            f"benchmark, or compare the losses of one with {spell_argument('pairs')} in place of "
            f"{spell_argument('compare')} and {spell_argument('baseline')}."
        )
    sign = -column.info.direction or 1
    means = [[sign * rows[title][m].values[column].mean for m in methods] for title in dense]
    ranks = compare_ranks(means)
    order = sorted(range(len(methods)), key=ranks.mean_ranks.__getitem__)
    seeds = [[rows[title][methods[i]].values[column].seeds for title in dense] for i in order]
    runs = [[_signed_runs(sign, values) for values in of_method] for of_method in seeds]
    return Comparison(
        column,
        dense,
        [methods[i] for i in order],
        replace(
            ranks,
            mean_ranks=[ranks.mean_ranks[i] for i in order],
            intervals=[ranks.intervals[i] for i in order],
        ),
        [estimate_beats(runs[0], rival_runs) for rival_runs in runs[1:]],
        _test_against_first(means, order),
        [
            *(f"missing: {hole}" for hole in holes),
            *([f"not in every table: {', '.join(not_everywhere)}"] if not_everywhere else []),
        ],
    )


def _test_against_first(means: Sequence[Sequence[float]], order: Sequence[int]) -> list[float]:
    """p-values of "worse than the first" for each other method in an order, given means (tables, methods).

    The first is chosen by the same tables: tested as if it were named beforehand, some p-value of equal methods is
    below 5 % in 12 to 22 % of comparisons (3 to 10 methods). So all ordered pairs are corrected for.
    """
    pairs = list(permutations(order, 2))
    p_values = holm(
        [
            wilcoxon_signed_rank([rankable(of_table[j] - of_table[i]) for of_table in means])
            for i, j in pairs
        ]
    )
    return p_values[: len(order) - 1]  # the first pairs are those of the first method


def _has_all_means(rows: Mapping[str, Row], methods: Sequence[str], column: Column) -> bool:
    """Whether the rows of a table, by label, have a mean of a column for each of several methods."""
    values = [rows[method].values[column].mean for method in methods if method in rows]
    return len(values) == len(methods) and not any(map(math.isnan, values))


def _signed_runs(sign: int, values: Mapping[int, float]) -> Runs:
    """The values of the seeds of a row, with the sign by which less is better."""
    return Runs(sign * np.array(list(values.values())))


def _holes(table: Table, rows: dict[str, Row], methods: Sequence[str], column: Column) -> list[str]:
    absent = [f"{label} (no run)" for label in methods if label not in rows]
    lacking = [
        f"{row.label}, seed {seed}"
        for row in rows.values()
        for seed in sorted({*row.missing, *row.records} - row.values[column].seeds.keys())
    ]
    return [f"{table.title}: {hole}" for hole in [*absent, *lacking]]


@dataclass(frozen=True)
class Primary:
    """The comparison that a suite fixes before its runs are there: `primary` of its file.

    Attributes:
        losses: The losses that are tested alone; all other comparisons are exploratory.
        benchmarks: The benchmarks that count; all if empty.
    """

    metric: str
    baseline: str
    losses: Sequence[str]
    benchmarks: Sequence[str] = ()


@dataclass(frozen=True)
class OverSets:
    """Losses against a baseline, over the data sets that each shares with it: fixed in advance or not, lowest first."""

    column: Column
    baseline: str
    primary: Mapping[str, SetComparison] = field(default_factory=dict)
    exploratory: Mapping[str, SetComparison] = field(default_factory=dict)

    def grid(self) -> Grid:
        """The comparisons as a table."""
        kinds = {"primary": self.primary, "exploratory": self.exploratory}
        rows = [
            _row(loss, kind, comparison)
            for kind, comparisons in kinds.items()
            for loss, comparison in comparisons.items()
        ]
        titles = (
            "comparison",
            "data sets",
            "sets with lower value",
            "difference %",
            "95 % t interval",
            "median %",
            "95 % interval",
            "p (sign test)",
        )
        title = f"{self.column.title} against {self.baseline}, data sets as the sample"
        return Grid(title, headings("loss", *titles, "verdict"), rows, list(self._lines()))

    def _lines(self) -> Iterator[str]:
        families = [comparisons for comparisons in (self.primary, self.exploratory) if comparisons]
        needed = max(
            comparison.needed for comparisons in families for comparison in comparisons.values()
        )
        yield "difference: relative, of the means over seeds; geometric mean over data sets, each counted once"
        yield "mean and t interval describe these data sets; for other data sets they assume symmetric differences"
        yield (
            "p: exact sign test of the median, for any distribution, Holm-corrected over the comparisons of a kind; "
            f"p below 5 % needs at least {needed} data sets"
        )
        yield "no difference beyond 5 %: judged by the exact interval of the median, from 15 data sets on"
        yield from () if self.primary else (NO_PRIMARY,)
        first = next(iter(families[0].values()))
        if not math.isnan(first.deviation):
            yield _power(first.effect.sets, first.deviation)


def _row(loss: str, kind: str, comparison: SetComparison) -> list[TableEntry]:
    value, low, high = (
        100 * end
        for end in (comparison.effect.value, comparison.effect.low, comparison.effect.high)
    )
    ends = "" if math.isnan(low) else f"{low:.1f} to {high:.1f}"
    median, lower, upper = (100 * end for end in comparison.median)
    exact = "" if math.isnan(lower) else f"{lower:.1f} to {upper:.1f}"
    cells = (
        f"{comparison.effect.sets}", f"{comparison.lower}", f"{value:.1f}", ends, f"{median:.1f}", exact,
        f"{comparison.sign_p:.2g}",
    )  # fmt: skip
    return [loss, kind, *map(PrintedNumber, cells), comparison.verdict]


def _power(sets: int, deviation: float) -> str:
    power_values = [sign_test_power(sets, deviation, -effect) for effect in EFFECTS]
    effects, shares = (
        ", ".join(f"{100 * fraction:.0f}" for fraction in fractions)
        for fractions in (EFFECTS, power_values)
    )
    return (
        f"power: with {sets} data sets and a standard deviation of {deviation:.2g}, a single comparison fixed in "
        f"advance detects differences of {effects} % in {shares} % of cases"
    )


def compare_over_sets(
    tables: Sequence[Table], column: Column, *, baseline: str, primary: Sequence[str] = ()
) -> OverSets:
    """Compare every loss with a baseline, with data sets as the sample.

    A data set's tables (networks) are averaged, so that each data set counts once. Raises a ValueError if more of the
    metric is better, or the baseline or a primary loss shares no data set with others.
    """
    if column.info.direction >= 0:
        raise ValueError(
            f"a relative difference needs a metric of which less is better, got {column}."
        )
    logs: dict[str, dict[str, list[float]]] = {}
    for table in tables:
        means = {row.label: row.values[column].mean for row in table.rows if column in row.values}
        base = means.pop(_label_of(table, baseline), math.nan)
        for label, mean in means.items():
            if not (math.isnan(mean) or math.isnan(base)):
                logs.setdefault(label, {}).setdefault(table.data, []).append(_log_ratio(mean, base))
    labels = {name: [_label_of(table, name) for table in tables] for name in primary}
    primary = [next(filter(logs.__contains__, labels[name]), name) for name in primary]
    for name in (baseline, *primary) if not logs else primary:
        if name not in logs:
            all_labels = dict.fromkeys(row.label for table in tables for row in table.rows)
            raise ValueError(
                f"no data set has {column} of {name} and of another loss{near_matches(name, all_labels)}."
            )
    of_sets = {label: list(map(fmean, sets.values())) for label, sets in logs.items()}
    ranked = {label: (fmean(values), label) for label, values in of_sets.items()}
    others = sorted(of_sets.keys() - set(primary), key=ranked.__getitem__)
    first, other_metrics = (
        dict(zip(names, compare_log_ratios([of_sets[name] for name in names]), strict=True))
        for names in (primary, others)
    )
    return OverSets(column, baseline, first, other_metrics)


def _label_of(table: Table, name: str) -> str:
    """The label of the row that a text names; the text itself where no row is named by it."""
    labels = [row.label for row in table.rows if row.is_named(name)]
    return name if name in labels or not labels else labels[0]


def _log_ratio(value: float, baseline: float) -> float:
    """Logarithm of the ratio of two scores; 0 of equal ones, also of two zeros or two infinite ones."""
    if value == baseline:
        return 0.0
    finite = value > 0 < baseline and math.isfinite(baseline)
    return math.log(value / baseline) if finite else math.copysign(math.inf, value - baseline)

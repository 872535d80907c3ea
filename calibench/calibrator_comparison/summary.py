"""Summary of the post-hoc benchmark: post-hoc improvement (PHI), win rates, ranks, learning curves; their pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds.aggregates import draw_critical_difference
from calibench.plots.style import (
    GREY,
    PALETTE,
    Axes,
    legend_below,
    logarithmic_at,
    look,
    panel,
    panels,
    tidied,
)
from calibench.statistics.data_sets import (
    FEWEST_SETS,
    RankComparison,
    SetMean,
    compare_ranks,
    mean_over_sets,
)
from calibench.statistics.number import RAW, TS
from calibench.tables.grid import Grid, Heading, PrintedNumber, headings
from calibench.tables.metric_titles import metric_info
from calibench.tensors.arrays import Floats

PROPER_SCORES = ("nll", "brier")  # proper scores, of which an improvement is one

_MODEL_COLUMNS = ["dataset", "model"]


def _print_mean(mean: SetMean, decimals: int, factor: float = 1.0) -> PrintedNumber:
    """A mean over sets with its interval, as a table prints it."""
    value, low, high = (f"{factor * end:.{decimals}f}" for end in (mean.value, mean.low, mean.high))
    return PrintedNumber(value, interval=(f"{low} to {high}",) if isfinite(mean.low) else ())


def _print_robustness(mean: SetMean) -> tuple[PrintedNumber, PrintedNumber]:
    """The median over data sets, and the range of the mean without one of them."""
    ends = f"{mean.least:.4f} to {mean.most:.4f}" if isfinite(mean.least) else ""
    return PrintedNumber(f"{mean.median:.4f}"), PrintedNumber(ends)


@dataclass(frozen=True)
class BenchmarkSummary:
    """Numbers that the table and the pictures show of some results.

    Attributes:
        names: The calibrators and `raw`, best mean rank first.
        sets: Number of data sets, and of models on them, that all calibrators have.
        left_out: Number of models that some calibrator lacks.
        ranks: Ranks of the first score, in the order of `names`: of its mean over each data set's models.
        win_rate: Share of the other methods that a method beats by the first score, a tie as a half.
        improvement: PHI by score, reference (`raw` or TemperatureScaling) and name.
        means: Mean of each metric over data sets by name.
        seconds: Median CPU seconds of a fit by name.
        infinite: Number of models on which the NLL is infinite, by name.
        size: Number of examples that calibrators were fitted on; 0 for all.
    """

    names: list[str]
    sets: tuple[int, int]
    left_out: int
    ranks: RankComparison | None
    win_rate: Mapping[str, SetMean]
    improvement: Mapping[tuple[str, str, str], SetMean]
    means: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    infinite: Mapping[str, int]
    size: int

    @property
    def first(self) -> str:
        """The score by which methods are ranked."""
        return next(iter(self.means))

    def grid(self) -> Grid:
        """The table."""
        scores = [score for score in PROPER_SCORES if score in self.means]
        others = [name for name in self.means if name not in PROPER_SCORES]
        titles = {name: metric_info(name).label for name in self.means}
        columns = [Heading("#", label=True), Heading("calibrator", label=True, left=True)]
        columns += [Heading("mean rank"), Heading("wins %")]
        phi = [
            f"PHI {titles[score]}\nover {reference}"
            for score in scores
            for reference in ("raw", "TS")
        ]
        first = f"PHI {titles[scores[0]]} over TS" if scores else ""
        robustness = [f"{first}\nmedian", f"{first}\nwithout one set"] if scores else []
        columns += map(Heading, (*phi, *robustness, *(titles[name] for name in others), "fit s"))
        rows = [self._row(place, name, scores, others) for place, name in enumerate(self.names, 1)]
        title = f"post-hoc calibrators{f', fitted on {self.size} examples' if self.size else ''}"
        return Grid(title, columns, rows, self._footer())

    def _row(
        self, place: int, name: str, scores: Sequence[str], others: Sequence[str]
    ) -> list[PrintedNumber | str]:
        rank = f"{self.ranks.mean_ranks[place - 1]:.2f}" if self.ranks else str(place)
        return [
            PrintedNumber(str(place)), name, PrintedNumber(rank), _print_mean(self.win_rate[name], 0, 100),
            *(_print_mean(self.improvement[score, reference, name], 4) for score in scores for reference in (RAW, TS)),
            *(_print_robustness(self.improvement[scores[0], TS, name]) if scores else ()),
            *(PrintedNumber(metric_info(other).show(self.means[other][name])) for other in others),
            PrintedNumber(f"{self.seconds[name]:.2f}"),
        ]  # fmt: skip

    def _footer(self) -> list[str]:
        datasets, models = self.sets
        first = metric_info(self.first).title
        spread = "brackets: 95 % t interval over data sets"
        if datasets < FEWEST_SETS:
            spread = f"no interval (needs {FEWEST_SETS} data sets)"
        lines = [
            f"{models} models on {datasets} data sets; means over data sets, each once; {spread}",
            "PHI (post-hoc improvement): how much lower the score is than the uncalibrated one (raw), or than "
            f"temperature scaling's (TS); wins: other methods with a higher {first}; rank by {first}",
        ]
        if self.ranks:
            lines.append(
                f"Friedman p = {self.ranks.friedman_p:.1g}; mean ranks closer than "
                f"{self.ranks.critical_difference:.2f} do not differ significantly (Nemenyi, 5 %)"
            )
        infinite = [f"{name} ({count})" for name, count in self.infinite.items() if count]
        if infinite:
            lines.append(f"infinite NLL (a probability of 0) in some models: {', '.join(infinite)}")
        if self.left_out:
            lines.append(f"{self.left_out} models are left out: a calibrator failed, or is missing")
        return lines


def build_frame(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> pd.DataFrame:
    """The rows of results as numbers; cells that failed are left out."""
    frame = pd.DataFrame(list(rows))
    numbers = [*metrics, "size", "fit_seconds"]
    frame[numbers] = frame[numbers].apply(pd.to_numeric, errors="coerce")
    return frame.dropna(subset=[*metrics])


def summarise_results(results: pd.DataFrame, metrics: Sequence[str]) -> BenchmarkSummary:
    """The summary of results of one size, as `frame` gives them; seeds and repeats of a model are averaged.

    The first of the metrics ranks.

    Raises:
        ValueError: If no model has results of all calibrators.
    """
    by_set = (
        results.groupby([*_MODEL_COLUMNS, "calibrator"])[[*metrics]].mean().unstack("calibrator")
    )
    complete = by_set.dropna()
    if complete.empty:
        raise ValueError("no model has results of all calibrators.")
    by_dataset = complete.groupby(level="dataset").mean()
    mean_ranks = by_dataset[metrics[0]].rank(axis=1).mean()
    names = sorted(mean_ranks.index, key=lambda name: (mean_ranks[name], name))
    # the others with a higher score, a tie as a half: the methods less the rank, where ties share theirs
    beaten = (len(names) - complete[metrics[0]].rank(axis=1)) / (len(names) - 1)
    datasets = complete.index.get_level_values("dataset")
    ranked = by_dataset[metrics[0]][names].to_numpy()
    return BenchmarkSummary(
        names=names,
        sets=(len(by_dataset), len(complete)),
        left_out=len(by_set) - len(complete),
        ranks=compare_ranks(ranked.tolist()) if len(names) > 1 and len(ranked) > 1 else None,
        win_rate={n: mean_over_sets(beaten[n].to_numpy(), datasets).within(0, 1) for n in names},
        improvement={
            (metric, before, name): mean_over_sets(
                _compute_improvement(complete[metric], before, name), datasets
            )
            for metric in metrics
            if metric in PROPER_SCORES
            for before in (RAW, TS)
            for name in names
        },
        means={metric: by_dataset[metric].mean().to_dict() for metric in metrics},
        seconds=results.groupby("calibrator")["fit_seconds"].median().to_dict(),
        infinite=np.isinf(complete["nll"]).sum().to_dict() if "nll" in metrics else {},
        size=int(results["size"].max()),
    )


def _compute_improvement(score: pd.DataFrame, reference: str, name: str) -> Floats:
    """How much lower the score is than the reference's; 0 where both are infinite."""
    before, after = score[reference].to_numpy(), score[name].to_numpy()
    same = before == after
    return np.where(same, 0.0, before - np.where(same, 0.0, after))


def build_curves(results: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """Learning curves: PHI of a score over raw by calibrator (rows) and number of examples (columns).

    Means over data sets, each once. Only models with results of every calibrator at every size count, so that the
    sizes can be compared; None if there are none, or only one size.
    """
    by_size = (
        results.groupby([*_MODEL_COLUMNS, "size", "calibrator"])[metric]
        .mean()
        .unstack("calibrator")
    )
    improvement = by_size.rsub(by_size[RAW], axis=0)
    complete = improvement.unstack("size").dropna()
    if complete.empty or results["size"].nunique() < 2:
        return None
    return complete.groupby(level="dataset").mean().mean().unstack("size")


def build_curve_grid(table: pd.DataFrame, metric: str) -> Grid:
    """Learning curves as a table; the best of each size is bold."""
    columns = headings("calibrator", *(f"{size:g}" for size in table.columns))
    best = table.max()
    ordered = table.sort_values(table.columns[-1], ascending=False)
    rows: list[list[PrintedNumber | str]] = [
        [str(name), *(PrintedNumber(f"{v:.4f}", best=v == best[n]) for n, v in values.items())]
        for name, values in ordered.iterrows()
    ]
    title = f"PHI of {metric_info(metric).title} over raw by number of validation examples"
    footer = ["means over data sets, each once; bold: the highest of the column"]
    return Grid(title, columns, rows, footer)


ROW_INCHES = 0.19  # height in inches of a calibrator
_WORST = 1.5  # what is worse than the best is good, in multiples, is off the axis


def iterate_pictures(
    summary: BenchmarkSummary, curves: pd.DataFrame | None
) -> Iterator[tuple[str, Picture]]:
    """The pictures by name."""
    yield "phi", draw_improvements(summary)
    if summary.ranks:
        yield "critical_difference", draw_ranks(summary)
    yield "seconds", draw_seconds(summary)
    if curves is not None:
        yield "learning_curves", draw_improvement_curves(curves, summary.first)


def draw_improvements(summary: BenchmarkSummary) -> Picture:
    """PHI over raw and over temperature scaling, a line for each calibrator; what is far below 0 is an arrow."""
    scores = [score for score in PROPER_SCORES if score in summary.means]
    pairs = [(score, reference) for score in scores for reference in (RAW, TS)]
    names = [name for name in summary.names if name != RAW]
    figure, grid = panels(len(pairs), columns=len(pairs), height=ROW_INCHES * len(names) + 0.7)
    for axes, (score, reference) in zip(grid, pairs, strict=True):
        _draw_improvement(axes, summary, names, score, reference)
    grid[0].set_yticks(range(len(names)), names)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 1.2, height)
    numbers = []
    for (score, reference), name in product(pairs, names):
        phi = summary.improvement[score, reference, name]
        value = {"phi": phi.value, "low": phi.low, "high": phi.high}
        numbers.append({"metric": score, "over": reference, "calibrator": name, **value})
    return Picture(figure, numbers)


def _draw_improvement(
    axes: Axes, summary: BenchmarkSummary, names: list[str], score: str, reference: str
) -> None:
    estimates = [summary.improvement[score, reference, name] for name in names]
    top = max(
        (e.high if isfinite(e.high) else e.value for e in estimates if e.value > 0), default=1e-6
    )
    left = -_WORST * top
    for place, estimate in enumerate(estimates):
        if not estimate.value >= left:
            axes.plot(left, place, "<", color=PALETTE[1], markersize=4, clip_on=False)
            continue
        axes.hlines(place, max(estimate.low, left), estimate.high, color=PALETTE[0], linewidth=1)
        axes.plot(estimate.value, place, "o", color=PALETTE[0], markersize=3.5)
    axes.axvline(0, color=GREY, linewidth=0.7)
    axes.set(xlim=(left, 1.05 * top), ylim=(len(names) - 0.5, -0.5), yticks=[])
    axes.locator_params(axis="x", nbins=4)
    title = f"{metric_info(score).title} over {'raw' if reference == RAW else 'TS'}"
    tidied(axes, title=title, xlabel="PHI (right is better)")


def draw_ranks(summary: BenchmarkSummary) -> Picture:
    """The critical-difference diagram."""
    assert summary.ranks is not None
    mean_ranks, critical = summary.ranks.mean_ranks, summary.ranks.critical_difference
    figure, axes = panel(8.5, 0.15 * len(summary.names) + 2.2)
    title = f"mean ranks by {metric_info(summary.first).title}, {summary.sets[0]} data sets"
    draw_critical_difference(axes, summary.names, mean_ranks, critical, title=title)
    numbers = [
        {"calibrator": name, "mean_rank": rank, "critical_difference": critical}
        for name, rank in zip(summary.names, mean_ranks, strict=True)
    ]
    return Picture(figure, numbers)


def draw_seconds(summary: BenchmarkSummary) -> Picture:
    """Median CPU seconds of a fit against the win rate."""
    figure, axes = panel(6.4, 4.2)
    numbers = []
    for name in (name for name in summary.names if name != RAW):
        fit_seconds, rate = summary.seconds[name], summary.win_rate[name].value
        numbers.append({"calibrator": name, "seconds": fit_seconds, "win_rate": rate})
        spent, wins = max(fit_seconds, 1e-3), 100 * rate
        axes.plot(spent, wins, "o", color=PALETTE[0], markersize=3.5)
        short = name.removesuffix("Calibration").removesuffix("Scaling")
        axes.annotate(short, (spent, wins), (3, 2), textcoords="offset points", fontsize=6)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)
    tidied(axes, xlabel="CPU seconds of a fit (median)", ylabel="wins % (up is better)")
    return Picture(figure, numbers)


def draw_improvement_curves(curves: pd.DataFrame, metric: str) -> Picture:
    """PHI over raw by number of validation examples; calibrators that harm at every size are left out."""
    figure, axes = panel(5.4, 3.6)
    helpful = curves[(curves > 0).any(axis=1)].sort_values(curves.columns[-1], ascending=False)
    for place, (name, values) in enumerate(helpful.iterrows()):
        axes.plot(
            curves.columns, values, **look(place), linewidth=1, marker="o", markersize=2.5, label=str(name),
        )  # fmt: skip
    top = float(np.nanmax(helpful.to_numpy())) if len(helpful) else 1.0
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.set(ylim=(-0.5 * top, 1.1 * top))
    logarithmic_at(axes, curves.columns)
    unit = f"PHI of {metric_info(metric).title} over raw"
    tidied(axes, xlabel="validation examples", ylabel=unit)
    legend_below(figure, [axes], columns=3)
    numbers = [
        {"calibrator": str(name), "examples": size, "metric": metric, "phi": value}
        for name, values in curves.iterrows()
        for size, value in values.items()
    ]
    return Picture(figure, numbers)

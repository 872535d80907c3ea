"""The suite's answer as one picture: reliability before and after, and the NLL of every loss raw and calibrated."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from calibench.ground.output import FileRow
from calibench.leaderboard.answer import REFERENCE, UNKNOWN, LossAndCalibrator
from calibench.leaderboard.best_on_validation import answer_of
from calibench.leaderboard.table import Row
from calibench.plots.kinds.calibrators import draw_bars
from calibench.plots.kinds.examples import draw_reliability_of
from calibench.plots.picture import Picture
from calibench.plots.request import Request, after
from calibench.plots.style import legend_below, panels
from calibench.statistics import mean_std
from calibench.statistics.number import RAW, TEST, Key

BEST = "the calibrator that is best on validation"


def overview(request: Request) -> Picture:
    """Reliability before and after the best calibrator, and the NLL of every loss raw and calibrated."""
    answer = answer_of(request.table)
    if answer.best is None:
        raise ValueError(f"{request.table.title}: {UNKNOWN}.")
    figure, grid = panels(4, columns=2)  # two beside each other, and one as wide as both below
    place = grid[2].get_subplotspec()
    assert place is not None
    for unused in grid[2:]:
        unused.remove()
    pair, below = grid[:2], figure.add_subplot(place.get_gridspec()[1, :])
    rows = {row.label: row for row in request.rows}
    row, numbers = rows[answer.best.loss], list[FileRow]()
    calibrated = _temperature(row) if answer.best.calibrator == RAW else answer.best.calibrator
    for axes, calibrator in zip(pair, (RAW, calibrated), strict=True):
        title = f"{row.label}{after(calibrator) or ', raw'}"
        shown = draw_reliability_of(axes, request, row, calibrator, title)
        numbers += [of for of in shown if of["shows"] == "bin"]
    bars = [of for one in answer.of_losses for of in _bars(rows[one.loss], one)]
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    for of in bars:
        groups.setdefault(of.loss, {})[of.shows] = of.mean, of.std
    draw_bars(below, groups, y="NLL on test, mean over seeds", title=request.table.title)
    legend_below(figure, [below, pair[0]])
    return Picture(figure, [*numbers, *(of._asdict() for of in bars)])


def _temperature(row: Row) -> str:
    """The name of temperature scaling among a row's calibrators; `raw` where it has none."""
    keys = (key for record in row.records.values() for key in record.values)
    return next((k.calibrator for k in keys if k.calibrator.partition("(")[0] == REFERENCE[1]), RAW)


class _Bar(NamedTuple):
    """A bar, as a row of the CSV."""

    loss: str
    calibrator: str
    shows: str
    mean: float
    std: float
    seeds: int


def _bars(row: Row, best: LossAndCalibrator) -> Iterator[_Bar]:
    """The NLL of a row raw, after temperature scaling, and after the calibrator that is best on validation."""
    shown = {RAW: RAW, "temperature scaling": _temperature(row), BEST: best.calibrator}
    for shows, calibrator in shown.items():
        key = Key("nll", TEST, calibrator)
        mean, std = mean_std([record.values.get(key, math.nan) for record in row.records.values()])
        if math.isfinite(mean):
            yield _Bar(row.label, calibrator, shows, mean, std, len(row.records))

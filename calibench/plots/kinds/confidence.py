"""Over- and underconfidence of losses (Liang et al. 2024, Definition 2.1, Figures 2 and 4)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from calibench.ground.arrays import Floats
from calibench.leaderboard.records import Record
from calibench.plots.picture import Picture
from calibench.plots.request import Request, after
from calibench.plots.style import GREY, Axes, color, legend_below, logarithmic, look, panels, tidied
from calibench.statistics import mean_std
from calibench.statistics.number import RAW, TEST

BINS = 41
ESTIMATES = {
    True: "against the true posterior: mean of (max p - max eta) where it is above or below 0",
    False: "variational estimate: mean of (max p - P(hit)) where it is above or below 0",
}


class Sides(NamedTuple):
    """Over- and underconfidence of a run: the mean excess of the confidence over what it should be, and its shortfall.

    Both are >= 0 but for noise; `gap` is max p - max eta of each example (N,), where the posterior eta is known.
    """

    over: float
    under: float
    gap: Floats | None


def sides_of(record: Record, calibrator: str) -> Sides:
    """Over- and underconfidence on the test set: against the true posterior, or estimated where there is none."""
    import torch

    from calibench.evaluation.crossfit import variational_terms
    from calibench.evaluation.fitting import log_probabilities
    from calibench.evaluation.settings import calibrator_of_run
    from calibench.metrics.posterior import posterior_values
    from calibench.plots.example_scores import load_predictions

    test = load_predictions(record, TEST)
    logits, target = torch.from_numpy(test.logits).double(), torch.from_numpy(test.target)
    after_it = None if calibrator == RAW else calibrator_of_run(record.folder, calibrator)
    log_probs = log_probabilities(logits, after_it).double()
    if test.posterior is None:
        found = variational_terms(log_probs, target)
        return Sides(float(found["over"].mean()), float(found["under"].mean()), None)
    probs, eta = log_probs.exp(), torch.from_numpy(test.posterior).double()
    against = posterior_values(log_probs, eta)
    over, under = (float(against[f"posterior_{side}"].mean()) for side in ("excess", "shortfall"))
    return Sides(over, under, (probs.amax(1) - eta.amax(1)).numpy())


def over_under(request: Request) -> Picture:
    """Over- and underconfidence, where the true posterior is known or as a variational estimate."""
    found = {
        row.label: {seed: sides_of(r, request.calibrator) for seed, r in row.records.items()}
        for row in request.rows
    }
    gaps = {
        label: np.concatenate([s.gap for s in of.values() if s.gap is not None])
        for label, of in found.items()
        if all(sides.gap is not None for sides in of.values())
    }
    figure, grid = panels(1 + bool(gaps), columns=2, height=3)
    across, down = figure.get_size_inches()
    figure.set_size_inches(1.6 * across, max(down, 0.9 + 0.3 * len(found)))
    _draw_sides(grid[0], found, title=f"{request.table.title}{after(request.calibrator)}")
    if gaps:
        _draw_gaps(grid[1], gaps)
        legend_below(figure, grid[1:])
    numbers = [
        {
            "loss": label, "seed": seed, "calibrator": request.calibrator,
            "estimate": "variational" if sides.gap is None else "posterior",
            "over": sides.over, "under": sides.under,
        }
        for label, of in found.items()
        for seed, sides in of.items()
    ]  # fmt: skip
    return Picture(figure, numbers)


def _draw_sides(axes: Axes, found: Mapping[str, Mapping[int, Sides]], *, title: str) -> None:
    """Bars to the right for overconfidence, to the left for underconfidence, with the deviations of seeds.

    An estimate below 0 shows nothing of its side, so it has no bar.
    """
    for place, of in enumerate(found.values()):
        for number, (side, sign) in enumerate({"over": 1, "under": -1}.items()):
            mean, std = mean_std([100 * getattr(sides, side) for sides in of.values()])
            axes.barh(
                place, sign * max(mean, 0.0), xerr=np.nan_to_num(std), color=color(number),
                error_kw={"elinewidth": 0.8},
            )  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    known = all(sides.gap is not None for of in found.values() for sides in of.values())
    unit = f"underconfident  <  points  >  overconfident\n{ESTIMATES[known]}"
    tidied(axes, title=title, xlabel=unit).xaxis.label.set_fontsize(6.5)


def _draw_gaps(axes: Axes, gaps: Mapping[str, Floats]) -> None:
    """Shares of examples by how far the confidence is from the true one; most lie near 0, so on a logarithmic scale."""
    top = max(float(np.abs(gap).max()) for gap in gaps.values()) or 1.0
    edges = np.linspace(-top, top, BINS + 1)
    for index, (label, gap) in enumerate(gaps.items()):
        percent = 100 * np.histogram(gap, edges)[0] / len(gap)
        axes.stairs(percent, 100 * edges, **look(index), label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    tidied(axes, yscale="log", xlabel="max p - max eta in points", ylabel="examples %")
    logarithmic(axes.yaxis)

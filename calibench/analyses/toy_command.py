"""`calibench analyse toy`: the toy study of uncertainty measures, as a table and as CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from calibench.analyses.arguments import NumbersFile, write
from calibench.ground.arguments import positive
from calibench.ground.output import loading
from calibench.ground.verb import Count
from calibench.plots.style import Figure

if TYPE_CHECKING:
    from calibench.analyses.toy import Correlation
    from calibench.tables.grid import Grid


def toy(
    *, runs: Count = 5, lr: Annotated[float, positive] = 1.0, output: NumbersFile = None
) -> int:
    """Ask which uncertainty measure follows the true error of probabilities, on Gaussians whose posterior is known.

    BSCE-GRA, section 4.3: Pearson .664 for gBS, .638 for DFL, .550 for FL.

    Args:
        runs: Runs, each with its own class means.
        lr: Learning rate (default: 1, the authors').
        output: The correlation of every run, error, measure, gamma and beta: as .csv, or a picture (.png, .svg, .pdf)
            with the .csv beside it.

    Examples:
        calibench analyse toy -o toy.csv
        calibench analyse toy --runs 20 --lr 0.1
    """
    with loading():
        from dataclasses import asdict

        from calibench.analyses.toy import correlations
        from calibench.ground.bar import with_progress
        from calibench.tables.terminal import show

    made = (list(correlations(run, lr=lr)) for run in range(1, runs + 1))
    found = [one for part in with_progress(made, runs, "runs") for one in part]
    show(table_of(found))
    write(output, [asdict(one) for one in found], lambda: picture(found))
    return 0


Best = dict[tuple[str, str], tuple[float, float]]
"""By error and measure."""


def best_points(found: Sequence[Correlation]) -> Best:
    """Mean and deviation over runs at the best point of the grid, by error and measure; without diverged networks."""
    from calibench.statistics import mean_std

    diverged = {one.run for one in found if math.isnan(one.pearson)}
    points: dict[tuple[str, str], dict[tuple[float, float], list[float]]] = {}
    for one in found:
        if one.run not in diverged:
            of = points.setdefault((one.error, one.measure), {})
            of.setdefault((one.gamma, one.beta), []).append(one.pearson)
    return {key: max(map(mean_std, of.values())) for key, of in points.items()}


def picture(found: Sequence[Correlation]) -> Figure:
    """Bars of the correlations, a group for each error, beside the published ones."""
    from calibench.analyses.toy import ERRORS, MEASURES, PUBLISHED
    from calibench.plots.kinds.calibrators import draw_bars
    from calibench.plots.style import legend_below, panel

    best, none = best_points(found), (math.nan, math.nan)
    groups = {error: {m: best.get((error, m), none) for m in MEASURES} for error in ERRORS}
    groups["published"] = {measure: (PUBLISHED[measure], math.nan) for measure in MEASURES}
    figure, axes = panel(5, 3)
    draw_bars(axes, groups, y="Pearson correlation with the error")
    legend_below(figure, [axes], columns=3)
    return figure


def table_of(found: Sequence[Correlation]) -> Grid:
    """The correlation of each error and measure at the best point of the grid, on the mean over runs."""
    from calibench.analyses.toy import ERRORS, MEASURES, PUBLISHED
    from calibench.tables.grid import Grid, PrintedNumber, headings

    runs = {one.run for one in found}
    diverged = {one.run for one in found if math.isnan(one.pearson)}
    kept, best, none = len(runs - diverged), best_points(found), (math.nan, math.nan)
    rows: list[list[PrintedNumber | str]] = []
    for error in ERRORS:
        values = [best.get((error, measure), none) for measure in MEASURES]
        texts = [
            PrintedNumber(f"{mean:.3f}", f"{std:.3f}" if kept > 1 else "") for mean, std in values
        ]
        rows.append([error, *texts])
    rows.append(["published", *(f"{PUBLISHED[measure]:.3f}" for measure in MEASURES)])
    left_out = f"left out: {len(diverged)} of {len(runs)} networks diverged at this learning rate"
    footer = [
        f"Pearson correlation with the error over test points; mean ± standard deviation of {kept} draws of the means",
        "each at its best gamma and beta of the grid, chosen on these runs, as in the paper",
        *([left_out] if diverged else []),
    ]
    columns = headings("error", *MEASURES)
    return Grid("Uncertainty measures against the true error", columns, rows, footer)

"""`calibench plot sweep`: metrics over the values of a key that a sweep's grid varies."""

from __future__ import annotations

import argparse

from calibench.ground.output import loading
from calibench.leaderboard.columns import Column
from calibench.leaderboard.reading import read_results
from calibench.plots.chosen_runs import add_key_argument, of_keys
from calibench.plots.kinds.naming import scale_of
from calibench.plots.output import add_output_argument, check_output
from calibench.plots.picture import Picture
from calibench.plots.style import WIDTHS, legend_below, panels
from calibench.plots.varied import draw_lines, lines_of, points
from calibench.statistics.number import RAW
from calibench.store import add_results_argument

METRICS = ("nll", "ece", "adaptive_ece", "classwise_ece", "error")

DESCRIPTION = """\
Draws metrics over the values of a key of the configuration, for instance one that the `grid` of a suite varies: a panel
for each metric, a line for each loss raw and after each calibrator, means over seeds with bands of one standard
deviation (FCL, Figure 6)."""

EPILOG = """\
examples:
  calibench sweep suites/fcl_figure6_digits
  calibench plot sweep results/digits --x model.loss.weight --calibrator TemperatureScaling -o weights.png
  calibench plot sweep results/ --x data.imbalance_factor --metrics ece nll -o tails.png
  calibench plot sweep results/ --x data.train_fraction --losses FocalLoss CrossEntropyLoss -o shares.pdf --width page
  calibench plot sweep results/ --x calibrators.AdaptiveTemperatureScaling.n_bins --metrics ece -o ats_bins.png"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench plot sweep`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_results_argument(parser)
    add_output_argument(parser)
    parser.add_argument(
        "--x",
        required=True,
        metavar="KEY",
        help="a key as on the command line of `fit`; calibrators.NAME.ARGUMENT for one of a calibrator",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=list(METRICS),
        metavar="COLUMN",
        help=f"columns of the leaderboard (default: {' '.join(METRICS)})",
    )
    parser.add_argument(
        "--calibrator",
        nargs="+",
        default=[],
        metavar="NAME",
        help="also after these calibrators, where the metric can change by them",
    )
    parser.add_argument(
        "--losses", nargs="+", default=[], metavar="LOSS", help="only runs with these losses"
    )
    add_key_argument(parser)
    parser.add_argument(
        "--width", choices=WIDTHS, help="scale to one column or the page of a paper"
    )


def run(options: argparse.Namespace) -> int:
    """Draw the metrics into a file. Returns the exit status, 0.

    Raises:
        ValueError: If the runs do not differ in the key, or have none of the metrics.
    """
    check_output(options.output)
    metrics = [Column.parse(text) for text in options.metrics]
    records = [
        record
        for record in of_keys(read_results(options.results), options.key).records
        if not options.losses or record.cell.loss in options.losses
    ]
    if not records:
        raise ValueError(f"{options.results} holds no such finished run.")
    found = points(records, options.x, metrics, [RAW, *options.calibrator])
    lines = {metric: lines_of(found, metric) for metric in metrics}
    shown = [metric for metric in metrics if lines[metric]]
    if not shown:
        raise ValueError(f"the runs have none of {', '.join(map(str, metrics))}.")
    with loading():
        figure, grid = panels(len(shown), columns=3)
    for axes, metric in zip(grid, shown, strict=True):
        draw_lines(axes, lines[metric], x=options.x, y=metric.title, scale=scale_of(metric))
    legend_below(figure, grid)
    numbers = [
        {"series": series, options.x: x, "seed": seed, "metric": str(column.after(RAW)),
         "calibrator": column.calibrator, "value": value}
        for series, x, seed, column, value in found
    ]  # fmt: skip
    Picture(figure, numbers).write(options.output, width=options.width)
    return 0

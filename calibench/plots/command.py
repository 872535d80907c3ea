"""`calibench plot`: one picture of a folder of runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from calibench.ground.arguments import positive_integer
from calibench.ground.errors import near_matches
from calibench.ground.family import load_plugins
from calibench.ground.output import loading
from calibench.leaderboard.columns import ANY, Column, check_columns
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.table import Table, build_tables
from calibench.plots import over_epochs
from calibench.plots.chosen_runs import add_key_argument, of_keys
from calibench.plots.kinds import KINDS, LINES
from calibench.plots.output import add_output_argument, check_output
from calibench.plots.request import Request
from calibench.plots.style import WIDTHS, room_of
from calibench.statistics.number import RAW
from calibench.store import add_results_argument

DESCRIPTION = """\
Draws one picture of a folder of runs. Seeds of a row are pooled where examples are drawn
(reliability, roc, risk-coverage, confusion) and averaged elsewhere. The numbers that a picture
shows are written beside it as CSV: x.png and x.csv."""

EPILOG = """\
examples:
  calibench plot reliability results/digits_lt -o reliability.png
  calibench plot reliability results/digits_lt --calibrator TemperatureScaling -o ts.svg
  calibench plot heat-map results/digits_lt --metric nll -o heat_map.pdf --width column
  calibench plot roc results/digits_lt --set noise -o roc.pdf
  calibench plot reliability results/cifar10_lt --table imbalance_factor=100 -o lt100.png
  calibench plot ece-bins results/digits_lt --calibrator TemperatureScaling -o bins.pdf
  calibench plot tradeoff results/ --metric ece -o tradeoff.png
  calibench plot improvement results/ --metric nll --baseline FocalLoss -o improvement.pdf
  calibench plot critical-difference results/ --metric nll -o cd.png
  calibench plot curves results/digits_lt --columns val/ece val/nll --epochs 5-30 --ema 0.8 -o curves.png
  calibench plot over-under results/gaussians -o over_under.png

kinds:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench plot`."""
    lines = "\n".join(f"  {kind:19}  {line}" for kind, line in LINES.items())
    parser.description, parser.epilog = DESCRIPTION, EPILOG + lines
    KINDS.update(load_plugins("plots"))
    parser.add_argument("kind", choices=KINDS, help="what to draw")
    add_results_argument(parser)
    add_output_argument(parser)
    add_choice_arguments(parser)


def add_choice_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which runs a picture shows, and how."""
    parser.add_argument(
        "--metric",
        metavar="COLUMN",
        help="a column of the leaderboard (default: ece; for critical-difference nll, for shift error, for curves all)",
    )
    parser.add_argument(
        "--calibrator",
        metavar="NAME",
        default=RAW,
        help="show probabilities after this calibrator (default: raw)",
    )
    parser.add_argument(
        "--bins", type=int, metavar="N", default=15, help="bins of a diagram (default: 15)"
    )
    parser.add_argument(
        "--table",
        nargs="+",
        default=[],
        metavar="WORD",
        help="only the tables that have these words in their titles (or parts of words, if no title has them whole)",
    )
    parser.add_argument(
        "--losses",
        nargs="+",
        default=[],
        metavar="LOSS",
        help="only the rows of these losses, or with these labels",
    )
    parser.add_argument(
        "--label",
        nargs="+",
        default=[],
        metavar="NAME=TEXT",
        help="other words for labels, as in CrossEntropyLoss=CE",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="compare losses over tables even if runs are missing",
    )
    parser.add_argument(
        "--width", choices=WIDTHS, help="scale to one column or the page of a paper"
    )
    parser.add_argument(
        "--baseline",
        metavar="LOSS",
        help="the loss that a probability of improvement is over (default: CrossEntropyLoss)",
    )
    parser.add_argument("--set", metavar="NAME", help="the OOD set of a ROC (default: the first)")
    add_key_argument(parser)
    over_epochs.add_arguments(parser)


DEFAULT_METRICS = {"critical-difference": "nll", "shift": "error"}


def run(args: argparse.Namespace) -> int:
    """Draw a picture into a file. Returns the exit status, 0.

    Raises:
        FileNotFoundError: If a folder or a prediction file is missing.
        ValueError: If the picture cannot be drawn from these runs.
    """
    check_output(args.output)
    request = request_of(args, default_metric(args.kind))
    with loading(), room_of(args.width):
        picture = KINDS[args.kind](request)
    picture.write(args.output, width=args.width)
    return 0


def default_metric(kind: str) -> str:
    """The metric that a kind of picture shows where none is named."""
    return DEFAULT_METRICS.get(kind, "ece")


def request_of(args: argparse.Namespace, usual_metric: str) -> Request:
    """What the options of `add_choice_arguments`, and `results`, ask for; of `usual_metric` if they name none.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it has no such tables, losses or runs.
    """
    positive_integer("--bins", args.bins)
    metric = Column.parse(args.metric or usual_metric)
    columns = [Column("error"), Column("nll"), metric, metric.after(ANY)]
    results = of_keys(read_results(args.results), args.key)
    every = build_tables(results, columns, Column("nll"))
    if not every:
        why = "; ".join(results.unfinished.values())
        raise ValueError(f"{why or f'{args.results} holds no finished run'}.")
    if args.metric and getattr(args, "kind", "") != "curves":  # which are of what was logged
        check_columns([metric.after(ANY)], results.keys)
    tables = _with_words(every, args.table)
    if not tables:
        titles = ", ".join(table.title for table in every)
        raise ValueError(f"no table has {' and '.join(args.table)} in its title: {titles}.")
    words = dict(_renaming(text) for text in args.label)
    tables = [_with_rows(table, args.losses, words) for table in tables]
    if not any(row.records for table in tables for row in table.rows):
        raise ValueError(f"{args.results} holds no finished run of {' or '.join(args.losses)}.")
    return Request(
        tables, metric, args.calibrator, n_bins=args.bins, ood_set=args.set,
        allow_missing=args.allow_missing, metric_given=args.metric is not None,
        baseline=args.baseline, over_epochs=over_epochs.OverEpochs.of(args),
    )  # fmt: skip


def _with_words(tables: Sequence[Table], words: Sequence[str]) -> list[Table]:
    """The tables with all the words in their titles; a whole word counts first, so that `factor=10` is not 100."""
    found = list(tables)
    for word in words:
        whole = [table for table in found if word in table.title.split()]
        found = whole or [table for table in found if word in table.title]
    return found


def _renaming(text: str) -> tuple[str, str]:
    name, equals, word = text.partition("=")
    if not equals:
        raise ValueError(f"`--label {text}`: NAME=TEXT is expected, as in CrossEntropyLoss=CE.")
    return name, word


def _with_rows(table: Table, losses: Sequence[str], words: Mapping[str, str]) -> Table:
    """The rows of some losses, all if none is named, with other words in their labels.

    Raises:
        ValueError: If the table has no such loss.
    """
    known = {name: row for row in table.rows for name in (row.loss, row.label)}
    for name in [*losses, *words]:
        if name not in known:
            raise ValueError(f"{table.title} has no loss `{name}`{near_matches(name, known)}")
    rows = [row for row in table.rows if not losses or {row.loss, row.label} & set(losses)]
    named = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b" if words else "$^")
    renamed = [
        replace(row, label=named.sub(lambda found: words[found[0]], row.label)) for row in rows
    ]
    return replace(table, rows=renamed)

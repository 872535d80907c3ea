"""`calibench plot`: one picture of a folder of runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from calibench.ground.arguments import positive_integer
from calibench.ground.errors import near_matches
from calibench.ground.family import load_plugins
from calibench.ground.output import loading
from calibench.ground.verb import Option, documented
from calibench.leaderboard.columns import ANY, Column, check_columns
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.table import Table, build_tables
from calibench.plots.curves import OverEpochs
from calibench.plots.kinds import KINDS, LINES
from calibench.plots.picture import Picture
from calibench.plots.request import Keys, Request, of_keys
from calibench.plots.style import PictureFile, Width, room_of
from calibench.statistics.number import RAW
from calibench.store.finding import ResultsFolder


def kinds() -> dict[str, Callable[[Request], Picture]]:
    """The kinds of pictures, those of other packages too."""
    KINDS.update(load_plugins("plots"))
    return KINDS


@dataclass(frozen=True)
class Shown:
    """Which runs a picture shows, and what of them.

    Attributes:
        metric: A column of the leaderboard (default: ece; for critical-difference nll, for shift error, for curves
            all).
        calibrator: Show probabilities after this calibrator.
        bins: Bins of a diagram.
        table: Only the tables that have these words in their titles (or parts of words, if no title has them whole).
        losses: Only the rows of these losses, or with these labels.
        label: Other words for labels, as in CrossEntropyLoss=CE.
        allow_missing: Compare losses over tables even if runs are missing.
        baseline: The loss that a probability of improvement is over (default: CrossEntropyLoss).
        set: The OOD set of a ROC (default: the first).
        key: Only runs of these keys.
    """

    metric: Annotated[str | None, "COLUMN"] = None
    calibrator: Annotated[str, "NAME"] = RAW
    bins: Annotated[int, "N", positive_integer] = 15
    table: Annotated[tuple[str, ...], "WORD"] = ()
    losses: Annotated[tuple[str, ...], "LOSS"] = ()
    label: Annotated[tuple[str, ...], "NAME=TEXT"] = ()
    allow_missing: bool = False
    baseline: Annotated[str | None, "LOSS"] = None
    set: Annotated[str | None, "NAME"] = None
    key: Keys = ()


@documented(kinds="\n".join(f"{kind:19}  {line}" for kind, line in LINES.items()))
def plot(
    kind: Annotated[str, Option("KIND", choices=kinds)],
    results: ResultsFolder = "results",
    *,
    output: PictureFile,
    shown: Shown,
    width: Width = None,
    over_epochs: OverEpochs,
) -> int:
    """Draw one picture of a folder of runs.

    Seeds of a row are pooled where examples are drawn (reliability, roc, risk-coverage, confusion) and averaged
    elsewhere. The numbers that a picture shows are written beside it as CSV: x.png and x.csv.

    Args:
        kind: What to draw.
        results: Folder of runs, or a store.
        output: The picture.
        shown: Which runs it shows.
        width: Its width in a paper.
        over_epochs: What training curves show.

    Examples:
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

    Kinds:
        {kinds}
    """
    asked = request_of(results, shown, over_epochs, default_metric(kind), logged=kind == "curves")
    with loading(), room_of(width):
        picture = KINDS[kind](asked)
    picture.write(output, width=width)
    return 0


DEFAULT_METRICS = {"critical-difference": "nll", "shift": "error"}


def default_metric(kind: str) -> str:
    """The metric that a kind of picture shows where none is named."""
    return DEFAULT_METRICS.get(kind, "ece")


def request_of(
    folder: str, shown: Shown, over_epochs: OverEpochs, usual_metric: str, *, logged: bool = False
) -> Request:
    """What is drawn of a folder of runs; of `usual_metric` if none is asked for.

    Args:
        folder: What `results_folder` takes.
        shown: Which runs, and what of them.
        over_epochs: What training curves show.
        usual_metric: The metric if none is named.
        logged: Whether the metric is one of those that training logged, not of the leaderboard.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it has no such tables, losses or runs.
    """
    metric = Column.parse(shown.metric or usual_metric)
    columns = [Column("error"), Column("nll"), metric, metric.after(ANY)]
    results = of_keys(read_results(folder), shown.key)
    every = build_tables(results, columns, Column("nll"))
    if not every:
        why = "; ".join(results.unfinished.values())
        raise ValueError(f"{why or f'{folder} holds no finished run'}.")
    if shown.metric and not logged:
        check_columns([metric.after(ANY)], results.keys)
    tables = _with_words(every, shown.table)
    if not tables:
        titles = ", ".join(table.title for table in every)
        raise ValueError(f"no table has {' and '.join(shown.table)} in its title: {titles}.")
    words = dict(_renaming(text) for text in shown.label)
    tables = [_with_rows(table, shown.losses, words) for table in tables]
    if not any(row.records for table in tables for row in table.rows):
        raise ValueError(f"{folder} holds no finished run of {' or '.join(shown.losses)}.")
    return Request(
        tables, metric, shown.calibrator, n_bins=shown.bins, ood_set=shown.set,
        allow_missing=shown.allow_missing, metric_given=shown.metric is not None,
        baseline=shown.baseline, over_epochs=over_epochs,
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

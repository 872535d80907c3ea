"""Rows of numbers as `calibench leaderboard --format tidy` writes them, less what claims.py does not read."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from typing import Any

from calibench.runs import Run, read_json

_PLACE = ["benchmark", "variant", "loss", "seed", "split", "calibrator", "metric"]
HEAD = [*_PLACE, "n_bins", "score", "class", "value"]


def row(
    run: Run,
    split: str,
    calibrator: str,
    metric: str,
    value: float,
    n_bins: int | str = "",
    score: str = "",
) -> list[Any]:
    """The row of a number of a run."""
    content = read_json(run.folder / "metrics.json")
    place = [content["benchmark"], "", content["loss"], content["seed"], split, calibrator, metric]
    return [*place, n_bins, score, "", f"{value:.6g}"]


def print_rows(rows: Iterable[list[Any]]) -> None:
    """Print rows as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(rows)

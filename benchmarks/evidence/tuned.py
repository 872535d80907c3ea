"""Learning rate and weight decay of each loss, chosen on the validation split with the same budget of trials.

    python benchmarks/evidence/tuned.py RESULTS > benchmarks/results/tuned.csv

A line for each finished run of `suites/tuned_cpu`, `suites/tuned_chosen_cpu` and, of the digits, `evidence_cpu`. The
lowest validation NLL of a loss's four trials, which are its runs with seed 1, chooses its setting; the other seeds are
of the usual and of the chosen setting only. Scored on the test set, raw and after the calibrator that cross-validation
chooses (CVC).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from calibench.runs import Run, read_json
from calibench.runs.finished import find_finished_runs
from calibench.statistics.pairs import Runs, estimate_beats

SETTINGS = ["lr", "weight_decay"]
USUAL = {"lr": 0.1, "weight_decay": 0.0005}
TRIALS = 4
BASE, CVC = "CrossEntropyLoss", "CrossValidatedCalibration(shrinkage=False)"
Place = tuple[str, str, str]  # split, calibrator, metric
SCORES: dict[str, Place] = {
    "val_nll": ("val", "raw", "nll"),
    "error": ("test", "raw", "error"),
    "nll": ("test", "raw", "nll"),
    "nll_cvc": ("test", CVC, "nll"),
}


def row(
    run: Run, part: str, settings: Sequence[str], scores: Mapping[str, Place]
) -> dict[str, Any]:
    """The settings of a part of the model, such as `optimizer`, and these scores of a run."""
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    content = read_json(run.folder / "metrics.json")
    given = config["model"][part]["init_args"]
    values = {
        (row["split"], row["calibrator"], row["metric"]): row["value"] for row in content["rows"]
    }
    return (
        {name: content[name] for name in ("benchmark", "loss", "seed")}
        | {key: given.get(key, "") for key in settings}
        | {name: f"{values[place]:.6g}" for name, place in scores.items()}
    )


def write(
    folders: Sequence[str],
    part: str,
    settings: Sequence[str],
    scores: Mapping[str, Place] = SCORES,
) -> None:
    """Print the rows of all finished runs below the folders as CSV."""
    rows = [row(run, part, settings, scores) for run in find_finished_runs([*map(Path, folders)])]
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def choices(found: pd.DataFrame) -> pd.DataFrame:
    """For each loss that has all trials, the settings with the lowest validation NLL."""
    trials = found[found["seed"] == 1]
    whole = trials[trials.groupby("loss")["val_nll"].transform("size") == TRIALS]
    best = whole.loc[whole.groupby("loss")["val_nll"].idxmin()]
    return best.set_index("loss")[SETTINGS]


def of(found: pd.DataFrame, loss: str, settings: Mapping[str, float]) -> pd.DataFrame:
    """The runs of a loss with these settings."""
    kept = found["loss"] == loss
    for key, value in settings.items():
        kept &= np.isclose(found[key], value)
    return found[kept].sort_values("seed")


def table(found: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss with the usual and with its chosen settings."""
    columns = [
        f"{title}{end}" for title in ("Error %", "NLL", "NLL +CVC0") for end in ("", ", tuned")
    ]
    yield [
        "loss",
        "lr, weight decay",
        "runs",
        *columns,
        "P(beats CE), NLL +CVC0",
        "the same, both tuned",
    ]
    best = choices(found)
    sides = {loss: [of(found, loss, USUAL), of(found, loss, best.loc[loss])] for loss in best.index}
    for loss in sorted(sides, key=lambda loss: sides[loss][1]["nll_cvc"].mean()):
        lr, decay = (f"{best.loc[loss, key]:g}" for key in SETTINGS)
        cells = [mean(side[score]) for score in ("error", "nll", "nll_cvc") for side in sides[loss]]
        pairs = [
            share(*both) if loss != BASE else ""
            for both in zip(sides[loss], sides[BASE], strict=True)
        ]
        yield [loss, f"{lr}, {decay}", f"{len(sides[loss][1])}", *cells, *pairs]


def mean(values: pd.Series[float]) -> str:
    """Mean and standard deviation of an error, in percent, or of another score."""
    factor, decimals = (100, 2) if values.name == "error" else (1, 3)
    return f"{factor * values.mean():.{decimals}f} ± {factor * values.std():.{decimals}f}"


def share(mine: pd.DataFrame, theirs: pd.DataFrame, score: str = "nll_cvc") -> str:
    """How likely a run has a lower score than one of the others, with its interval."""
    found = estimate_beats(*([Runs(side[score].to_numpy())] for side in (mine, theirs)))
    return f"{found.probability:.2f} [{found.low:.2f}, {found.high:.2f}]"


if __name__ == "__main__":
    write(sys.argv[1:], "optimizer", SETTINGS)

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from calibench.analyses.run_arguments import finished_runs
from calibench.runs import Run, read_json
from calibench.statistics.pairs import Runs, beats

SETTINGS = ["lr", "weight_decay"]
USUAL = {"lr": 0.1, "weight_decay": 0.0005}
TRIALS = 4
BASE, CVC = "CrossEntropyLoss", "CrossValidatedCalibration"
SCORES = {
    "val_nll": ("val", "raw", "nll"),
    "error": ("test", "raw", "error"),
    "nll": ("test", "raw", "nll"),
    "nll_cvc": ("test", CVC, "nll"),
}


def row(run: Run) -> dict[str, Any]:
    """The settings and the scores of a run."""
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    content = read_json(run.folder / "metrics.json")
    optimizer = config["model"]["optimizer"]["init_args"]
    scores = {
        (row["split"], row["calibrator"], row["metric"]): row["value"] for row in content["rows"]
    }
    return (
        {name: content[name] for name in ("benchmark", "loss", "seed")}
        | {key: optimizer[key] for key in SETTINGS}
        | {name: f"{scores[place]:.6g}" for name, place in SCORES.items()}
    )


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
        f"{title}{end}" for title in ("Error %", "NLL", "NLL +CVC") for end in ("", ", tuned")
    ]
    yield [
        "loss",
        "lr, weight decay",
        "runs",
        *columns,
        "P(beats CE), NLL +CVC",
        "the same, both tuned",
    ]
    best = choices(found)
    sides = {loss: [of(found, loss, USUAL), of(found, loss, best.loc[loss])] for loss in best.index}
    for loss in sorted(sides, key=lambda loss: sides[loss][1]["nll_cvc"].mean()):
        lr, decay = (f"{best.loc[loss, key]:g}" for key in SETTINGS)
        cells = [
            _mean(side[score]) for score in ("error", "nll", "nll_cvc") for side in sides[loss]
        ]
        pairs = [
            _share(*both) if loss != BASE else ""
            for both in zip(sides[loss], sides[BASE], strict=True)
        ]
        yield [loss, f"{lr}, {decay}", f"{len(sides[loss][1])}", *cells, *pairs]


def _mean(values: pd.Series[float]) -> str:
    factor, decimals = (100, 2) if values.name == "error" else (1, 3)
    return f"{factor * values.mean():.{decimals}f} ± {factor * values.std():.{decimals}f}"


def _share(mine: pd.DataFrame, theirs: pd.DataFrame) -> str:
    found = beats(*([Runs(side["nll_cvc"].to_numpy())] for side in (mine, theirs)))
    return f"{found.probability:.2f} [{found.low:.2f}, {found.high:.2f}]"


if __name__ == "__main__":
    rows = [row(run) for run in finished_runs([*map(Path, sys.argv[1:])])]
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)

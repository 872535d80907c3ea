"""The gamma of focal loss and the weight of the focal calibration loss, chosen by the validation NLL of each seed.

    python benchmarks/evidence/validated.py RESULTS > benchmarks/results/validated.csv

A line for each finished run of `suites/validated_cpu`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
import tuned

PARAMETERS = {"FocalLoss": "gamma", "FocalCalibrationLoss": "weight"}
WITHOUT = 0.0  # cross-entropy; focal loss


def chosen(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each seed's runs the one with the lowest validation NLL, by seed."""
    return runs.loc[runs.groupby("seed")["val_nll"].idxmin()].sort_values("seed")


def table(found: pd.DataFrame) -> Iterator[list[str]]:
    """Each value of a parameter with its test scores, and what validation chooses."""
    scores = {"Error %": "error", "NLL": "nll", "NLL +CVC0": "nll_cvc"}
    beaten = ("P(beats 0), NLL", "P(beats 0), NLL +CVC0")
    yield ["data", "loss", "parameter", "chosen by seeds", *scores, *beaten]
    for (benchmark, loss), runs in found.groupby(["benchmark", "loss"], sort=False):
        name, best = PARAMETERS[loss], chosen(runs)
        sides = {value: of.sort_values("seed") for value, of in runs.groupby(name)}
        counts = best[name].value_counts()
        cells = [
            (f"{name} {value:g}", f"{counts.get(value, 0)}", of) for value, of in sides.items()
        ]
        for title, count, of in (*cells, (f"{name} by validation", f"{len(best)}", best)):
            pairs = [tuned.share(of, sides[WITHOUT], score) for score in ("nll", "nll_cvc")]
            means = [tuned.mean(of[score]) for score in scores.values()]
            alone = of is sides[WITHOUT]
            yield [benchmark, loss, title, count, *means, *(["", ""] if alone else pairs)]


if __name__ == "__main__":
    tuned.write(sys.argv[1:], "loss", [*PARAMETERS.values()])

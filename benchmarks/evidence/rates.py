"""The learning rate of each loss in the speedrun: chosen on the validation split, by the NLL after a temperature.

    python benchmarks/evidence/rates.py RESULTS > benchmarks/results/speedrun_rates.csv

A line for each finished run of `suites/evidence_speedrun --datasets cifar10_rates cifar100_rates`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
import tuned

TS = "TemperatureScaling"
SCORES = {
    "val_nll_ts": ("val", TS, "nll"),
    "error": ("test", "raw", "error"),
    "nll": ("test", "raw", "nll"),
    "nll_ts": ("test", TS, "nll"),
}
PER_EXAMPLE = 1024 * (
    1 + 1 / 0.15
)  # the recipe's rates are of the mean over a batch of 1,024, with momentum


def choices(found: pd.DataFrame) -> pd.DataFrame:
    """Of each loss on each data set the run with the lowest validation NLL after a temperature.

    `inside` says that the rates next to it, on both sides, did worse; `next` by how much the second best rate did.
    """
    rows = []
    for place, runs in found.groupby(["benchmark", "loss"]):
        order = runs.sort_values("val_nll_ts")
        best = order.iloc[0]
        rates = sorted(runs["lr"])
        inside = rates[0] < best["lr"] < rates[-1]
        margin = (
            order["val_nll_ts"].iloc[1] - best["val_nll_ts"] if len(order) > 1 else float("nan")
        )
        rows.append([*place, *best[["lr", *SCORES]], inside, margin])
    columns = ["benchmark", "loss", "lr", *SCORES, "inside", "next"]
    return pd.DataFrame(rows, columns=columns).set_index(["benchmark", "loss"])


def title(rate: float) -> str:
    """A rate an example as the recipe writes it: 0.00051 is 4."""
    return f"{rate * PER_EXAMPLE:.3g}"


def table(found: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss: its validation NLL after a temperature at each rate, and the test scores at the chosen one."""
    rates = sorted(found["lr"].unique())
    yield ["data", "loss", *(f"rate {title(rate)}" for rate in rates), "Error %", "NLL", "NLL +TS"]
    best = choices(found).sort_values(["benchmark", "nll_ts"])
    for (benchmark, loss), of in best.iterrows():
        runs = found[(found["benchmark"] == benchmark) & (found["loss"] == loss)].set_index("lr")
        scores = [
            _marked(runs["val_nll_ts"].get(rate), chosen=rate == of["lr"], inside=of["inside"])
            for rate in rates
        ]
        yield [
            benchmark.removesuffix("_rates"),
            loss,
            *scores,
            f"{100 * of['error']:.2f}",
            f"{of['nll']:.3f}",
            f"{of['nll_ts']:.3f}",
        ]


def _marked(value: float | None, *, chosen: bool, inside: bool) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}"
    return f"**{text}**{'' if inside else ' (end)'}" if chosen else text


if __name__ == "__main__":
    tuned.write(sys.argv[1:], "optimizer", ["lr"], SCORES)

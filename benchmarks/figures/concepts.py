"""Pictures of the concept pages: ECE of calibrated models by size, two classifiers of one ECE, bold, refinement.

    python benchmarks/figures/concepts.py             writes concept_*.svg beside this file
    python benchmarks/figures/concepts.py FOLDER      writes them there

They are drawn from simulated examples with fixed seeds, and from the store that comes with calibench.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

import calibench
from calibench.metrics import calibration_error

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"
SIZES = (100, 300, 1000, 3000, 10_000)
DRAWS = 200


def draw_floors() -> Figure:
    """ECE of perfectly calibrated models against the number of examples: mean, and the limit of 95 %."""
    import torch

    random = np.random.default_rng(0)
    means, limits = [], []
    for size in SIZES:
        errors = []
        for _ in range(DRAWS):
            logits = 2 * random.normal(size=(size, 10))
            probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            labels = (probs.cumsum(1) > random.random((size, 1))).argmax(1)
            value = calibration_error(torch.from_numpy(probs), torch.from_numpy(labels), n_bins=15)
            errors.append(100 * float(value))
        means.append(np.mean(errors))
        limits.append(np.quantile(errors, 0.95))
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    axes.plot(SIZES, limits, color=ORANGE, marker="s", label="limit: 95 % stay below")
    axes.plot(SIZES, means, color=BLUE, marker="o", label="mean (floor)")
    axes.axhline(0, color=GREY, lw=1, label="ECE in the population: 0")
    axes.set(xscale="log", xlabel="test examples", ylabel="ECE of calibrated models, %")
    axes.legend(frameon=False)
    return figure


def draw_two_classifiers() -> Figure:
    """ECE, Brier score and error of two classifiers, of which one is better and neither miscalibrated."""
    target = np.repeat([1, 0, 1, 0], [40, 10, 20, 30])
    scores = {
        "0.6 for everybody": np.full(100, 0.6),
        "0.8 in A, 0.4 in B": np.repeat([0.8, 0.4], 50),
    }
    names = ("ece", "brier", "error")
    figure, axes = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
    for place, (label, positive) in enumerate(scores.items()):
        probs = np.stack([1 - positive, positive], axis=1)
        report = calibench.evaluate(probs, target, scores="probs")
        values = [report.value(name) for name in names]
        at = np.arange(len(names)) + 0.38 * place
        bars = axes.bar(at, values, 0.36, label=label, color=(BLUE, ORANGE)[place])
        axes.bar_label(bars, fmt="%.2f")
    axes.set_xticks(np.arange(len(names)) + 0.19, ["ECE", "Brier score", "error"])
    axes.set(ylim=(0, 0.6))
    axes.legend(frameon=False, loc="upper left")
    return figure


def draw_bold() -> Figure:
    """NLL of every seed and loss of a shipped table; the losses that may be the best are filled."""
    (table,) = calibench.leaderboard("shipped/digits_lt", metrics=["nll"], rank_by="nll").tables
    (column,) = table.columns
    rows = [row for row in table.rows if len(row.values[column].seeds) == 3]
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for place, row in enumerate(rows):
        value = row.values[column]
        color = BLUE if value.tied else ORANGE if value.noisy else GREY
        axes.plot(list(value.seeds.values()), [place] * 3, "o", color=color, alpha=0.6)
        axes.plot([value.mean] * 2, [place - 0.3, place + 0.3], color=color, lw=2)
    for color, text in (
        (BLUE, "bold: may be the best"),
        (ORANGE, "~: seeds vary too much"),
        (GREY, "worse"),
    ):
        axes.plot([], [], "o", color=color, label=text)
    axes.legend(frameon=False, loc="upper right")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel="NLL of each seed; bars are means")
    return figure


def draw_refinement() -> Figure:
    """The NLL of the losses of a shipped table in two parts: what a temperature leaves, and what it removes."""
    names = ["nll_refinement", "nll_calibration"]
    (table,) = calibench.leaderboard(
        "shipped/digits_lt", metrics=names, rank_by="nll_refinement"
    ).tables
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    labels = [row.label for row in table.rows]
    left, removed = ([row.values[column].mean for row in table.rows] for column in table.columns)
    axes.barh(labels, left, color=BLUE, label="refinement: left by a temperature")
    axes.barh(labels, removed, left=left, color=ORANGE, label="calibration: removed by it")
    axes.invert_yaxis()
    axes.set(xlabel="NLL on test, mean over three seeds")
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure


PICTURES = {
    "concept_floors": draw_floors,
    "concept_two_classifiers": draw_two_classifiers,
    "concept_bold": draw_bold,
    "concept_refinement": draw_refinement,
}


def draw_pictures(folder: Path) -> None:
    """Write every picture into a folder."""
    matplotlib.rcParams |= {"svg.hashsalt": "calibench", "svg.fonttype": "none"}
    for name, draw in PICTURES.items():
        draw().savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

"""`calibench analyse gradient-norm`: how closely the gradient norm of an example follows its uncertainty."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibench.analyses.arguments import (
    NumbersFile,
    RunFolders,
    Trust,
    finished_runs,
    labels_of,
    whole_numbers,
    write,
)
from calibench.ground.errors import UsageError
from calibench.ground.names import MULTILABEL
from calibench.ground.output import FileRow, loading
from calibench.runs import Run

if TYPE_CHECKING:
    from calibench.analyses.gradient_norm.norms import RunNorms
    from calibench.tables.grid import Grid


def gradient_norm(
    runs: RunFolders,
    *,
    trust: Trust = False,
    output: NumbersFile = None,
    epochs: Annotated[list[int] | None, "N,N", whole_numbers(1, "50,350")] = None,
) -> int:
    """Measure how closely the gradient norm of an example follows its uncertainty, from checkpoints.

    The norm of the gradient of its loss with respect to the last linear layer, for every training example, without
    augmentation, and how closely it follows the example's Brier score sum_k (p_k - Y_k)^2 (BSCE-GRA, Figures 4 and 5):
    Pearson's and Spearman's correlation, and the standard deviation of the norm among examples of about the same Brier
    score ("narrow" is the paper's claim), as a mean over 20 bins of [0, 2].

    Args:
        runs: The runs.
        trust: Whether their own classes are built.
        output: Brier score and norm of every example: as .csv, or a picture (.png, .svg, .pdf) with the .csv beside it.
        epochs: Checkpoints of these epochs only, from 1 (default: all).

    Examples:
        calibench fit --config digits_lt --trace.checkpoints '[10, 20, 30]'      keeps the checkpoints of these epochs
        calibench analyse gradient-norm results/digits_lt -o norms.png
        calibench analyse gradient-norm RUN RUN --epochs 50,350 -o norms.csv

    Of a run with checkpoints of several epochs all are taken, of others the evaluated weights. For a loss that couples
    the examples of a batch the norm is N times the example's row of the gradient of a random batch of N; the table says
    so.
    """
    finished = finished_runs(runs)
    found = [checkpoints(run, epochs) for run in finished]
    with loading():
        from calibench.analyses.gradient_norm.norms import picture
        from calibench.ground.bar import with_progress
        from calibench.tables.terminal import show

    made = _entries(finished, found, trusted=trust)
    entries = list(with_progress(made, sum(max(1, len(paths)) for paths in found), "checkpoints"))
    show(table_of(entries))
    write(output, list(_numbers(entries)), lambda: picture(entries))
    return 0


def checkpoints(run: Run, epochs: list[int] | None) -> dict[int, Path]:
    """The checkpoints that a run kept of epochs (`trace.checkpoints`), by epoch; all if none is named.

    Raises:
        UsageError: If one that is named is missing.
    """
    paths = run.checkpoints.glob("epoch=*.ckpt")
    named = {path: re.fullmatch(r"epoch=(\d+)\.ckpt", path.name) for path in paths}
    kept = {int(match[1]): path for path, match in named.items() if match}
    for epoch in epochs or ():
        if epoch not in kept:
            has = f"it has {', '.join(map(str, sorted(kept)))}" if kept else "it has none"
            raise UsageError(
                f"{run.folder} has no checkpoint of epoch {epoch}, {has}: "
                f"train with --trace.checkpoints '[{epoch}]'."
            )
    return {epoch: kept[epoch] for epoch in sorted(epochs or kept)}


def _entries(runs: list[Run], found: list[dict[int, Path]], *, trusted: bool) -> Iterator[RunNorms]:
    """The norms of each run after each epoch."""
    from calibench.analyses.gradient_norm.norms import RunNorms, gradient_norms
    from calibench.training.trained import trained_network

    for run, label, paths in zip(runs, labels_of(runs), found, strict=True):
        trained = trained_network(run, trusted=trusted)
        data = trained.data
        if data.task.name == MULTILABEL:
            raise UsageError(f"{run.folder} has several labels an example: it has no Brier score.")
        for path in paths.values() or [None]:
            if path is not None:
                trained.load(path)
            of = trained.backbone, trained.loss, data.plain_batches("train")
            norms = gradient_norms(*of, batch_size=data.batch_size)
            yield RunNorms(label, trained.epoch, norms)


def table_of(entries: list[RunNorms]) -> Grid:
    """Correlations and spread of each run and epoch."""
    from calibench.analyses.gradient_norm.norms import N_BINS, summary
    from calibench.tables.grid import Grid, Heading, PrintedNumber, headings

    names = ("Pearson", "Spearman", "std within bins", "over std of all", "mean norm")
    columns = [*headings("loss"), Heading("epoch", label=True), *map(Heading, names)]
    rows: list[list[PrintedNumber | str]] = []
    for of in entries:
        found, mean = summary(of.norms), float(of.norms.norm.mean())
        shown = (
            f"{found.pearson:.3f}", f"{found.spearman:.3f}", f"{found.spread:.4g}",
            f"{found.relative:.3f}", f"{mean:.4g}",
        )  # fmt: skip
        rows.append([of.label, str(of.epoch), *map(PrintedNumber, shown)])
    coupled = dict.fromkeys(entry.label for entry in entries if entry.norms.coupled)
    rows_of = "couples the examples of a batch: N times an example's row of the batch's gradient"
    footer = [
        f"{len(entries[0].norms.norm)} training examples; gradient of the last linear layer",
        f"std within bins: mean over {N_BINS} bins of [0, 2], those with two examples or more",
        *(f"{label} {rows_of}" for label in coupled),
    ]
    return Grid("Gradient norm against uncertainty", columns, rows, footer)


def _numbers(entries: list[RunNorms]) -> Iterator[FileRow]:
    """A row for each example."""
    for entry in entries:
        columns = (part.tolist() for part in entry.norms[:3])
        for number, (target, brier, norm) in enumerate(zip(*columns, strict=True)):
            yield {
                "loss": entry.label, "epoch": entry.epoch, "example": number, "target": target,
                "brier": brier, "norm": norm, "batch_coupled": entry.norms.coupled,
            }  # fmt: skip

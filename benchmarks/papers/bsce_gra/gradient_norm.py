"""How closely the gradient norm of an example follows its uncertainty, from checkpoints (BSCE-GRA, Figures 4 and 5).

    calibench fit --config digits_lt --trace.checkpoints '[10, 20, 30]'      keeps the checkpoints of these epochs
    python benchmarks/papers/bsce_gra/gradient_norm.py results/digits_lt -o norms.png
    python benchmarks/papers/bsce_gra/gradient_norm.py RUN RUN --epochs 50,350 -o norms.csv

The norm of the gradient of each training example's loss (without augmentation) with respect to the last linear layer,
and how closely it follows the example's Brier score sum_k (p_k - Y_k)^2: Pearson's and Spearman's correlation, and the
standard deviation of the norm among examples of about the same Brier score ("narrow" is the paper's claim), as a mean
over 20 bins of [0, 2]. Of a run with checkpoints of several epochs all are taken, of others the evaluated weights.
For a loss that couples the examples of a batch the norm is N times the example's row of the gradient of a random batch
of N; the table says so.

With z = W h + b, the gradient of l with respect to W is (dl/dz) h^T and to b it is dl/dz, so that its norm is
||dl/dz|| sqrt(||h||^2 + 1), without a backward per example.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from calibench.data import Batch
from calibench.files.set_names import MULTILABEL
from calibench.messages.checks import ends_in, integer_from
from calibench.messages.errors import UsageError, exit_on_mistakes
from calibench.messages.printable_text import FileRow
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import write_numbers
from calibench.plots.style import (
    PICTURE_FORMATS,
    Axes,
    Figure,
    legend_below,
    logarithmic,
    look,
    panels,
    tidied,
)
from calibench.runs import Run
from calibench.runs.finished import find_finished_runs, label_runs
from calibench.tables.grid import Grid, Heading, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.binning import equal_width_bin
from calibench.training.export import load_trained_network
from calibench.training.last_layer import iterate_last_layer

Loss = Callable[[Tensor, Tensor], Tensor]

N_BINS = 20
COMPARED = 8  # examples that are compared with themselves in a batch of one
SAME = 1e-6


class Norms(NamedTuple):
    """Class, Brier score sum_k (p_k - Y_k)^2 and gradient norm of every example (N,); whether the loss couples them.

    `label` and `epoch` are those of the run.
    """

    target: Tensor
    brier: Tensor
    norm: Tensor
    coupled: bool
    label: str = ""
    epoch: int = 0


class NormSummary(NamedTuple):
    """How closely the norm follows the Brier score: Pearson's and Spearman's correlation, and the spread.

    This is the mean over bins of the Brier score, of two examples or more, of the standard deviation of the norm within
    a bin; `relative` to the standard deviation of all norms, scaling a loss does not change it.
    """

    pearson: float
    spearman: float
    spread: float
    relative: float


def compute_gradient_norms(
    network: nn.Module, loss: Loss, batches: Iterable[Batch], *, batch_size: int
) -> Norms:
    """Compute the gradient norms of all examples with respect to the last linear layer of a network.

    For a loss that couples the examples of a batch they are N times the row of the gradient of the mean loss of N
    examples, of random batches. A network that does not end in a linear layer is a UsageError.
    """
    parts = [
        (
            (batch.features.double().square().sum(1) + batch.bias).sqrt(),
            batch.logits.double(),
            batch.target,
        )
        for batch in iterate_last_layer(network, batches)
    ]
    scale, logits, target = (torch.cat(part) for part in zip(*parts, strict=True))
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))
    logit_norms = torch.empty_like(scale)
    for rows in torch.split(order, batch_size):
        logit_norms[rows] = _rows_of_gradient(loss, logits[rows], target[rows]).norm(dim=1)
    first = order[: min(batch_size, len(order))]
    brier = (logits.softmax(1) - F.one_hot(target, logits.shape[1])).square().sum(1)
    coupled = is_coupled(loss, logits[first], target[first])
    return Norms(target, brier, logit_norms * scale, coupled)


def _rows_of_gradient(loss: Loss, logits: Tensor, target: Tensor) -> Tensor:
    """N times the gradient of the mean loss of N examples, (N, K)."""
    leaf = logits.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, target), leaf)
    return gradient * len(target)


def is_coupled(loss: Loss, logits: Tensor, target: Tensor) -> bool:
    """Whether the gradient of some example differs from that of the same example in a batch of one."""
    together = _rows_of_gradient(loss, logits, target)[:COMPARED]
    rows = [slice(row, row + 1) for row in range(len(together))]
    single = torch.cat([_rows_of_gradient(loss, logits[row], target[row]) for row in rows])
    return float((single - together).abs().max()) > SAME * float(together.abs().max())


def summarise_norms(norms: Norms) -> NormSummary:
    """Summarise how closely norms follow the Brier score, with their spread within 20 bins of its [0, 2]."""
    brier, norm = norms.brier.numpy(), norms.norm.numpy()
    bins = equal_width_bin(norms.brier / 2, N_BINS)
    groups = [group for b in range(N_BINS) if len(group := norms.norm[bins == b]) > 1]
    spread = float(torch.stack([group.std() for group in groups]).mean()) if groups else torch.nan
    return NormSummary(
        float(stats.pearsonr(brier, norm).statistic),
        float(stats.spearmanr(brier, norm).statistic),
        spread,
        spread / float(norms.norm.std()),
    )


CELLS = 45
DENSITY_BINS = 60
DENSITY_PERCENT = 99.5  # percent of the norms that a density shows


def draw_norms(entries: Sequence[Norms]) -> Figure:
    """Draw the losses down and the epochs across, and a row of densities below them.

    Shades are counts on a logarithmic scale. A row has one scale of norms, as losses differ in theirs.
    """
    labels = list(dict.fromkeys(entry.label for entry in entries))
    by_label = {label: [e for e in entries if e.label == label] for label in labels}
    across = max(map(len, by_label.values()))
    figure, grid = panels((len(labels) + 1) * across, columns=across, height=2.2)
    for row, label in enumerate(labels):
        top = max(float(entry.norm.max()) for entry in by_label[label])
        for place, entry in enumerate(by_label[label]):
            axes = grid[row * across + place]
            axes.hexbin(
                entry.brier.numpy(), entry.norm.numpy(), gridsize=CELLS, bins="log",
                cmap="cividis_r", extent=(0, 2, 0, top), linewidths=0.1, mincnt=1,
            )  # fmt: skip
            axes.set(xlim=(0, 2), ylim=(0, 1.02 * top), title=f"{label}, epoch {entry.epoch}")
            tidied(axes, xlabel="Brier score", ylabel="gradient norm")
        for unused in grid[row * across + len(by_label[label]) : (row + 1) * across]:
            unused.remove()
    below = grid[len(labels) * across :]
    for axes, column in zip(below, zip_longest(*by_label.values()), strict=True):
        _draw_densities(axes, list(filter(None, column)), labels)
    legend_below(figure, below, columns=4)
    return figure


def _draw_densities(axes: Axes, entries: Sequence[Norms], labels: Sequence[str]) -> None:
    """Densities of the norms, all losses in one panel."""
    top = max(float(np.percentile(entry.norm, DENSITY_PERCENT)) for entry in entries)
    edges = np.linspace(0, top, DENSITY_BINS + 1)
    for entry in entries:
        norm, index = entry.norm.numpy(), labels.index(entry.label)
        density = np.histogram(norm, edges)[0] / (len(norm) * edges[1])
        axes.stairs(density, edges, label=entry.label, **look(index))
    title = f"epoch {', '.join(map(str, dict.fromkeys(e.epoch for e in entries)))}"
    axes.set(xlim=(0, top), yscale="log")
    logarithmic(axes.yaxis)
    tidied(axes, xlabel="gradient norm", ylabel="density", title=title)


def _compute_entries(
    runs: Sequence[Run], paths_by_epoch: Sequence[Mapping[int, Path]], *, trusted: bool
) -> Iterator[Norms]:
    """Compute the norms of each run after each epoch."""
    for run, label, paths in zip(runs, label_runs(runs), paths_by_epoch, strict=True):
        trained = load_trained_network(run, trusted=trusted)
        data = trained.data
        if data.task.name == MULTILABEL:
            raise UsageError(f"{run.folder} has several labels an example: it has no Brier score.")
        for path in paths.values() or [None]:
            if path is not None:
                trained.load(path)
            batches = data.plain_batches("train")
            norms = compute_gradient_norms(
                trained.backbone, trained.loss, batches, batch_size=data.batch_size
            )
            yield norms._replace(label=label, epoch=trained.epoch)


def build_table(entries: Sequence[Norms]) -> Grid:
    """Tabulate correlations and spread of each run and epoch."""
    names = ("Pearson", "Spearman", "std within bins", "over std of all", "mean norm")
    columns = [*headings("loss"), Heading("epoch", label=True), *map(Heading, names)]
    rows: list[list[PrintedNumber | str]] = []
    for entry in entries:
        numbers = (*summarise_norms(entry), float(entry.norm.mean()))
        texts = map(format, numbers, (".3f", ".3f", ".4g", ".3f", ".4g"))
        rows.append([entry.label, str(entry.epoch), *map(PrintedNumber, texts)])
    coupled = dict.fromkeys(entry.label for entry in entries if entry.coupled)
    explanation = (
        "couples the examples of a batch: N times an example's row of the batch's gradient"
    )
    footer = [
        f"{len(entries[0].norm)} training examples; gradient of the last linear layer",
        f"std within bins: mean over {N_BINS} bins of [0, 2], those with two examples or more",
        *(f"{label} {explanation}" for label in coupled),
    ]
    return Grid("Gradient norm against uncertainty", columns, rows, footer)


def _iterate_rows(entries: Sequence[Norms]) -> Iterator[FileRow]:
    """A row for each example."""
    for entry in entries:
        columns = (part.tolist() for part in entry[:3])
        for number, (target, brier, norm) in enumerate(zip(*columns, strict=True)):
            yield {
                "loss": entry.label, "epoch": entry.epoch, "example": number, "target": target,
                "brier": brier, "norm": norm, "batch_coupled": entry.coupled,
            }  # fmt: skip


def find_checkpoints(run: Run, epochs: Sequence[int]) -> dict[int, Path]:
    """Find the checkpoints that a run kept of epochs (`trace.checkpoints`), by epoch; all if none is named.

    Raises:
        UsageError: If one that is named is missing.
    """
    paths = run.checkpoints.glob("epoch=*.ckpt")
    names = {path.stem.removeprefix("epoch="): path for path in paths}
    by_epoch = {int(name): path for name, path in names.items() if name.isdecimal()}
    for epoch in epochs:
        if epoch not in by_epoch:
            has = f"it has {', '.join(map(str, sorted(by_epoch)))}" if by_epoch else "it has none"
            raise UsageError(
                f"{run.folder} has no checkpoint of epoch {epoch}, {has}: "
                f"train with --trace.checkpoints '[{epoch}]'."
            )
    return {epoch: by_epoch[epoch] for epoch in sorted(epochs or by_epoch)}


def read_epochs(text: str) -> list[int]:
    """Read different epochs from 1 on, as in `50,350`."""
    try:
        epochs = [integer_from("--epochs", int(part), 1) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"`--epochs` takes numbers from 1, as in 50,350; got {text}.") from None
    return list(dict.fromkeys(epochs))


def study(
    runs: Sequence[Run],
    paths_by_epoch: Sequence[Mapping[int, Path]],
    trusted: bool,
    output: Path | None,
) -> None:
    """Print the table of runs after some epochs, and write the norms of all examples."""
    total = sum(max(1, len(paths)) for paths in paths_by_epoch)
    computed = _compute_entries(runs, paths_by_epoch, trusted=trusted)
    entries = list(with_progress(computed, total, "checkpoints"))
    show(build_table(entries))
    write_numbers(output, list(_iterate_rows(entries)), lambda: draw_norms(entries))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="gradient_norm.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs"
    )
    parser.add_argument("--epochs", metavar="N,N", help="checkpoints of these epochs only, from 1")
    parser.add_argument("--trust", action="store_true", help="build classes that config.yaml names")
    parser.add_argument("--output", "-o", type=Path, help=".csv, .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        if options.output is not None:
            ends_in(".csv", *PICTURE_FORMATS)("--output", options.output)
        epochs = read_epochs(options.epochs) if options.epochs else []
        runs = find_finished_runs(options.runs)
        paths_by_epoch = [find_checkpoints(run, epochs) for run in runs]
        study(runs, paths_by_epoch, options.trust, options.output)


if __name__ == "__main__":
    main()

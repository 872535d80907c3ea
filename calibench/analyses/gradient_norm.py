"""Norm of the gradient of each example's loss with respect to the last linear layer, without a backward per example.

With z = W h + b, the gradient of l with respect to W is (dl/dz) h^T and to b it is dl/dz, so that its norm is
||dl/dz|| sqrt(||h||^2 + 1).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from calibench.analyses.arguments import labels_of, write
from calibench.analyses.features import outputs_of
from calibench.data import Batch
from calibench.files.set_names import MULTILABEL
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import FileRow
from calibench.messages.progress import with_progress
from calibench.plots.style import Axes, Figure, legend_below, logarithmic, look, panels, tidied
from calibench.runs import Run
from calibench.tables.grid import Grid, Heading, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.binning import equal_width_bin
from calibench.training.export import load_trained_network

Loss = Callable[[Tensor, Tensor], Tensor]

N_BINS = 20
ALONE = 8  # examples that are compared with themselves in a batch of one
SAME = 1e-6


class Norms(NamedTuple):
    """Class, Brier score sum_k (p_k - Y_k)^2 and gradient norm of every example (N,); whether the loss couples them.

    Of a run its label and the epoch.
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


def gradient_norms(
    network: nn.Module, loss: Loss, batches: Iterable[Batch], *, batch_size: int
) -> Norms:
    """Gradient norms of all examples with respect to the last linear layer of a network.

    For a loss that couples the examples of a batch they are N times the row of the gradient of the mean loss of N
    examples, of random batches. A network that does not end in a linear layer is a UsageError.
    """
    parts = [
        ((of.features.double().square().sum(1) + of.bias).sqrt(), of.logits.double(), of.target)
        for of in outputs_of(network, batches)
    ]
    scale, logits, target = (torch.cat(part) for part in zip(*parts, strict=True))
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))
    of_logits = torch.empty_like(scale)
    for rows in torch.split(order, batch_size):
        of_logits[rows] = _rows_of_gradient(loss, logits[rows], target[rows]).norm(dim=1)
    first = order[: min(batch_size, len(order))]
    brier = (logits.softmax(1) - F.one_hot(target, logits.shape[1])).square().sum(1)
    coupled = is_coupled(loss, logits[first], target[first])
    return Norms(target, brier, of_logits * scale, coupled)


def _rows_of_gradient(loss: Loss, logits: Tensor, target: Tensor) -> Tensor:
    """N times the gradient of the mean loss of N examples, (N, K)."""
    leaf = logits.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, target), leaf)
    return gradient * len(target)


def is_coupled(loss: Loss, logits: Tensor, target: Tensor) -> bool:
    """Whether the gradient of some example differs from that of the same example in a batch of one."""
    together = _rows_of_gradient(loss, logits, target)[:ALONE]
    rows = [slice(row, row + 1) for row in range(len(together))]
    alone = torch.cat([_rows_of_gradient(loss, logits[row], target[row]) for row in rows])
    return float((alone - together).abs().max()) > SAME * float(together.abs().max())


def summary(norms: Norms) -> NormSummary:
    """Correlations of norm and Brier score, and the spread of the norm within 20 bins of the Brier score's [0, 2]."""
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
SHOWN = 99.5  # percent of the norms that a density shows


def picture(entries: Sequence[Norms]) -> Figure:
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
    for axes, shown in zip(below, zip_longest(*by_label.values()), strict=True):
        _draw_densities(axes, list(filter(None, shown)), labels)
    legend_below(figure, below, columns=4)
    return figure


def _draw_densities(axes: Axes, entries: Sequence[Norms], labels: Sequence[str]) -> None:
    """Densities of the norms, all losses in one panel."""
    top = max(float(np.percentile(entry.norm, SHOWN)) for entry in entries)
    edges = np.linspace(0, top, DENSITY_BINS + 1)
    for entry in entries:
        norm, index = entry.norm.numpy(), labels.index(entry.label)
        density = np.histogram(norm, edges)[0] / (len(norm) * edges[1])
        axes.stairs(density, edges, label=entry.label, **look(index))
    title = f"epoch {', '.join(map(str, dict.fromkeys(e.epoch for e in entries)))}"
    axes.set(xlim=(0, top), yscale="log")
    logarithmic(axes.yaxis)
    tidied(axes, xlabel="gradient norm", ylabel="density", title=title)


def _entries(
    runs: Sequence[Run], found: Sequence[Mapping[int, Path]], *, trusted: bool
) -> Iterator[Norms]:
    """The norms of each run after each epoch."""
    for run, label, paths in zip(runs, labels_of(runs), found, strict=True):
        trained = load_trained_network(run, trusted=trusted)
        data = trained.data
        if data.task.name == MULTILABEL:
            raise UsageError(f"{run.folder} has several labels an example: it has no Brier score.")
        for path in paths.values() or [None]:
            if path is not None:
                trained.load(path)
            of = trained.backbone, trained.loss, data.plain_batches("train")
            norms = gradient_norms(*of, batch_size=data.batch_size)
            yield norms._replace(label=label, epoch=trained.epoch)


def table_of(entries: Sequence[Norms]) -> Grid:
    """Correlations and spread of each run and epoch."""
    names = ("Pearson", "Spearman", "std within bins", "over std of all", "mean norm")
    columns = [*headings("loss"), Heading("epoch", label=True), *map(Heading, names)]
    rows: list[list[PrintedNumber | str]] = []
    for of in entries:
        numbers = (*summary(of), float(of.norm.mean()))
        shown = map(format, numbers, (".3f", ".3f", ".4g", ".3f", ".4g"))
        rows.append([of.label, str(of.epoch), *map(PrintedNumber, shown)])
    coupled = dict.fromkeys(entry.label for entry in entries if entry.coupled)
    rows_of = "couples the examples of a batch: N times an example's row of the batch's gradient"
    footer = [
        f"{len(entries[0].norm)} training examples; gradient of the last linear layer",
        f"std within bins: mean over {N_BINS} bins of [0, 2], those with two examples or more",
        *(f"{label} {rows_of}" for label in coupled),
    ]
    return Grid("Gradient norm against uncertainty", columns, rows, footer)


def _numbers(entries: Sequence[Norms]) -> Iterator[FileRow]:
    """A row for each example."""
    for entry in entries:
        columns = (part.tolist() for part in entry[:3])
        for number, (target, brier, norm) in enumerate(zip(*columns, strict=True)):
            yield {
                "loss": entry.label, "epoch": entry.epoch, "example": number, "target": target,
                "brier": brier, "norm": norm, "batch_coupled": entry.coupled,
            }  # fmt: skip


def study(
    runs: Sequence[Run], found: Sequence[Mapping[int, Path]], trusted: bool, output: Path | None
) -> None:
    """Print the table of runs after some epochs, and write the norms of all examples."""
    made = _entries(runs, found, trusted=trusted)
    entries = list(with_progress(made, sum(max(1, len(paths)) for paths in found), "checkpoints"))
    show(table_of(entries))
    write(output, list(_numbers(entries)), lambda: picture(entries))

"""Reliability of single classes: how often a class is the true one against its probability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.reliability import FEW, Reliability, reliability
from calibench.plots.style import GREY, color, line, marker, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 12  # classes that a picture has room for


def class_reliability(
    probs: Sequence[npt.NDArray[np.float64]],
    targets: Sequence[npt.NDArray[np.int64]],
    *,
    n_bins: int = 15,
) -> list[Reliability]:
    """Compute the reliability diagram of every class against the rest, in which runs are pooled.

    Args:
        probs: Probabilities of each run, (N, K) each; runs with the same targets are of the same examples.
        targets: Classes of each run, (N,) each.
        n_bins: Bins of equal width.
    """
    pooled, target = np.concatenate(probs), np.concatenate(targets)
    sizes = [len(of) for of in targets]
    shared = all(np.array_equal(of, targets[0]) for of in targets)
    example = np.concatenate([np.arange(n) for n in sizes]) if shared else np.arange(len(target))
    run = np.repeat(np.arange(len(sizes)), sizes)
    return [
        reliability(of_class, target == k, n_bins=n_bins, example=example, run=run)
        for k, of_class in enumerate(pooled.T)
    ]


def worst_classes(found: Sequence[Sequence[Reliability]], number: int = SHOWN) -> list[int]:
    """The classes with the largest mean error over runs and several models, in their own order."""
    mean = np.mean([[of.ece.mean() for of in model] for model in found], axis=0)
    return sorted(np.argsort(-mean, kind="stable")[:number].tolist())


def draw_class(axes: Axes, diagrams: Mapping[str, Reliability], *, title: str = "") -> Axes:
    """Draw how often a class is the true one against its probability, a line for each label.

    Bars are the 95 % intervals; bins with fewer than five predictions are left out.
    """
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.6)
    for index, (label, of) in enumerate(diagrams.items()):
        seen = of.count >= FEW
        x, y = of.confidence[seen], of.accuracy[seen]
        axes.errorbar(
            x, y, np.maximum([y - of.low[seen], of.high[seen] - y], 0),  # rounding at 0 and 1
            color=color(index), linestyle=line(index), marker=marker(index),
            markersize=2.5, linewidth=0.9, elinewidth=0.5, label=label,
        )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), title=title)
    axes.set(xlabel="probability of the class", ylabel="share of the class")
    axes.set_aspect("equal")
    return tidied(axes)


def class_rows(
    diagrams: Sequence[Reliability], names: Sequence[str]
) -> Iterator[dict[str, object]]:
    """The numbers of every class and bin as rows of a CSV."""
    for name, diagram in zip(names, diagrams, strict=True):
        for row in diagram.rows():
            yield {"class": name, **row, "error": float(diagram.ece.mean())}

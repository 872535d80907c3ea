"""Confusion matrices, and errors of groups of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.style import tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 30  # with more classes, their names are not written


def confusion(
    predicted: npt.NDArray[np.int64], target: npt.NDArray[np.int64], *, num_classes: int
) -> npt.NDArray[np.float64]:
    """Confusion matrix, (K, K): the share of each true class (row) that is predicted as each class (column).

    The row of a class without examples is NaN.
    """
    counts = np.bincount(target * num_classes + predicted, minlength=num_classes**2)
    matrix = counts.reshape(num_classes, num_classes).astype(float)
    with np.errstate(invalid="ignore"):
        shares: npt.NDArray[np.float64] = matrix / matrix.sum(axis=1, keepdims=True)
    return shares


def draw_confusion(
    axes: Axes, matrix: npt.NDArray[np.float64], names: Sequence[str], *, title: str = ""
) -> Axes:
    """Draw a confusion matrix; with few classes, shares of half a percent or more are written into it."""
    k = len(matrix)
    axes.imshow(matrix, cmap="cividis", vmin=0, vmax=1)
    if k <= NAMED:
        axes.set_xticks(range(k), names, rotation=90)
        axes.set_yticks(range(k), names)
    if k <= NAMED // 2:
        for row, column in np.argwhere(matrix >= 0.005):
            share = matrix[row, column]
            shade = "black" if share > 0.6 else "white"
            text = f"{100 * share:.0f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=5, color=shade)
    axes.set(xlabel="predicted, % of the true class", ylabel="true", title=title)
    return tidied(axes)


def shot_groups(errors: npt.NDArray[np.float64], class_counts: Sequence[int]) -> dict[str, float]:
    """Mean class error of head, middle and tail: the thirds of classes with most to fewest training examples.

    Empty if the counts are unknown; NaN for a third whose classes have no test examples.
    """
    if len(class_counts) != len(errors):
        return {}
    order = np.argsort(-np.asarray(class_counts), kind="stable")
    thirds = zip(("head", "middle", "tail"), np.array_split(errors[order], 3), strict=True)
    return {
        name: float(np.nanmean(part)) if np.isfinite(part).any() else float("nan")
        for name, part in thirds
    }

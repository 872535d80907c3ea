"""Reliability diagrams in one call: `calibench.reliability(logits, labels)`, for a notebook or a script."""

from collections.abc import Sequence
from typing import Any

from calibench.evaluation.in_python import top_labels
from calibench.plots.reliability import draw_reliability
from calibench.plots.reliability import reliability as computed
from calibench.plots.smooth_reliability import smooth_reliability
from calibench.plots.style import Axes


def reliability(
    logits: Any,
    labels: Any,
    *,
    scores: str = "logits",
    classes: Sequence[str] | None = None,
    n_bins: int = 15,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a reliability diagram: the smooth curve, bins with their intervals, and where a calibrated model would lie.

    Args:
        logits: Logits (N, K), an array, tensor, data frame or nested lists; or confidences (N,) in [0, 1].
        labels: Their class indices or names (N,); of confidences, whether each was right.
        scores: `"logits"`, or `"probs"` if these are probabilities, of which a calibrator's may be drawn.
        classes: Names of the columns, where labels are names; by default those of a data frame.
        n_bins: Number of bins.
        title: The title.
        ax: Axes of matplotlib; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: If an array is not what it should be, or labels are unknown.
    """
    top = top_labels(logits, labels, scores=scores, classes=classes)
    confidence, correct = (part.numpy() for part in top)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(4, 4.5), layout="constrained")[1]
    diagram = computed(confidence, correct, n_bins=n_bins)
    return draw_reliability(ax, diagram, smooth_reliability(confidence, correct), title=title)

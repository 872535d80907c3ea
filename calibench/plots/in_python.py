"""Reliability diagrams in one call: `calibench.reliability(logits, labels)`, for a notebook or a script."""

from collections.abc import Sequence
from typing import Any

import torch

from calibench.evaluation.fitting import predicted_log_probabilities
from calibench.metrics.labelled import top_label
from calibench.plots.reliability import draw_reliability
from calibench.plots.reliability import reliability as computed
from calibench.plots.smooth_reliability import smooth_reliability
from calibench.plots.style import Axes
from calibench.predictions.files import Reader
from calibench.predictions.pairs import ConfidencePairs
from calibench.predictions.sets import sources_of


def reliability(
    logits: Any,
    labels: Any = None,
    *,
    scores: str | None = None,
    classes: Sequence[str] | None = None,
    n_bins: int = 15,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a reliability diagram: the smooth curve, bins with their intervals, and where a calibrated model would lie.

    Args:
        logits: Logits (N, K), an array, tensor, data frame or nested lists; or confidences (N,) in [0, 1]; or a file,
            which has its labels.
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
    (source,) = sources_of("labels", logits if labels is None else (logits, labels))
    read = Reader(scores=scores, classes=classes).read(source)
    if isinstance(read, ConfidencePairs):
        confidence, correct = read.confidence, read.correct
    else:
        if (read.target < 0).any():
            raise ValueError("`labels` must be known, and some are negative.")
        log_probs, target = predicted_log_probabilities(read), torch.from_numpy(read.target)
        confidence, correct = (part.numpy() for part in top_label(log_probs.exp(), target))
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(4, 4.5), layout="constrained")[1]
    diagram = computed(confidence, correct, n_bins=n_bins)
    return draw_reliability(ax, diagram, smooth_reliability(confidence, correct), title=title)

"""Reliability diagrams in one call: `calibench.reliability(logits, labels)`, for a notebook or a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from calibench.messages.checks import positive_integer
from calibench.plots.reliability import draw_reliability
from calibench.plots.reliability import reliability as computed
from calibench.plots.smooth_reliability import smooth_reliability
from calibench.plots.style import Axes
from calibench.verbs.load import reliability_pairs
from calibench.verbs.python_types import is_network, refuse_positional

if TYPE_CHECKING:
    from torch import nn

    from calibench.verbs.python_types import Labels, PredictionSet


@refuse_positional(2, "`calibench.reliability(logits, labels)`.")
def reliability(
    predictions: PredictionSet | nn.Module,
    labels: Labels | None = None,
    *,
    scores: Literal["logits", "probs"] | None = None,
    classes: Sequence[str] | None = None,
    pairs: bool | None = None,
    trust_rows: bool = False,
    n_bins: int = 15,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a reliability diagram: the smooth curve, bins with their intervals, and where a calibrated model would lie.

    With two classes, it shows the frequency of the second one against its probability; with more, accuracy against
    confidence.

    Args:
        predictions: Logits (N, K), an array, tensor, data frame or nested lists; or confidences (N,) in [0, 1]; or a
            file or run, which contains its labels; or a network, with a loader in place of `labels`.
        labels: Class indices or names (N,); for confidences, whether each prediction was right.
        scores: `"logits"`, or `"probs"` for probabilities, for example those of a calibrator.
        classes: Names of the columns (default: those of a data frame).
        pairs: Whether scores (N,) are confidences, and labels state whether each prediction was right (default: if
            labels are booleans); if not, scores (N,) are P(y = 1).
        trust_rows: Accept labels that seem to belong to other rows.
        n_bins: Number of bins.
        title: The title.
        ax: Axes of matplotlib (default: those of a new figure).

    Returns:
        The axes.

    Raises:
        ValueError: If an array is invalid, or labels are unknown.

    Examples:
        >>> import calibench
        >>> axes = calibench.reliability([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]], [0, 1, 1, 1])
        >>> axes.get_ylabel()
        'observed frequency of 1'
    """
    positive_integer("n_bins", n_bins)
    if is_network(predictions):
        from calibench.verbs.collect import collect_source

        predictions, labels = collect_source(predictions, labels, "labels"), None  # type: ignore[assignment]
    top_labels, event = reliability_pairs(
        predictions, labels, scores=scores, classes=classes, pairs=pairs, trust_rows=trust_rows
    )
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(4, 4.5), layout="constrained")[1]
    diagram = computed(top_labels.confidence, top_labels.correct, n_bins=n_bins)
    smooth = smooth_reliability(top_labels.confidence, top_labels.correct)
    return draw_reliability(ax, diagram, smooth, title=title, event=event)

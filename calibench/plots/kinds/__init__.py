"""The kinds of pictures that `calibench plot` draws of runs."""

from collections.abc import Callable

from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds import aggregates, calibrators, examples, losses
from calibench.plots.selection import Request

PICTURE_KINDS: dict[str, Callable[[Request], Picture]] = {
    "overview": calibrators.overview,
    "heat-map": calibrators.heat_map,
    "bars": calibrators.bars,
    "reliability": examples.reliability_picture,
    "class-reliability": examples.class_reliability_picture,
    "ece-bins": examples.error_by_bins,
    "roc": examples.roc_picture,
    "risk-coverage": examples.risk_coverage,
    "confusion": examples.confusion_matrices,
    "curves": losses.curves_picture,
    "tradeoff": losses.tradeoff,
    "over-under": losses.over_under_picture,
    "shift": losses.shift,
    "iqm": aggregates.interquartile_means,
    "improvement": aggregates.improvement,
    "critical-difference": aggregates.critical_difference,
}


def _line(kind: Callable[[Request], Picture]) -> str:
    """Line of a kind of picture: the first line of its docstring."""
    text = str(kind.__doc__).partition("\n")[0].removesuffix(".")
    return text if text[1].isupper() else text[0].lower() + text[1:]


# What each shows; after those of `calibench plot`, the pictures that are verbs of their own.
KIND_LINES = {
    **{name: _line(kind) for name, kind in PICTURE_KINDS.items()},
    "all": "every kind for which the results have data, with a page; calibench plot all --help",
    "learning-curves": "a metric against the number of calibration examples; calibench plot learning-curves --help",
}

OVER_TABLES = ("iqm", "improvement", "critical-difference")
"""Kinds that show all tables at once; the others are of one benchmark and backbone, or have a panel for each."""

BESIDE_RAW = ("reliability", "ece-bins")
"""Kinds that show raw probabilities beside those after a calibrator."""

KINDS_OF_EXAMPLES = ("reliability", "class-reliability", "ece-bins", "risk-coverage", "confusion")
"""Kinds that a file of test predictions can feed."""

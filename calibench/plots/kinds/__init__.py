"""The kinds of pictures that `calibench plot` draws of runs."""

from __future__ import annotations

from collections.abc import Callable

from calibench.plots.kinds.aggregates import improvement, interquartile_means
from calibench.plots.kinds.calibrators import bars, heat_map
from calibench.plots.kinds.confidence import over_under
from calibench.plots.kinds.examples import (
    class_reliability,
    confusion_matrices,
    error_by_bins,
    reliability,
    risk_coverage,
    roc,
)
from calibench.plots.kinds.losses import curves, shift, tradeoff
from calibench.plots.kinds.ranks import critical_difference
from calibench.plots.picture import Picture
from calibench.plots.request import Request

KINDS: dict[str, Callable[[Request], Picture]] = {
    "heat-map": heat_map,
    "bars": bars,
    "reliability": reliability,
    "class-reliability": class_reliability,
    "ece-bins": error_by_bins,
    "roc": roc,
    "risk-coverage": risk_coverage,
    "confusion": confusion_matrices,
    "curves": curves,
    "over-under": over_under,
    "tradeoff": tradeoff,
    "shift": shift,
    "iqm": interquartile_means,
    "improvement": improvement,
    "critical-difference": critical_difference,
}

OVER_TABLES = ("iqm", "improvement", "critical-difference")
"""Kinds that show all tables at once; the others are of one benchmark and backbone, or have a panel for each."""

BESIDE_RAW = ("reliability", "ece-bins")
"""Kinds that show raw probabilities beside those after a calibrator."""

"""Titles of metrics in tables, their units, and which direction is better."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibench.config.catalogue import attributes, panel


@dataclass(frozen=True)
class Metric:
    """How a metric is printed and compared.

    Attributes:
        title: Its name in a table.
        percent: Whether print shows it in percent (files hold fractions).
        decimals: Printed decimals.
        direction: -1 where less is better, 1 where more is, 0 where neither is.
        smallest: Lower end of its range.
        largest: Upper end of its range.
    """

    title: str
    percent: bool = False
    decimals: int = 3
    direction: int = -1
    smallest: float = 0.0
    largest: float = math.inf

    @property
    def label(self) -> str:
        """The title with its unit."""
        return f"{self.title} %" if self.percent else self.title

    def show(self, value: float, sign: str = "") -> str:
        """A value as a table prints it, in percent where the metric is; `sign` as in a format."""
        return f"{value * (100 if self.percent else 1):{sign}.{self.decimals}f}"


def _rate(title: str, direction: int = -1) -> Metric:
    return Metric(title, True, 2, direction, largest=1.0)


def _of_the_metrics(classes: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """Metrics by name, from the attributes of their classes, which are read from the source."""
    found: dict[str, Metric] = {}
    for said in classes.values():
        for part in (*(said["parts"] or {"": {}}).values(), *said["variants"].values()):
            of = {**said, **part}
            found[of["name"]] = _metric(of)
    return found


def _metric(said: Mapping[str, Any]) -> Metric:
    better = {None: 0, False: -1, True: 1}[said["higher_is_better"]]
    percent = bool(said["percent"])
    high = said.get("plot_upper_bound") or (1.0 if percent else math.inf)
    ends = (said.get("plot_lower_bound", -math.inf), high)
    return Metric(str(said["title"]), percent, 2 if percent else 3, better, *ends)


# Where an example has several labels, of all of them pooled or of one.
_OF_LABELS = {
    "auroc": Metric("AUROC", decimals=4, direction=1, largest=1.0),
    "average_precision": Metric("AP", decimals=4, direction=1, largest=1.0),
    "sigmoid_ece": _rate("sigmoid ECE"),
    "sigmoid_mce": _rate("sigmoid MCE"),
}

# Values that no metric class has: of labels, against a known posterior, of a run.
_OTHERS = {
    "posterior_nll": Metric("NLL to posterior"),
    "posterior_kl": Metric("KL to posterior"),
    "posterior_overconfident": _rate("overconfident inputs", direction=0),
    "posterior_underconfident": _rate("underconfident inputs", direction=0),
    "posterior_excess": _rate("overconfidence"),
    "posterior_shortfall": _rate("underconfidence"),
    **_OF_LABELS,
    "accuracy": _rate("Accuracy", direction=1),
    "seconds": Metric("s/run", decimals=1),
    "seconds_per_epoch": Metric("s/epoch", decimals=2),
    "peak_memory_mb": Metric("peak MB", decimals=0),
    "temperature": Metric("T", decimals=2, direction=0),
}

_CLASSES = attributes("metrics")

_OURS = _of_the_metrics(_CLASSES)
_LEADING = ("error", "nll", "brier", "nll_refinement", "nll_calibration")
_PANEL = tuple(_CLASSES[name]["name"] for name in panel())

# The metrics of one labelled set, in the order of a table: proper scores lead.
TEST_METRICS = (*_LEADING, *(name for name in _PANEL if name not in _LEADING))

METRICS = {name: _OURS[name] for name in TEST_METRICS} | _OURS | _OTHERS
MACRO = "macro_"  # begins the name of a mean over labels
_MACRO = {
    MACRO + name: replace(METRICS[name], title=f"{METRICS[name].title} macro")
    for name in ("nll", "brier", *_OF_LABELS)
}
METRICS |= _MACRO

# Of a set whose examples have several labels: the numbers of labels, and what its table leads with.
OF_LABELS = (*_OF_LABELS, *_MACRO)
LEADING_OF_LABELS = (
    "macro_auroc",
    "macro_average_precision",
    "nll",
    "brier",
    "macro_sigmoid_ece",
    "sigmoid_ece",
    "ece",
)


def metric_info(name: str) -> Metric:
    """How the metric `name` is printed; a metric that this package does not know keeps its name."""
    return METRICS.get(name) or Metric(
        name, decimals=4, direction=1 if name.endswith("auroc") else -1
    )


def add_described(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Add metrics that this package does not know, as results describe them."""
    METRICS.update({name: _metric(said) for name, said in described.items() if name not in METRICS})


def direction(name: str) -> int:
    """-1 where less is better, 1 where more is, 0 where neither is."""
    return metric_info(name).direction


# Those against class distributions that are known, of a set that has them.
POSTERIOR_METRICS = tuple(name for name in METRICS if name.startswith("posterior_"))


def metrics_of_set(rows: Iterable[Mapping[str, Any]], split: str) -> list[str]:
    """The metrics of a labelled set in the order of a table: the benchmark's own, then further ones."""
    own = (
        row for row in rows if row["split"] == split and not (row.get("score") or row.get("label"))
    )
    found = dict.fromkeys(row["metric"] for row in own)
    further = [name for name in found if name not in (*TEST_METRICS, *POSTERIOR_METRICS)]
    return [*(name for name in TEST_METRICS if name in found), *further]


def initials(name: str) -> str:
    """Initials of a class name, if there are several: `AdaptiveTemperatureScaling(n_bins=5)` -> `ATS(n_bins=5)`."""
    capitals = "".join(re.findall(r"\([^)]*\)|[A-Z]|#\d+", name))
    return capitals if len(capitals) > 1 else name

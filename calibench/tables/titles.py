"""What metrics are called in tables, how they are printed, and which direction is better."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """How a metric is printed and compared.

    Attributes:
        title: Its name in a table.
        percent: Whether print shows it in percent (files hold fractions).
        decimals: Printed decimals.
        direction: -1 where less is better, 1 where more is, 0 where it is no quality.
    """

    title: str
    percent: bool = False
    decimals: int = 3
    direction: int = -1

    @property
    def label(self) -> str:
        """The title with its unit."""
        return f"{self.title} %" if self.percent else self.title

    def show(self, value: float, sign: str = "") -> str:
        """A value as a table prints it, in percent where the metric is; `sign` as in a format."""
        return f"{value * (100 if self.percent else 1):{sign}.{self.decimals}f}"


def _rate(title: str, direction: int = -1) -> Metric:
    return Metric(title, True, 2, direction)


METRICS = {
    "error": _rate("Error"),
    "nll": Metric("NLL"),
    "brier": Metric("Brier"),
    "ece": _rate("ECE"),
    "adaptive_ece": _rate("AdaECE"),
    "classwise_ece": _rate("ClasswiseECE"),
    "adaptive_ece_reference": _rate("AdaECE as coded"),
    "classwise_ece_reference": _rate("ClasswiseECE as coded"),
    "smooth_ece": _rate("smECE"),
    "mce": _rate("MCE"),
    "posterior_nll": Metric("NLL to posterior"),
    "posterior_kl": Metric("KL to posterior"),
    "posterior_overconfident": _rate("overconfident inputs", direction=0),
    "posterior_underconfident": _rate("underconfident inputs", direction=0),
    "posterior_excess": _rate("overconfidence"),
    "posterior_shortfall": _rate("underconfidence"),
    "ood_auroc": _rate("OOD AUROC", direction=1),
    "ood_fpr95": _rate("OOD FPR95"),
    "accuracy": _rate("Accuracy", direction=1),
    "seconds": Metric("s/run", decimals=1),
    "seconds_per_epoch": Metric("s/epoch", decimals=2),
    "peak_memory_mb": Metric("peak MB", decimals=0),
    "temperature": Metric("T", decimals=2, direction=0),
}


def metric_info(name: str) -> Metric:
    """How the metric `name` is printed: one that this package does not know by its own name."""
    return METRICS.get(name) or Metric(
        name, decimals=4, direction=1 if name.endswith("auroc") else -1
    )


def direction(name: str) -> int:
    """-1 where less is better, 1 where more is, 0 where the metric is no quality."""
    return metric_info(name).direction


# The metrics of one labelled set, in the order of a table.
TEST_METRICS = ("error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece")

# Those against class distributions that are known, of a set that has them.
POSTERIOR_METRICS = tuple(name for name in METRICS if name.startswith("posterior_"))


def initials(name: str) -> str:
    """`AdaptiveTemperatureScaling(n_bins=5)` -> `ATS(n_bins=5)`; a name with fewer than two capitals stays."""
    capitals = "".join(re.findall(r"\([^)]*\)|[A-Z]|#\d+", name))
    return capitals if len(capitals) > 1 else name

"""What a leaderboard can show: metrics with titles and units, columns by a short spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, Self

from calibench.tables.titles import METRICS, Metric, initials

RAW = "raw"
TEST = "test"
VAL = "val"
ANY = "*"


class Key(NamedTuple):
    """Where a number of a run belongs; `score` is the uncertainty score of an OOD metric."""

    metric: str
    split: str = TEST
    calibrator: str = RAW
    score: str | None = None


COSTS = ("seconds", "seconds_per_epoch", "peak_memory_mb")

DEFAULT_COLUMNS = (
    "error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "ece@*",
    "ood_auroc", "seconds",
)  # fmt: skip

_SPELLING = re.compile(
    r"(?P<metric>[\w-]+)(:(?P<score>[\w-]+))?(/(?P<split>[^@/]+))?(@(?P<calibrator>[^@]+))?"
)


@dataclass(frozen=True)
class Column:
    """A column: a metric, of which split, with which score, after which calibrator.

    Attributes:
        metric: The metric's key in metrics.json.
        split: A split or set; None is the test split, or the mean over the OOD sets.
        calibrator: `raw`, a calibrator's name, or `*` for every calibrator.
        score: Uncertainty score of an OOD metric; None is the first one in the file.
        paper: Whose published numbers these are; None for our own.
    """

    metric: str
    split: str | None = None
    calibrator: str = RAW
    score: str | None = None
    paper: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `metric[:score][/split][@calibrator]`.

        Raises:
            ValueError: If the text is not of this form.
        """
        match = _SPELLING.fullmatch(text)
        if match is None:
            form = "metric[:score][/split][@calibrator], as in ece@TemperatureScaling"
            raise ValueError(f"a column is spelled {form}; got `{text}`.")
        return cls(match["metric"], match["split"], match["calibrator"] or RAW, match["score"])

    def __str__(self) -> str:
        score = f":{self.score}" if self.score else ""
        split = f"/{self.split}" if self.split else ""
        calibrator = f"@{self.calibrator}" if self.calibrator != RAW else ""
        paper = f"={self.paper}" if self.paper else ""
        return f"{self.metric}{score}{split}{calibrator}{paper}"

    def after(self, calibrator: str) -> Column:
        """The same column after another calibrator."""
        return replace(self, calibrator=calibrator)

    def by(self, paper: str) -> Column:
        """The same column with a paper's numbers."""
        return replace(self, paper=paper)

    def holds(self, key: Key) -> bool:
        """Whether a number of a run belongs into this column."""
        return (
            key.metric == self.metric
            and self.calibrator in (ANY, key.calibrator)
            and self.split in (None, key.split)
            and self.score in (None, key.score)
        )

    @property
    def info(self) -> Metric:
        """How the metric is printed; a metric this package does not know is shown as it is."""
        return metric_info(self.metric)

    @property
    def title(self) -> str:
        """Title with score, split, calibrator and unit: `ECE % +TS`."""
        parts = [
            self.info.title,
            "%" if self.info.percent else "",
            self.score or "",
            self.split or "",
        ]
        calibrator = f"+{initials(self.calibrator)}" if self.calibrator != RAW else ""
        return " ".join(part for part in (*parts, calibrator, self.paper or "") if part)

    def show(self, value: float) -> str:
        """One value as a table prints it."""
        return f"{value * (100 if self.info.percent else 1):.{self.info.decimals}f}"


@cache
def metric_info(name: str) -> Metric:
    """How the metric `name` is printed: `ece_20` as `ece`, an unknown one by its own name."""
    base, _, bins = name.rpartition("_")
    if name not in METRICS and bins.isdigit() and base in METRICS:
        return replace(METRICS[base], title=f"{METRICS[base].title}({bins})")
    return METRICS.get(name) or Metric(
        name, decimals=4, direction=1 if name.endswith("auroc") else -1
    )

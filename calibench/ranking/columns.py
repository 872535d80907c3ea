"""Columns of a leaderboard, and the short spelling of a column on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import NamedTuple, Self

from calibench.messages.errors import UsageError, near_matches
from calibench.messages.spelling import spell_argument
from calibench.metrics import METRIC_CLASSES, TABLE
from calibench.statistics.number import RAW, TEST, VAL, Key
from calibench.tables.metric_titles import (
    METRICS,
    SHOWN_METRICS,
    Title,
    initials,
    metric_info,
    metric_named,
)

ANY = "*"  # stands for every calibrator
BEST = "best"
"""Stands for the calibrator of each row: the one with the lowest cross-fitted NLL of validation."""

DERIVED_FROM = {"accuracy": "error"}
"""Metrics that are one less another: no file has them."""

COSTS = ("seconds", "seconds_per_epoch", "peak_memory_mb")

NEAR, FAR, SHIFT = "near", "far", "shift"
SET_GROUPS = (NEAR, FAR, SHIFT)
_SPLITS = (TEST, VAL, "train")  # which somebody may write before a metric, as logs do
"""Groups of sets, over which a column of that split is the mean: near and far OOD, shifted test sets."""

BEST_NLL = "nll@best"
"""The column that ranks a table unless another one is named."""

ONE_LINE_COLUMNS = ("nll@best", "brier@best", "ece@best", "nll", "ece", "error")
"""The columns of a table with one line a row, in 80 columns of text."""

RAW_ONE_LINE_COLUMNS = ("nll", "brier", "ece", "error")
"""The same of rows without validation predictions, which no calibrator is fitted on."""

# Proper scores lead, then calibration errors; a column that no run has is left out.
DEFAULT_COLUMNS = (
    BEST_NLL, "error", "nll", "nll@TemperatureScaling", "nll@TemperatureScaling(shrinkage=False)",
    "brier@TemperatureScaling", "brier@TemperatureScaling(shrinkage=False)", "nll_refinement", "nll_calibration",
    *(name for name in SHOWN_METRICS if name.endswith("ece")),
    "nll@*", "ece@*", f"ood_auroc/{NEAR}", f"ood_auroc/{FAR}", "seconds",
)  # fmt: skip

_SPELLING = re.compile(
    r"(?P<metric>[^:/@+]+?)(_(?P<n_bins>\d+))?( ?%)? ?"
    r"(:(?P<score>[\w -]+))?(/(?P<split>[^@/+]+))?( ?[@+](?P<calibrator>[^@]+))?"
)


class Column(NamedTuple):
    """A column: a metric of a split after a calibrator, with its score and number of bins.

    Attributes:
        metric: The metric's name in metrics.json.
        split: A split or set, or one of `SET_GROUPS`; None is the test split, or the mean over the OOD sets.
        calibrator: `raw`, a calibrator's name or its initials, `best` for that of each row, or `*` for every one.
        score: Uncertainty score of an OOD metric, None is the first one in the file; or one of several labels.
        n_bins: Number of bins of a binned metric; None is the number that the runs put first.
        paper: Whose published numbers these are; None for our own.
    """

    metric: str
    split: str | None = None
    calibrator: str = RAW
    score: str | None = None
    n_bins: int | None = None
    paper: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `metric[_bins][:score][/split][@calibrator]`; also as tables spell it, `ECE(20) % +TS`.

        Raises:
            ValueError: If the text is not of this form.
        """
        if metric_named(text) in METRICS:
            return cls(metric_named(text))
        match = _SPELLING.fullmatch(re.sub(r"\((\d+)\)", r"_\1", text))
        if match is None:
            form = "metric[_bins][:score][/split][@calibrator], as in ece@TemperatureScaling"
            raise ValueError(f"a column is spelled {form}; got `{text}`.")
        metric, n_bins = metric_named(match["metric"]), match["n_bins"]
        if n_bins and metric not in METRICS:  # someone else's, whose name ends in a number
            metric, n_bins = f"{metric}_{n_bins}", None
        place = (match["split"], match["calibrator"] or RAW, match["score"])
        return cls(metric, *place, int(n_bins) if n_bins else None)

    def __str__(self) -> str:
        n_bins = f"_{self.n_bins}" if self.n_bins else ""
        score = f":{self.score}" if self.score else ""
        split = f"/{self.split}" if self.split else ""
        calibrator = f"@{self.calibrator}" if self.calibrator != RAW else ""
        paper = f"={self.paper}" if self.paper else ""
        return f"{self.metric}{n_bins}{score}{split}{calibrator}{paper}"

    def after(self, calibrator: str) -> Column:
        """Replace the calibrator."""
        return self._replace(calibrator=calibrator)

    def holds(self, key: Key) -> bool:
        """Whether the number with this key belongs into this column."""
        groups = SET_GROUPS if key.score else ()
        scores = (key.label,) if key.label else (None, key.score)
        return (
            key.metric == DERIVED_FROM.get(self.metric, self.metric)
            and self.calibrator in (ANY, BEST, key.calibrator)
            and self.split in (None, key.split, *groups)
            and self.score in scores
            and self.n_bins in (None, key.n_bins)
        )

    @property
    def info(self) -> Title:
        """How the metric is printed; one that this package does not know is printed as it is."""
        return metric_info(self.metric)

    @property
    def title(self) -> str:
        """Title with number of bins, score, split, calibrator and unit: `ECE(20) % +TS`."""
        parts = [
            f"{self.info.title}({self.n_bins})" if self.n_bins else self.info.title,
            "%" if self.info.percent else "",
            self.score or "",
            self.split or "",
        ]
        calibrator = f"+{initials(self.calibrator)}" if self.calibrator != RAW else ""
        if self.calibrator == BEST:
            calibrator = "calibrated"
        return " ".join(part for part in (*parts, calibrator, self.paper or "") if part)


def with_full_names(columns: Iterable[Column], calibrators: Iterable[str]) -> list[Column]:
    """Write out the initials of calibrators: `nll@TS` becomes `nll@TemperatureScaling` where runs have that one."""
    by_initials: dict[str, str] = {}
    names = list(calibrators)
    for name in names:
        by_initials.setdefault(initials(name).casefold(), name)
    by_initials |= {name.casefold(): name for name in [*names, RAW, ANY, BEST]}
    return [
        column.after(by_initials.get(column.calibrator.casefold(), column.calibrator))
        for column in columns
    ]


def find_missing_columns(columns: Iterable[Column], keys: Set[Key]) -> list[Column]:
    """The columns that none of the numbers of some runs belongs into, by their keys; none where there is no number."""
    return [column for column in columns if keys and not any(map(column.holds, keys))]


def check_columns_exist(columns: Iterable[Column], keys: Set[Key]) -> None:
    """Raise a UsageError for a column that none of the numbers of some runs belongs into, by the keys of all."""
    for column in find_missing_columns(columns, keys):
        metric = DERIVED_FROM.get(column.metric, column.metric)
        keys_of_metric = [key for key in keys if key.metric == metric]
        if not keys_of_metric and column.metric not in COSTS:
            metrics = sorted({key.metric for key in keys} | {*COSTS, *DERIVED_FROM})
            near = "" if column.metric in METRICS else near_matches(column.metric, metrics)
            near = near or f"; runs have {', '.join(metrics)}"
            entry = TABLE.get(METRIC_CLASSES.class_of(column.metric))
            if column.metric in METRICS and entry is not None and entry.of_labelled_sets:
                near += f" (of one run: `evaluate` with {spell_argument('metrics', column.metric)})"
            first, *words = column.metric.lower().split()
            if words and first in metrics:  # `nll after TS`
                near = f"; did you mean {first}@{column.metric.split()[-1]}?"
            if column.metric in _SPLITS and column.split:
                near = f"; did you mean {column.split}/{column.metric}? (a set stands behind its metric)"
            raise UsageError(f"no run has the metric `{column.metric}`{near}")
        calibrators = sorted({key.calibrator for key in keys_of_metric})
        if calibrators and column.calibrator not in (*calibrators, ANY, BEST):
            columns_of_runs = ", ".join(f"{column.metric}@{initials(name)}" for name in calibrators)
            near = near_matches(column.calibrator, calibrators) or f"; runs have {columns_of_runs}"
            raise UsageError(f"no run has the column {column}{near}")
        bins = sorted({key.n_bins for key in keys_of_metric if key.n_bins})
        if column.n_bins and bins and column.n_bins not in bins:
            columns_of_runs = ", ".join(f"{column.metric}_{n_bins}" for n_bins in bins)
            raise UsageError(f"no run has the column {column}; runs have {columns_of_runs}")
        places = ", ".join(sorted(set().union(*map(_parts_of_key, keys_of_metric))))
        raise UsageError(
            f"no run has the column {column} (sets, calibrators, scores and labels: {places})."
        )


def _parts_of_key(key: Key) -> set[str]:
    """The set, the calibrator, the score and the label of a key, in which numbers of one metric differ."""
    return {part for part in (key.split, key.calibrator, key.score, key.label) if part}

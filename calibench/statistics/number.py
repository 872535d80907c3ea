"""The key of a number: which metric of which set, with how many bins, after which calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

RAW = "raw"
TEST = "test"
VAL = "val"


class Key(NamedTuple):
    """Key of a number of a run.

    Attributes:
        metric: Name of the metric, `ece`, whatever its number of bins.
        split: The split or set that was scored.
        calibrator: `raw`, or the calibrator that the probabilities come from.
        score: Uncertainty score of an out-of-distribution metric.
        n_bins: Number of bins of a binned metric.
        label: The class or finding that it is of, where it is not of all of them.
    """

    metric: str
    split: str = TEST
    calibrator: str = RAW
    score: str | None = None
    n_bins: int | None = None
    label: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The key of a row of metrics.json; the name `ece_20` that calibench 0.1 gave to 20 bins is `ece`."""
        n_bins = row.get("n_bins")
        metric = row["metric"] if n_bins is None else row["metric"].removesuffix(f"_{n_bins}")
        place = (row["split"], row["calibrator"], row.get("score"), n_bins, row.get("label"))
        return cls(metric, *place)

"""Verdicts on calibration errors: whether one is above its floor, what a calibrated model gets at this many examples.

The floor and the p-value of "perfectly calibrated" are made by consistency resampling (Broecker and Smith 2007), see
`calibench.evaluation.floors`; here is what follows from them, without torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Self

from calibench.statistics.seeds import LEVEL


class Verdict(NamedTuple):
    """Floor of a calibration error, and the p-value of "perfectly calibrated".

    Attributes:
        floor: What a calibrated model with the same confidences gets on average at this number of examples.
        p: The share of calibrated models whose value is as large or larger.
        overconfidence: Of a top-label error, the mean confidence less the accuracy.
    """

    floor: float
    p: float
    overconfidence: float | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self | None:
        """The verdict of a row of metrics.json; None where it has none, as in files of calibench 0.1."""
        floor, p = row.get("floor"), row.get("p")
        if floor is None or p is None:
            return None
        return cls(float(floor), float(p), row.get("overconfidence"))

    def floor_and_p(self) -> dict[str, float]:
        """The floor and the p-value by name, which means over seeds have too."""
        return {"floor": self.floor, "p": self.p}

    @property
    def marked(self) -> bool:
        """Whether the value is marked by a small circle: it cannot be told from perfect calibration."""
        return self.p > LEVEL


def verdict_of_mean(mean: float, std: float, n: int) -> Verdict | None:
    """The verdict on a calibration error that is a mean over examples, 0 or less for any calibrated model.

    Args:
        mean: The error.
        std: Standard deviation of the examples' values.
        n: Number of examples.

    Returns:
        The floor 0, and the p-value of a mean above it, by the normal distribution; None where they are not finite.
    """
    if not (math.isfinite(mean) and math.isfinite(std)):
        return None
    return Verdict(0.0, math.erfc(mean / std * math.sqrt(n / 2)) / 2 if std else float(mean <= 0))


def verdict_over_seeds(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a mean over seeds: the mean floor, and twice the median p-value.

    The seeds' p-values depend on each other, as their test labels are the same: twice the median is valid under any
    dependence (Meinshausen, Meier and Buehlmann 2009).

    Raises:
        ValueError: If there are none.
    """
    if not verdicts:
        raise ValueError("`verdicts` must hold at least one, got [].")
    floor = math.fsum(verdict.floor for verdict in verdicts) / len(verdicts)
    p_values = [verdict.p for verdict in verdicts]
    return Verdict(floor, p_values[0] if len(p_values) == 1 else min(1.0, 2 * median(p_values)))

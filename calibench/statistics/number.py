"""Numbers of an evaluation, as they travel from scoring to tables and files: keys, values, verdicts.

A verdict says whether a calibration error is above its floor, what a calibrated model gets at this many examples. Floor
and p-value are made by consistency resampling (Broecker and Smith 2007), see `calibench.evaluation.floors`; here is
what follows from them, without torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple, Self

from calibench.messages.printable_text import FileRow
from calibench.statistics.seeds import LEVEL

_ONE_SIDED = 0.5  # share of its error from which a model is over- or underconfident as a whole

RAW = "raw"
TS = "TemperatureScaling"
TEST = "test"
VAL = "val"
WITHOUT_POWER = frozenset(
    (
        "nll_calibration",
        "brier_calibration_crossfit",
        "variational_error",
        "variational_error_l2",
        "variational_overconfidence",
        "variational_underconfidence",
    )
)
"""Metrics that refit a temperature alone: they see no fault class by class, so that they are never marked."""
CROSS_FITTED = "nll_cross_fitted"
"""The NLL of validation after a calibrator that was fitted on the other folds of it."""


class Verdict(NamedTuple):
    """Floor of a calibration error, and the p-value of "perfectly calibrated".

    Attributes:
        floor: What a calibrated model with the same confidences gets on average at this number of examples.
        p: The share of calibrated models whose value is as large or larger.
        overconfidence: Of a top-label error, the mean confidence less the accuracy.
        limit: What 95 % of calibrated models do not exceed: values above it are marked by no circle. None where it is
            not known, as of what files keep.

    Examples:
        >>> from calibench.statistics import Verdict
        >>> Verdict(floor=0.03, p=0.002).marked  # significantly miscalibrated: no circle
        False
    """

    floor: float
    p: float
    overconfidence: float | None = None
    limit: float | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self | None:
        """The verdict of a row of metrics.json; None where it has none."""
        floor, p = row.get("floor"), row.get("p")
        if floor is None or p is None:
            return None
        return cls(float(floor), float(p), row.get("overconfidence"))

    def floor_and_p(self) -> dict[str, float]:
        """The floor and the p-value by name, which means over seeds have too."""
        return {"floor": self.floor, "p": self.p}

    @property
    def marked(self) -> bool:
        """Whether the value is marked by a small circle: it is consistent with perfect calibration."""
        return self.p > LEVEL


class Key(NamedTuple):
    """Key of a number: which metric of which set, with how many bins, after which calibrator.

    Attributes:
        metric: Name of the metric, `ece`, whatever its number of bins.
        calibrator: `raw`, or the calibrator that the probabilities come from.
        score: Uncertainty score of an out-of-distribution metric.
        n_bins: Number of bins of a binned metric.
        label: The class or finding that it is of, where it is not of all of them.
        model: Name of the model, where there are several.

    Examples:
        >>> from calibench.statistics import Key
        >>> Key("ece", calibrator="TemperatureScaling", n_bins=15)
        Key(metric='ece', split='test', calibrator='TemperatureScaling', score=None, n_bins=15, label=None, model='')
    """

    metric: str
    split: str = TEST
    calibrator: str = RAW
    score: str | None = None
    n_bins: int | None = None
    label: str | None = None
    model: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The key of a row of metrics.json."""
        optional = (row.get("score"), row.get("n_bins"), row.get("label"), row.get("model", ""))
        return cls(row["metric"], row["split"], row["calibrator"], *optional)


@dataclass(frozen=True)
class Number:
    """A number of an evaluation.

    Attributes:
        value: It; NaN where it does not exist.
        interval: The ends of its 95 % interval; None without one.
        verdict: Of a calibration error, its floor and the p-value of "perfectly calibrated"; None where there are none.
        best: Whether its calibrator may be the best; None where calibrators were not compared by it.

    Examples:
        >>> from calibench.statistics import Key, Number
        >>> number = Number(Key("ece", n_bins=15), 0.042, interval=(0.031, 0.055))
        >>> number.value, number.interval
        (0.042, (0.031, 0.055))
    """

    key: Key
    value: float
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    best: bool | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The number in a row of a file, as `to_dict` gives it."""
        value, low, high = (row.get(name) for name in ("value", "low", "high"))
        interval = None if low is None or high is None else (float(low), float(high))
        number = math.nan if value is None else float(value)
        return cls(Key.from_row(row), number, interval, Verdict.from_row(row), row.get("best"))

    @property
    def is_marked(self) -> bool:
        """Whether the value is marked by a small circle: a test with power against what it measures sees nothing."""
        has_power = self.key.metric not in WITHOUT_POWER
        return has_power and self.verdict is not None and self.verdict.marked

    def __float__(self) -> float:
        return self.value

    def with_key(self, **place: Any) -> Self:
        """This number with other parts of its key."""
        return replace(self, key=self.key._replace(**place))

    def in_words(self, n: int) -> str:
        """The verdict on a top-label calibration error of n examples: `overconfident by 3.1 points (limit 2.6)`, say.

        The floor stands in place of a limit that is not known.
        """
        verdict = self.verdict
        if verdict is None:
            return f"no verdict at n = {n}"
        if verdict.marked:
            return f"consistent with perfect calibration (n = {n:,})"
        bound = "floor" if verdict.limit is None else "limit"
        beyond = verdict.floor if verdict.limit is None else verdict.limit
        by = f"by {100 * self.value:.1f} points ({bound} {100 * beyond:.1f})"
        excess = (verdict.overconfidence or 0.0) / self.value
        if abs(excess) < _ONE_SIDED:  # the value is positive, as it is above its floor
            return f"off {by}, in no overall direction"
        return f"{'over' if excess > 0 else 'under'}confident {by}"

    def to_dict(self) -> FileRow:
        """A row of a file: what its key says, and what there is of the rest."""
        key, verdict = self.key._asdict(), self.verdict._asdict() if self.verdict else {}
        low, high = self.interval or (None, None)
        verdict["limit"] = None  # what is printed of a value just computed, not kept
        numbers = {"value": self.value, **verdict, "low": low, "high": high, "best": self.best}
        ordered = {name: key[name] for name in ("model", "split", "calibrator", *key)}
        return {k: v for k, v in (ordered | numbers).items() if v is not None and v != ""}


def verdict_of_mean(mean: float, std: float, n: int) -> Verdict | None:
    """The verdict on a calibration error that is a mean over examples, 0 or less for any calibrated model.

    Returns:
        The floor 0, and the p-value of a mean above it, by the normal distribution; None where they are not finite.

    Examples:
        >>> from calibench.statistics import verdict_of_mean
        >>> verdict_of_mean(0.02, 0.004, 3).marked  # five standard errors above 0 or more: significant
        False
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

    Examples:
        >>> from calibench.statistics import Verdict, verdict_over_seeds
        >>> verdict_over_seeds([Verdict(0.031, 0.2), Verdict(0.029, 0.6), Verdict(0.030, 0.4)])
        Verdict(floor=0.03, p=0.8, overconfidence=None, limit=None)
    """
    if not verdicts:
        raise ValueError("`verdicts` must hold at least one, got [].")
    floor = math.fsum(verdict.floor for verdict in verdicts) / len(verdicts)
    p_values = [verdict.p for verdict in verdicts]
    return Verdict(floor, p_values[0] if len(p_values) == 1 else min(1.0, 2 * median(p_values)))

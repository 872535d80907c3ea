"""The best pair of loss and calibrator on validation, and its comparison with other pairs on test.

Nothing is selected on test: the calibrator of each loss, and then the loss, is the one with the lowest NLL on the
validation split, on which calibrators are cross-fitted. The pairs are then compared by their NLL on test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any, Literal, Protocol

from calibench.messages.printable_text import count_of
from calibench.ranking.records import Record
from calibench.statistics import FEWEST_SEEDS, LEVEL, comparison_with_best
from calibench.statistics.number import CROSS_FITTED, RAW, VAL, Key
from calibench.tables.metric_titles import initials

ANSWER_METRICS = ("nll", CROSS_FITTED)
"""The metrics that an answer is made of."""

NO_BEST_PAIR = (
    "best on validation: unknown (no run has its cross-fitted NLL, "
    "which needs 20 validation examples or more)"
)
REFERENCE_PAIR = ("CrossEntropyLoss", "TemperatureScaling")
"""The loss and the calibrator, of whatever arguments, that every answer is compared with."""

SeedVerdict = Literal["worse", "better", ""]
_WORDS: dict[SeedVerdict, str] = {
    "worse": "significantly worse",
    "better": "significantly better",
    "": "not significantly different",
}


@dataclass(frozen=True)
class LossAndCalibrator:
    """A loss, by the label of its row, and a calibrator or `raw`.

    Attributes:
        name: Both as a sentence has them: `Brier + TS`, `Brier (raw)`.
        val: Cross-fitted NLL of validation, the mean over seeds.
        seeds: NLL of test of each seed.
        told: Whether it differs significantly from the best on validation, by the NLL of test; empty if not compared.
    """

    loss: str
    calibrator: str
    name: str
    val: float
    seeds: tuple[float, ...]
    told: SeedVerdict = ""

    @property
    def test(self) -> float:
        """NLL of test, the mean over seeds."""
        return fmean(self.seeds)


@dataclass(frozen=True)
class Answer:
    """The best pair of loss and calibrator on validation, and what it is compared with.

    Attributes:
        best: The pair; None where no run has the cross-fitted NLL of validation.
        rivals: The best pair of another loss, then cross-entropy with temperature scaling, where they are others.
        of_losses: The best pair of each loss that was compared, best first.
        without: How many rows were not compared, because seeds or the cross-fitted NLL are missing.
        better_on_test: How many of the other losses are significantly better on test: validation chose wrong.
    """

    best: LossAndCalibrator | None = None
    rivals: Sequence[LossAndCalibrator] = ()
    of_losses: Sequence[LossAndCalibrator] = ()
    without: int = 0
    better_on_test: int = 0

    def __str__(self) -> str:
        """The sentence that leads a table."""
        if self.best is None:
            return NO_BEST_PAIR
        compared = len(self.of_losses)
        share = f" (of {compared} of {compared + self.without} losses)" if self.without else ""
        number = len(self.best.seeds)
        seeds = f"{number} seed{'s' * (number > 1)}"
        first = (
            f"best on validation{share}: {self.best.name}, test NLL {self.best.test:.3f} ({seeds})"
        )
        if not self.rivals:
            return first
        rivals = (f"{rival.name} {rival.test:.3f} ({_WORDS[rival.told]})" for rival in self.rivals)
        sentence = f"{first}; for comparison, {', '.join(rivals)}"
        if not self.better_on_test:
            return sentence
        others = count_of(self.better_on_test, "other loss is", "other losses are")
        return f"{sentence}; validation may not represent the test set, where {others} significantly better"

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, with its sentence."""
        return {"sentence": str(self), **asdict(self)}


class RowOfRuns(Protocol):
    """The runs of one loss with one configuration, by seed."""

    label: str
    loss: str
    records: Mapping[int, Record]


def choose_best_pair(table_rows: Sequence[RowOfRuns]) -> Answer:
    """Choose the best pair of loss and calibrator on validation, and compare it with others on test.

    Means are over the seeds that all compared rows share; rows with fewer than three seeds are left out where others
    have as many. Two pairs differ significantly by the limits of `comparison_with_best` for as many rows K as there are
    losses, and one more for cross-entropy with temperature scaling, at (K - 1) / (K + 1) of the level: among few, which
    one comes out ahead is itself chance. Of equal losses 95 to 98 % of tables tell none from another, whatever
    validation and test have in common (simulated).
    """
    rows = [row for row in table_rows if row.records]
    able = [row for row in rows if _pairs(row, list(row.records))]
    compared = [row for row in able if len(row.records) >= FEWEST_SEEDS] or able
    seed_sets = [set(row.records) for row in compared]
    seeds = sorted(set.intersection(*seed_sets)) if seed_sets else []
    if not seeds:
        return Answer(without=len(rows))
    pairs = [_pairs(row, seeds) for row in compared]
    val = attrgetter("val")
    best, *others = of_losses = sorted((min(of_row, key=val) for of_row in pairs), key=val)
    of_reference = [
        pair
        for row, of_row in zip(compared, pairs, strict=True)
        for pair in of_row
        if (row.loss, pair.calibrator.partition("(")[0]) == REFERENCE_PAIR
    ]
    reference = [min(of_reference, key=val)] if of_reference else []
    rivals = [pair for pair in dict.fromkeys([*others[:1], *reference]) if pair != best]
    judged = _compare_with_best(list(dict.fromkeys([*of_losses, *reference])))
    better = sum(judged[pair] == "better" for pair in others)
    judged_rivals = [replace(rival, told=judged[rival]) for rival in rivals]
    return Answer(best, judged_rivals, of_losses, len(rows) - len(compared), better)


def choose_row_calibrator(row: RowOfRuns) -> str | None:
    """The calibrator of a row, or `raw`: the one with the lowest cross-fitted NLL of validation, the mean over seeds.

    None where not every run of the row has such numbers. No number of the test set takes part.
    """
    records = list(row.records.values())
    if not records:
        return None
    keys = [key for key in records[0].values if key.metric == CROSS_FITTED]
    nll = {
        key.calibrator: fmean(record.values.get(key, math.nan) for record in records)
        for key in keys
    }
    finite = {name: value for name, value in nll.items() if not math.isnan(value)}
    return min(finite, key=finite.__getitem__) if finite else None


def name_pair(label: str, calibrator: str) -> str:
    """The name of a loss, or model, with its calibrator: `Brier + TS`, or `Brier (raw)` without one."""
    return f"{label} (raw)" if calibrator == RAW else f"{label} + {initials(calibrator)}"


def _pairs(row: RowOfRuns, seeds: Sequence[int]) -> list[LossAndCalibrator]:
    """A row with each calibrator that all of some of its runs have been scored after."""
    records = [row.records[seed] for seed in seeds]
    pairs = []
    keys = records[0].values
    for name in dict.fromkeys(key.calibrator for key in keys if key.metric == CROSS_FITTED):
        val = [record.values.get(Key(CROSS_FITTED, VAL, name), math.nan) for record in records]
        test = tuple(record.values.get(Key("nll", calibrator=name), math.nan) for record in records)
        if not any(map(math.isnan, [*val, *test])):
            pair = name_pair(row.label, name)
            pairs.append(LossAndCalibrator(row.label, name, pair, fmean(val), test))
    return pairs


def _compare_with_best(
    compared: Sequence[LossAndCalibrator],
) -> dict[LossAndCalibrator, SeedVerdict]:
    """Whether pairs differ significantly from the first, the best on validation, by their NLL on test."""
    level = LEVEL * (len(compared) - 1) / (len(compared) + 1)
    worse = comparison_with_best([pair.seeds for pair in compared], level=level).worse
    return {pair: _verdict(worse[at][0], worse[0][at]) for at, pair in enumerate(compared)}


def _verdict(is_worse: bool, is_better: bool) -> SeedVerdict:
    if is_worse:
        return "worse"
    return "better" if is_better else ""

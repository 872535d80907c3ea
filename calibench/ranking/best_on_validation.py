"""The answer of a table: the pair of loss and calibrator that validation chooses, compared with others on test."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean

from calibench.ranking.best_pair import REFERENCE, Answer, LossAndCalibrator, Told
from calibench.ranking.table import Row, Table
from calibench.statistics import FEWEST_SEEDS, LEVEL, comparison_with_best
from calibench.statistics.number import CROSS_FITTED, RAW, VAL, Key
from calibench.tables.metric_titles import initials


def answer_of(table: Table) -> Answer:
    """The answer of a table.

    Means are over the seeds that all compared rows share; rows with fewer than three seeds are left out where others
    have as many. Two pairs are told apart by the limits of `comparison_with_best` for as many rows K as there are
    losses, and one more for cross-entropy with temperature scaling, at (K - 1) / (K + 1) of the level: among few, which
    one comes out ahead is itself chance. Of equal losses 95 to 98 % of tables tell none from another, whatever
    validation and test have in common (simulated).
    """
    rows = [row for row in table.rows if row.records]
    able = [row for row in rows if _pairs(row, list(row.records))]
    compared = [row for row in able if len(row.records) >= FEWEST_SEEDS] or able
    seeds = sorted(set.intersection(*(set(row.records) for row in compared))) if compared else []
    if not seeds:
        return Answer(without=len(rows))
    pairs = [_pairs(row, seeds) for row in compared]
    val = attrgetter("val")
    best, *others = of_losses = sorted((min(of_row, key=val) for of_row in pairs), key=val)
    of_reference = [
        pair
        for row, of_row in zip(compared, pairs, strict=True)
        for pair in of_row
        if (row.loss, pair.calibrator.partition("(")[0]) == REFERENCE
    ]
    reference = [min(of_reference, key=val)] if of_reference else []
    rivals = [pair for pair in dict.fromkeys([*others[:1], *reference]) if pair != best]
    told = _told(list(dict.fromkeys([*of_losses, *reference])), rivals)
    return Answer(best, told, of_losses, len(rows) - len(compared))


def _pairs(row: Row, seeds: Sequence[int]) -> list[LossAndCalibrator]:
    """A row with each calibrator that all of some of its runs have been scored after."""
    records = [row.records[seed] for seed in seeds]
    short = row.label.replace(row.loss, row.loss.removesuffix("Loss"), 1)
    found = []
    keys = records[0].values
    for name in dict.fromkeys(key.calibrator for key in keys if key.metric == CROSS_FITTED):
        val = [record.values.get(Key(CROSS_FITTED, VAL, name), math.nan) for record in records]
        test = tuple(record.values.get(Key("nll", calibrator=name), math.nan) for record in records)
        if not any(map(math.isnan, [*val, *test])):
            both = f"{short} + {RAW if name == RAW else initials(name)}"
            found.append(LossAndCalibrator(row.label, name, both, fmean(val), test))
    return found


def _told(
    compared: Sequence[LossAndCalibrator], rivals: Sequence[LossAndCalibrator]
) -> list[LossAndCalibrator]:
    """What seeds tell of some pairs against the first of all that are compared."""
    level = LEVEL * (len(compared) - 1) / (len(compared) + 1)
    worse = comparison_with_best([pair.seeds for pair in compared], level=level).worse
    places = [compared.index(rival) for rival in rivals]
    told: list[Told] = ["worse" if worse[i][0] else "better" if worse[0][i] else "" for i in places]
    return [replace(rival, told=of) for rival, of in zip(rivals, told, strict=True)]

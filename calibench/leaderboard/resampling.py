"""Paired bootstrap test of a leaderboard over test examples and seeds, from the saved logits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from calibench.leaderboard.columns import Column
from calibench.leaderboard.records import Record, Results
from calibench.leaderboard.significance import Test, over_seeds
from calibench.leaderboard.table import Row
from calibench.statistics import WILCOXON_SEEDS
from calibench.tables.key import RAW, TEST

if TYPE_CHECKING:
    from torch import Tensor

    from calibench.evaluation.bootstrap import Place
    from calibench.evaluation.resamples import Floats, Resamples

NAME = "bootstrap over test examples and seeds"
AUTOMATIC_BYTES = 100_000_000  # prediction files that a leaderboard reads without being asked


def test_file(record: Record) -> Path:
    """The prediction file of a run's test split."""
    return Path(record.folder) / "predictions" / "test.npz"


def total_size(records: Iterable[Record]) -> int:
    """Size in bytes of the runs' prediction files of the test split."""
    return sum(_size(f"{record.folder}/predictions/test.npz") for record in records)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Bootstrap:
    """The bootstrap test where a metric can be resampled from logits, and another test elsewhere.

    With 8 common seeds or more, the signed-rank test over seeds is used for every column: it asks
    whether another training run would decide alike, and needs no logits.
    """

    def __init__(
        self, results: Results, *, n_resamples: int = 1000, otherwise: Test = over_seeds
    ) -> None:
        self._results = results
        self._n_resamples = n_resamples
        self._otherwise = otherwise
        self._loaded: dict[str, TestSet | None] = {}
        self._found: dict[tuple[str, Place], Floats] = {}

    def __call__(self, column: Column, best: Row, other: Row) -> tuple[float, str] | None:
        """The p-value of "the other row is worse", and the name of the test that gave it."""
        seeds = sorted(best.values[column].seeds.keys() & other.values[column].seeds.keys())
        ours = (
            self._p_value(column, best, other, seeds) if 0 < len(seeds) < WILCOXON_SEEDS else None
        )
        return self._otherwise(column, best, other) if ours is None else (ours, NAME)

    def _p_value(self, column: Column, best: Row, other: Row, seeds: list[int]) -> float | None:
        if column.calibrator != RAW or column.split not in (None, TEST):
            return None
        from calibench.evaluation.bootstrap import RESAMPLED
        from calibench.evaluation.resamples import improvement

        if column.metric not in RESAMPLED:
            return None
        records = [[row.records[seed] for seed in seeds] for row in (best, other)]
        tests = [self._test_set(record) for of_row in records for record in of_row]
        first = tests[0]
        if first is None or any(
            test is None or not first.has_the_examples_of(test) for test in tests
        ):
            return None
        place = (column.metric, best.values[column].n_bins)
        sides = [self._of(place, of_row) for of_row in records]
        return improvement(sides[1] - sides[0]).p_value

    def _of(self, place: Place, records: Sequence[Record]) -> Floats:
        """The replicates of a row: the means over resampled seeds of the replicates of its runs."""
        import numpy as np

        runs = [self._replicates(place, record) for record in records]
        return self._resamples(records[0]).over_seeds(np.stack(runs))

    def _replicates(self, place: Place, record: Record) -> Floats:
        from calibench.evaluation.bootstrap import replicates

        if (record.folder, place) not in self._found:
            test = self._test_set(record)
            assert test is not None  # `_p_value` has checked it
            drawn = self._resamples(record)
            found = replicates(test.log_probs, test.target, [place], drawn)[place]
            self._found[record.folder, place] = found
        return self._found[record.folder, place]

    def _resamples(self, record: Record) -> Resamples:
        from calibench.evaluation.resamples import Resamples

        test = self._test_set(record)
        assert test is not None
        return Resamples(len(test.target), self._n_resamples)

    def _test_set(self, record: Record) -> TestSet | None:
        """A run's predictions of the test set; None without a file, and with a warning if it is corrupt."""
        if record.folder not in self._loaded:
            self._loaded[record.folder] = None
            path = test_file(record)
            try:
                self._loaded[record.folder] = TestSet.load(path) if path.exists() else None
            except ValueError as error:  # CorruptRun
                self._results.warnings.append(f"{error}; its seeds are compared instead")
        return self._loaded[record.folder]


@dataclass(frozen=True)
class TestSet:
    """Log-probabilities (N, K) of a run and the targets (N,)."""

    log_probs: Tensor
    target: Tensor

    @classmethod
    def load(cls, path: Path) -> Self:
        """The test set of a prediction file.

        Raises:
            FileNotFoundError: If there is none.
            CorruptRun: If it cannot be read.
        """
        import torch

        from calibench.evaluation.scoring import predicted_log_probabilities
        from calibench.runs import Predictions

        predictions = Predictions.load(path)
        return cls(predicted_log_probabilities(predictions), torch.from_numpy(predictions.target))

    def has_the_examples_of(self, other: TestSet) -> bool:
        """Whether two test sets have the same labels in the same order."""
        same_size = self.target.shape == other.target.shape
        return same_size and bool((self.target == other.target).all())


def _auto(read: Results) -> Test:
    small = 0 < total_size(read.records) <= AUTOMATIC_BYTES
    return Bootstrap(read) if small else over_seeds


def _bootstrap(read: Results) -> Test:
    return Bootstrap(read)


def _seeds(read: Results) -> Test:
    return over_seeds


# Tests that decide what is bold. `auto` is the bootstrap if the prediction files exist and are small.
TESTS: dict[str, Callable[[Results], Test]] = {
    "auto": _auto,
    "seeds": _seeds,
    "bootstrap": _bootstrap,
}

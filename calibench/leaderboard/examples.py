"""Comparison of single runs over test examples, from their saved logits: which trained network may be the best."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from calibench.ground.bar import with_progress
from calibench.ground.output import loading
from calibench.leaderboard.columns import Column
from calibench.leaderboard.records import Record, Results
from calibench.leaderboard.table import Row
from calibench.statistics.number import RAW, TEST, Key

if TYPE_CHECKING:
    from torch import Tensor

    from calibench.runs.labels import LabelTable
    from calibench.statistics.resamples import Floats

AUTOMATIC_BYTES = 100_000_000  # prediction files that a leaderboard reads without being asked


def examples_of(read: Results) -> TestExamples | None:
    """The test examples of the runs that were read, if their prediction files are there and small."""
    small = 0 < total_size(read.records) <= AUTOMATIC_BYTES
    return TestExamples(read) if small else None


def total_size(records: Iterable[Record]) -> int:
    """Size in bytes of the runs' prediction files of the test split."""
    return sum(_size(f"{record.folder}/predictions/test.npz") for record in records)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class TestExamples:
    """The test examples of runs, resampled alike for all of them; a file that is corrupt is a warning in `results`."""

    def __init__(self, results: Results, *, n_resamples: int = 1000) -> None:
        self._results = results
        self._n_resamples = n_resamples
        self._loaded: dict[str, TestSet | None] = {}
        self._found: dict[tuple[str, Key], Floats] = {}

    def __call__(self, column: Column, rows: Sequence[Row]) -> Sequence[bool] | None:
        """Which of several rows' only runs may be the best; None where a metric cannot be resampled from raw logits."""
        import numpy as np

        from calibench.statistics.replicates import best_by_replicates

        runs = [row.records[seed] for row in rows for seed in row.values[column].seeds]
        key = Key(column.metric, n_bins=rows[0].values[column].n_bins)
        found = self.replicates(column, key, runs)
        if found is None:
            return None
        values = np.array([row.values[column].mean for row in rows])
        higher = column.info.direction > 0
        return best_by_replicates(values, np.stack(found), higher_is_better=higher)

    def replicates(self, column: Column, key: Key, runs: Sequence[Record]) -> list[Floats] | None:
        """A column's value of each run on the same resampled test sets, (R,) each; None without such logits."""
        if column.calibrator != RAW or column.split not in (None, TEST):
            return None
        with loading():
            from calibench.evaluation.bootstrap import RESAMPLED

        if column.metric not in RESAMPLED:
            return None
        tests = [self._test_set(run) for run in runs]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests) or not all(map(known[0].has_the_examples_of, known)):
            return None
        found = (self._replicates(key, run) for run in runs)
        return list(with_progress(found, len(runs), f"resampling {key.metric}"))

    def _replicates(self, key: Key, record: Record) -> Floats:
        from calibench.evaluation.bootstrap import replicates
        from calibench.statistics.resamples import Resamples

        if (record.folder, key) not in self._found:
            test = self._test_set(record)
            assert test is not None  # `replicates` has checked it
            drawn = Resamples.of(test, self._n_resamples)
            found = replicates(test.log_probs, test.target, [key], drawn)[key]
            self._found[record.folder, key] = found
        return self._found[record.folder, key]

    def _test_set(self, record: Record) -> TestSet | None:
        """A run's predictions of the test set; None without a file, and with a warning if it is corrupt."""
        if record.folder not in self._loaded:
            self._loaded[record.folder] = None
            path = Path(record.folder) / "predictions" / "test.npz"
            try:
                self._loaded[record.folder] = TestSet.load(path) if path.exists() else None
            except ValueError as error:  # CorruptRun
                self._results.warnings.append(f"{error}; its test examples are not compared")
        return self._loaded[record.folder]


@dataclass(frozen=True)
class TestSet:
    """Log-probabilities (N, K) of a run, the targets (N,), and the labels that rows are of, if there are several."""

    log_probs: Tensor
    target: Tensor
    labels: LabelTable | None = None

    @classmethod
    def load(cls, path: Path) -> Self:
        """The test set of a prediction file.

        Raises:
            FileNotFoundError: If there is none.
            CorruptRun: If it cannot be read.
        """
        import torch

        from calibench.evaluation.fitting import predicted_log_probabilities
        from calibench.runs import Predictions

        predictions = Predictions.load(path)
        log_probs = predicted_log_probabilities(predictions)
        return cls(log_probs, torch.from_numpy(predictions.target), predictions.labels)

    def has_the_examples_of(self, other: TestSet) -> bool:
        """Whether two test sets have the same labels in the same order."""
        same_size = self.target.shape == other.target.shape
        return same_size and bool((self.target == other.target).all())

"""Comparison of single runs over test examples, from their saved logits: which trained network may be the best."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from calibench.messages.printable_text import loading
from calibench.messages.progress import with_progress
from calibench.parallel.processes import Mapped
from calibench.ranking.columns import Column
from calibench.ranking.records import Record, Results
from calibench.ranking.table import Row
from calibench.runs import Predictions
from calibench.statistics.number import RAW, TEST, Key
from calibench.statistics.resamples import Resamples, best_by_replicates
from calibench.tables.metric_titles import RESAMPLED
from calibench.tensors.arrays import Floats

AUTOMATIC_BYTES = 100_000_000  # prediction files that a leaderboard reads without being asked
_RESAMPLES = 1000  # test sets


def examples_of(read: Results, mapped: Mapped = map) -> TestExamples | None:
    """The test examples of the runs that were read, if their prediction files are there and small."""
    size = sum(
        os.path.getsize(file) for file in map(_test_file, read.records) if os.path.exists(file)
    )
    return TestExamples(read, mapped) if 0 < size <= AUTOMATIC_BYTES else None


def _test_file(record: Record) -> str:
    return f"{record.folder}/predictions/test.npz"


class TestExamples:
    """The test examples of runs, resampled alike for all of them; a file that is corrupt is a warning in `results`.

    `mapped` says where they are resampled, which takes torch: in this process, or in others.
    """

    def __init__(self, results: Results, mapped: Mapped = map) -> None:
        self._results = results
        self._mapped = mapped
        self._loaded: dict[str, Predictions | None] = {}
        self._found: dict[tuple[str, Key], Floats] = {}

    def __call__(self, column: Column, rows: Sequence[Row]) -> Sequence[bool] | None:
        """Which of several rows' only runs may be the best; None where a metric cannot be resampled from raw logits."""
        runs = [row.records[seed] for row in rows for seed in row.values[column].seeds]
        key = Key(column.metric, n_bins=rows[0].values[column].n_bins)
        found = self.resample_metrics(column, key, runs)
        if found is None:
            return None
        values = np.array([row.values[column].mean for row in rows])
        higher = column.info.direction > 0
        return best_by_replicates(values, np.stack(found), higher_is_better=higher)

    def resample_metrics(
        self, column: Column, key: Key, runs: Sequence[Record]
    ) -> list[Floats] | None:
        """A column's value of each run on the same resampled test sets, (R,) each; None without such logits."""
        of_raw_test = column.calibrator == RAW and column.split in (None, TEST)
        if not of_raw_test or column.metric not in RESAMPLED:
            return None
        tests = [self._test_set(run) for run in runs]
        known = [test for test in tests if test is not None]
        targets = [test.target.tolist() for test in known]
        if len(known) < len(tests) or any(of != targets[0] for of in targets):
            return None
        sets = {
            (run.folder, key): test
            for run, test in zip(runs, known, strict=True)
            if (run.folder, key) not in self._found
        }
        drawn = self._mapped(partial(_replicates, key), list(sets.values()))
        shown = with_progress(drawn, len(sets), f"resampling {key.metric}")
        self._found.update(zip(sets, shown, strict=True))
        return [self._found[run.folder, key] for run in runs]

    def _test_set(self, record: Record) -> Predictions | None:
        """A run's predictions of the test set; None without a file, and with a warning if it is corrupt."""
        if record.folder not in self._loaded:
            self._loaded[record.folder] = None
            path = Path(_test_file(record))
            try:
                self._loaded[record.folder] = Predictions.load(path) if path.exists() else None
            except ValueError as error:  # CorruptRun
                self._results.warnings.append(f"{error}; its test examples are not compared")
        return self._loaded[record.folder]


def _replicates(key: Key, test: Predictions) -> Floats:
    with loading():
        import torch

        from calibench.evaluation.bootstrap import resample_metrics
        from calibench.evaluation.calibrator_fits import predicted_log_probabilities

    drawn = Resamples.from_predictions(test, _RESAMPLES)
    log_probs, target = predicted_log_probabilities(test), torch.from_numpy(test.target)
    return resample_metrics(log_probs, target, [key], drawn)[key]

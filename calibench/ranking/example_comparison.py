"""Comparison of single runs over test examples, from their saved logits: which trained network may be the best."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibench.messages.printable_text import loading
from calibench.messages.progress import with_progress
from calibench.parallel.processes import Mapped
from calibench.ranking.columns import BEST, Column
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
        self._replicates_by_run: dict[tuple[str, Key], Floats | None] = {}

    def __call__(self, column: Column, rows: Sequence[Row]) -> Sequence[bool] | None:
        """Which of several rows' only runs may be the best; None where a metric cannot be resampled from logits."""
        replicates = self.replicates(column, rows)
        if replicates is None:
            return None
        values = np.array([row.values[column].mean for row in rows])
        higher = column.info.direction > 0
        return best_by_replicates(values, np.stack(replicates), higher_is_better=higher)

    def replicates(self, column: Column, rows: Sequence[Row]) -> list[Floats] | None:
        """A column's value of each run of some rows on the same resampled test sets, (R,) each.

        None where a run has no such logits, or the runs are of different examples.
        """
        if column.split not in (None, TEST) or column.metric not in RESAMPLED:
            return None
        runs = [(row, row.records[seed]) for row in rows for seed in row.values[column].seeds]
        tests = [self._test_set(run) for _, run in runs]
        loaded = [test for test in tests if test is not None]
        targets = [test.target.tolist() for test in loaded]
        if len(loaded) < len(tests) or any(target != targets[0] for target in targets):
            return None
        keys = [_key_of_row(column, row) for row, _ in runs]
        jobs = {
            (run.folder, key): test
            for (_, run), key, test in zip(runs, keys, loaded, strict=True)
            if (run.folder, key) not in self._replicates_by_run
        }
        without_parameters = any(
            key.calibrator != RAW and not Path(folder, "predictions", "val.npz").exists()
            for folder, key in jobs
        )
        if without_parameters:
            return None
        resampled = self._mapped(_resample, [(*run, test) for run, test in jobs.items()])
        reported = with_progress(resampled, len(jobs), f"resampling {column.metric}")
        for job, (replicates, problem) in zip(jobs, reported, strict=True):
            self._replicates_by_run[job] = replicates
            if problem:
                self._results.warnings.append(f"{problem}; its test examples are not compared")
        replicates_by_row = [
            self._replicates_by_run[run.folder, key]
            for (_, run), key in zip(runs, keys, strict=True)
        ]
        complete = [replicates for replicates in replicates_by_row if replicates is not None]
        return complete if len(complete) == len(runs) else None

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


def _key_of_row(column: Column, row: Row) -> Key:
    """The key of a column's number in a row, after the row's own calibrator where the column is of that."""
    calibrator = row.calibrator or RAW if column.calibrator == BEST else column.calibrator
    return Key(column.metric, calibrator=calibrator, n_bins=row.values[column].n_bins)


def _resample(job: tuple[str, Key, Predictions]) -> tuple[Floats | None, str]:
    """A number of a run on resampled test sets, (R,), given the run's folder, the key and the predictions.

    None, and the reason, where its calibrator cannot be had.
    """
    folder, key, test = job
    with loading():
        import torch

        from calibench.evaluation.bootstrap import resample_metrics
        from calibench.evaluation.calibrator_fits import predicted_log_probabilities
        from calibench.evaluation.serialization import load_fitted_calibrator

    try:
        fitted = load_fitted_calibrator(folder, key.calibrator)
    except ValueError as error:
        return None, f"{folder}: {error}"
    log_probs, target = predicted_log_probabilities(test, fitted), torch.from_numpy(test.target)
    raw_key = key._replace(calibrator=RAW)
    resamples = Resamples.from_predictions(test, _RESAMPLES)
    return resample_metrics(log_probs, target, [raw_key], resamples)[raw_key], ""

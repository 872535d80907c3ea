"""The bootstrap test of a leaderboard: over test examples and seeds, from the saved logits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.leaderboard.columns import RAW, TEST, Column
from calibench.leaderboard.records import Record, Results
from calibench.leaderboard.significance import Test, over_seeds
from calibench.leaderboard.table import Row
from calibench.statistics import WILCOXON_SEEDS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from calibench.runs import Predictions
    from calibench.statistics.bootstrap import Resamples

    Floats = npt.NDArray[np.floating]

NAME = "bootstrap over test examples and seeds"
AUTOMATIC_BYTES = 100_000_000  # prediction files that a leaderboard reads without being asked

Bins = Mapping[tuple[str, str], set[int]]


def test_file(record: Record) -> Path:
    """The saved logits of a run's test split."""
    return Path(record.folder) / "predictions" / "test.npz"


def total_size(records: Iterable[Record]) -> int:
    """Bytes of the prediction files that these runs have."""
    return sum(_size(test_file(record)) for record in records)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Bootstrap:
    """Tests a metric that examples decide from the logits, any other one over seeds.

    From 8 common seeds on the signed-rank test over seeds is used for every column: it asks whether
    another training run would decide alike, and needs no logits.
    """

    def __init__(
        self, bins: Bins, *, n_resamples: int = 1000, otherwise: Test = over_seeds
    ) -> None:
        self._bins = bins
        self._n_resamples = n_resamples
        self._otherwise = otherwise
        self._loaded: dict[str, Predictions | None] = {}
        self._replicates: dict[tuple[str, Column], Floats | None] = {}

    def __call__(self, column: Column, best: Row, other: Row) -> tuple[float, str] | None:
        """The p-value of "other is worse", and which test gave it."""
        seeds = sorted(best.cells[column].seeds.keys() & other.cells[column].seeds.keys())
        ours = (
            self._p_value(column, best, other, seeds) if 0 < len(seeds) < WILCOXON_SEEDS else None
        )
        return self._otherwise(column, best, other) if ours is None else (ours, NAME)

    def _p_value(self, column: Column, best: Row, other: Row, seeds: list[int]) -> float | None:
        metric = METRICS.get(column.metric.removesuffix("_20"))
        if metric is None or column.calibrator != RAW or column.split not in (None, TEST):
            return None
        from calibench.statistics.bootstrap import Resamples, improvement

        files = [[self._load(row.records[seed]) for seed in seeds] for row in (best, other)]
        flat = [file for row in files for file in row]
        first = flat[0]
        if first is None or any(f is None or not _same(f, first) for f in flat):
            return None
        resamples = Resamples(len(first.target), self._n_resamples)
        sides = [
            resamples.over_seeds(self._of(column, row, seeds, resamples)) for row in (best, other)
        ]
        return improvement(sides[1] - sides[0]).p_value

    def _of(self, column: Column, row: Row, seeds: list[int], resamples: Resamples) -> Floats:
        import numpy as np

        return np.concatenate([self._run(column, row.records[seed], resamples) for seed in seeds])

    def _run(self, column: Column, record: Record, resamples: Resamples) -> Floats:
        key = (record.folder, column)
        found = self._replicates.get(key)
        if found is None:
            predictions = self._load(record)
            assert predictions is not None
            n_bins = max(self._bins.get((record.identity.benchmark, column.metric), {15}))
            metric = METRICS[column.metric.removesuffix("_20")]
            found = self._replicates[key] = metric(predictions, n_bins, resamples)
        return found

    def _load(self, record: Record) -> Predictions | None:
        if record.folder not in self._loaded:
            self._loaded[record.folder] = _predictions(test_file(record))
        return self._loaded[record.folder]


def _predictions(path: Path) -> Predictions | None:
    from calibench.runs import CorruptRun, Predictions

    try:
        return Predictions.load(path)
    except (CorruptRun, FileNotFoundError):
        return None


def _same(one: Predictions, other: Predictions) -> bool:
    """Whether two files are of the same examples."""
    return one.target.shape == other.target.shape and bool((one.target == other.target).all())


def log_probabilities(predictions: Predictions) -> Floats:
    """Log-softmax of the logits in double precision, (N, K)."""
    import numpy as np

    logits = predictions.logits.astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def _error(predictions: Predictions, n_bins: int, resamples: Resamples) -> Floats:
    wrong = predictions.logits.argmax(axis=1) != predictions.target
    return resamples.means(wrong[None].astype(float))


def _nll(predictions: Predictions, n_bins: int, resamples: Resamples) -> Floats:
    log_probs = log_probabilities(predictions)
    return resamples.means(-log_probs[None, range(len(log_probs)), predictions.target])


def _brier(predictions: Predictions, n_bins: int, resamples: Resamples) -> Floats:
    import numpy as np

    residual = np.exp(log_probabilities(predictions))
    residual[range(len(residual)), predictions.target] -= 1
    return resamples.means((residual**2).sum(axis=1)[None])


def _ece(predictions: Predictions, n_bins: int, resamples: Resamples) -> Floats:
    import numpy as np

    confidence = np.exp(log_probabilities(predictions).max(axis=1))
    correct = predictions.logits.argmax(axis=1) == predictions.target
    bins = np.digitize(confidence, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)
    return resamples.binned_gaps((confidence - correct)[None], bins[None])


# Each gives (1, n_resamples) values of one run.
METRICS: dict[str, Callable[[Predictions, int, Resamples], Floats]] = {
    "error": _error,
    "nll": _nll,
    "brier": _brier,
    "ece": _ece,
}


def _auto(read: Results) -> Test:
    small = 0 < total_size(read.records) <= AUTOMATIC_BYTES
    return Bootstrap(read.bins) if small else over_seeds


def _bootstrap(read: Results) -> Test:
    return Bootstrap(read.bins)


def _seeds(read: Results) -> Test:
    return over_seeds


# What decides bold. `auto` is the bootstrap where the prediction files are there and small.
TESTS: dict[str, Callable[[Results], Test]] = {
    "auto": _auto,
    "seeds": _seeds,
    "bootstrap": _bootstrap,
}

"""The bootstrap test of a leaderboard: over test examples and seeds, from the saved logits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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

    from calibench.statistics.bootstrap import Resamples

    Floats = npt.NDArray[np.floating]

NAME = "bootstrap over test examples and seeds"
AUTOMATIC_BYTES = 100_000_000  # prediction files that a leaderboard reads without being asked


def test_file(record: Record) -> Path:
    """The saved logits of a run's test split."""
    return Path(record.folder) / "predictions" / "test.npz"


def total_size(records: Iterable[Record]) -> int:
    """Bytes of the prediction files that these runs have."""
    return sum(_size(f"{record.folder}/predictions/test.npz") for record in records)


def _size(path: str) -> int:
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
        self, results: Results, *, n_resamples: int = 1000, otherwise: Test = over_seeds
    ) -> None:
        self._results = results
        self._n_resamples = n_resamples
        self._otherwise = otherwise
        self._loaded: dict[str, Examples | None] = {}
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
            examples = self._load(record)
            assert examples is not None  # _p_value has looked
            n_bins = max(self._results.bins.get((record.identity.benchmark, column.metric), {15}))
            metric = METRICS[column.metric.removesuffix("_20")]
            found = self._replicates[key] = metric(examples, n_bins, resamples)
        return found

    def _load(self, record: Record) -> Examples | None:
        """A run's examples; None without a prediction file, and with a warning if it is corrupt."""
        if record.folder not in self._loaded:
            self._loaded[record.folder] = None
            path = test_file(record)
            try:
                self._loaded[record.folder] = load_examples(path) if path.exists() else None
            except ValueError as error:  # CorruptRun
                self._results.warnings.append(f"{error}; its seeds are compared instead")
        return self._loaded[record.folder]


@dataclass(frozen=True)
class Examples:
    """What metrics need of each test example, (N,) each."""

    target: npt.NDArray[np.int64]
    correct: npt.NDArray[np.bool_]
    confidence: Floats
    nll: Floats
    brier: Floats


def load_examples(path: Path) -> Examples:
    """The examples of a prediction file.

    Raises:
        FileNotFoundError: If there is none.
        CorruptRun: If it cannot be read.
    """
    import numpy as np

    from calibench.runs import Predictions

    predictions = Predictions.load(path)
    logits, target = predictions.logits.astype(np.float64), predictions.target
    rows = np.arange(len(target))
    logits -= logits.max(axis=1, keepdims=True)
    probs = np.exp(logits)
    total = probs.sum(axis=1)
    probs /= total[:, None]
    brier = (probs**2).sum(axis=1) - 2 * probs[rows, target] + 1
    nll = np.log(total) - logits[rows, target]
    correct = predictions.logits.argmax(axis=1) == target
    return Examples(target, correct, 1 / total, nll, brier)


def _same(one: Examples, other: Examples) -> bool:
    """Whether two files are of the same examples."""
    return one.target.shape == other.target.shape and bool((one.target == other.target).all())


def _error(examples: Examples, n_bins: int, resamples: Resamples) -> Floats:
    return resamples.means((~examples.correct)[None].astype(float))


def _nll(examples: Examples, n_bins: int, resamples: Resamples) -> Floats:
    return resamples.means(examples.nll[None])


def _brier(examples: Examples, n_bins: int, resamples: Resamples) -> Floats:
    return resamples.means(examples.brier[None])


def _ece(examples: Examples, n_bins: int, resamples: Resamples) -> Floats:
    import numpy as np

    bins = np.digitize(examples.confidence, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)
    return resamples.binned_gaps((examples.confidence - examples.correct)[None], bins[None])


def _adaptive_ece(examples: Examples, n_bins: int, resamples: Resamples) -> Floats:
    """With the equal-mass bins of the whole test set in every resample."""
    import numpy as np

    n = len(examples.target)
    bins = np.empty(n, dtype=np.int64)
    bins[np.argsort(examples.confidence, kind="stable")] = np.arange(n) * n_bins // n
    return resamples.binned_gaps((examples.confidence - examples.correct)[None], bins[None])


# Each gives (1, n_resamples) values of one run.
METRICS: dict[str, Callable[[Examples, int, Resamples], Floats]] = {
    "error": _error,
    "nll": _nll,
    "brier": _brier,
    "ece": _ece,
    "adaptive_ece": _adaptive_ece,
}


def _auto(read: Results) -> Test:
    small = 0 < total_size(read.records) <= AUTOMATIC_BYTES
    return Bootstrap(read) if small else over_seeds


def _bootstrap(read: Results) -> Test:
    return Bootstrap(read)


def _seeds(read: Results) -> Test:
    return over_seeds


# What decides bold. `auto` is the bootstrap where the prediction files are there and small.
TESTS: dict[str, Callable[[Results], Test]] = {
    "auto": _auto,
    "seeds": _seeds,
    "bootstrap": _bootstrap,
}

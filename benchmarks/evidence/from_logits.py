"""Numbers of runs from their committed logits, raw and after the published forms that the other runs' rows are of.

    python benchmarks/evidence/from_logits.py benchmarks/results/speedrun_small.tar.xz \
        > benchmarks/results/evidence_cifar10_small.csv
    python benchmarks/evidence/from_logits.py results/cifar100_speedrun \
        > benchmarks/results/evidence_cifar100_speedrun.csv

Logits of an archive (float16, see runs.py) make the rows again for anyone who has the repository. Those of a hundred
classes would be 75 MB, so their rows, and those of `cifar10_lt_small`, are made of the folder of results itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tidy
from runs import unpack

from calibench import calibrators
from calibench.evaluation import Evaluation
from calibench.evaluation.extent import Extent
from calibench.messages.progress import with_progress
from calibench.parallel.threads import one_thread
from calibench.predictions.files import Reader
from calibench.runs import Run, read_json
from calibench.runs.finished import find_finished_runs
from calibench.statistics.number import RAW

PUBLISHED = (
    "TemperatureScaling",
    "AdaptiveTemperatureScaling",
    "EnsembleTemperatureScaling",
    "SplineCalibration",
    "CrossValidatedCalibration",
)


def predictions(run: Run) -> dict[str, Any]:
    """A run's validation and test set: its own, or packed ones."""
    packed = run.folder / "logits"
    files = {name: packed / f"{name}.npz" for name in ("val", "test")}
    if not packed.is_dir():
        files = {name: run.predictions(name) for name in files}
    return {name: Reader()(str(file)) for name, file in files.items()}


def rows(run: Run) -> Iterator[list[Any]]:
    """The rows of a run's test set, the panel with 15 bins and the parts of the NLL; its own ones of OOD sets, raw."""
    sets = predictions(run)
    fitted = [getattr(calibrators, name)(shrinkage=False) for name in PUBLISHED]
    report = Evaluation(fitted, n_bins=[15])(sets, extent=Extent("printed"))
    for number in report.numbers:
        key = number.key
        if key.split == "test" and key.label is None:
            yield tidy.row(run, "test", key.calibrator, key.metric, number.value, key.n_bins or "")
    for one in read_json(run.folder / "metrics.json")["rows"]:
        if (one["metric"], one["calibrator"]) == ("ood_auroc", RAW):
            yield tidy.row(run, one["split"], RAW, one["metric"], one["value"], score=one["score"])


def runs_of(results: Path, folder: str) -> list[Run]:
    """The runs of a folder of results, or of an archive, which is unpacked into another folder."""
    if results.is_file():
        unpack(results, Path(folder))
        results = Path(folder)
    return [*find_finished_runs([results])]


def main(results: Path) -> None:
    """Print the rows of all runs of an archive, or of a folder of results, as CSV."""
    with TemporaryDirectory() as folder, one_thread():
        runs = runs_of(results, folder)
        tidy.print_rows(
            row for run in with_progress(runs, len(runs), "evaluating") for row in rows(run)
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

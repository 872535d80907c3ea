"""Numbers of runs from their committed logits, raw and after the published forms that the other runs' rows are of.

    python benchmarks/evidence/from_logits.py benchmarks/results/speedrun_small.tar.xz \
        > benchmarks/results/evidence_cifar10_small.csv

The logits are those of the archive (float16, see runs.py), so anyone who has the repository can make the rows again.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tidy

from calibench import calibrators
from calibench.evaluation import Evaluation
from calibench.ground.bar import with_progress
from calibench.ground.threads import one_thread
from calibench.predictions.files import Reader
from calibench.runs import Run, read_json, run_folders
from calibench.statistics.number import RAW

PUBLISHED = (
    "TemperatureScaling",
    "AdaptiveTemperatureScaling",
    "EnsembleTemperatureScaling",
    "SplineCalibration",
    "CrossValidatedCalibration",
)


def rows(run: Run) -> Iterator[list[Any]]:
    """The rows of a run's test set, the panel with 15 bins and the parts of the NLL; its own ones of OOD sets, raw."""
    sets = {
        name: Reader().read(str(run.folder / "logits" / f"{name}.npz")) for name in ("val", "test")
    }
    report = Evaluation(
        [getattr(calibrators, name)(shrinkage=False) for name in PUBLISHED], n_bins=[15]
    )(sets)
    for number in report.numbers:
        key = number.key
        if key.split == "test" and key.label is None:
            yield tidy.row(run, "test", key.calibrator, key.metric, number.value, key.n_bins or "")
    for one in read_json(run.folder / "metrics.json")["rows"]:
        if (one["metric"], one["calibrator"]) == ("ood_auroc", RAW):
            yield tidy.row(run, one["split"], RAW, one["metric"], one["value"], score=one["score"])


def main(archive: Path) -> None:
    """Print the rows of all runs of an archive as CSV."""
    with TemporaryDirectory() as folder, tarfile.open(archive) as tar, one_thread():
        tar.extractall(folder, filter="data")
        found = [*run_folders(Path(folder))]
        runs = (Run(Path(path)) for path in found)
        tidy.print_rows(
            row for run in with_progress(runs, len(found), "evaluating") for row in rows(run)
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""README's picture: reliability before and after the best calibrator, and the NLL of seven losses, on CIFAR-10.

    python benchmarks/figures/overview.py             writes cifar10_overview.png and its numbers beside this file
    python benchmarks/figures/overview.py FOLDER      writes them there

The runs are those of `speedrun_small` (three seeds a loss, 10,000 test images), from the committed archive of their
logits: no data set and no GPU is needed.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from calibench.cli import main
from calibench.predictions.files import Reader
from calibench.runs import Run, run_folders

HERE = Path(__file__).parent
ARCHIVE = HERE.parent / "results" / "speedrun_small.tar.xz"
NAME = "cifar10_overview.png"
LOSSES = (
    "CrossEntropy", "LabelSmoothing", "Brier", "FLSD", "DualFocal", "GenerativeCrossEntropy", "FocalCalibration",
)  # fmt: skip


def write_runs(archive: Path, results: Path) -> None:
    """Write the runs of an archive as run folders, whose logits are predictions."""
    with tarfile.open(archive) as tar:
        tar.extractall(results, filter="data")
    for folder in map(Path, run_folders(results)):
        for file in (folder / "logits").glob("*.npz"):
            Reader()(str(file)).save(Run(folder).predictions(file.stem))
        shutil.rmtree(folder / "logits")
        Run(folder).write_status(
            "done"
        )  # the archive's has digests of logits before they were rounded to float16


def draw_overview(output: Path) -> int:
    """Draw the picture; returns the exit code of the command that draws it."""
    with TemporaryDirectory() as folder:
        write_runs(ARCHIVE, Path(folder))
        words = ["plot", "overview", f"{folder}/cifar10_small", "--losses", *LOSSES]
        return main([*words, "-o", str(output / NAME)])


if __name__ == "__main__":
    sys.exit(draw_overview(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE))

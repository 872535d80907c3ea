"""Runs whose logits are rounded as a store keeps them and then scored, so that all their numbers follow from float16.

    python benchmarks/evidence/shipped_store.py RESULTS --to STORE

For the store that ships, which has no room for float32. The runs below RESULTS stay as they are.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from calibench import store
from calibench.evaluation.settings import built
from calibench.evaluation.store_command import told
from calibench.ground.bar import with_progress
from calibench.runs import Predictions, Run, read_json, run_folders, write_json
from calibench.store.packing import rounded


def round_and_score(source: Path, folder: Path) -> None:
    """Copy a run with rounded logits of validation and test, and the numbers that follow from them."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("checkpoints", "tensorboard"))
    sets = {name: Predictions.load(path) for name, path in Run(folder).sets().items()}
    sets |= {name: Predictions.of(rounded(sets[name])) for name in ("val", "test")}
    for name in ("val", "test"):
        sets[name].save(folder / "predictions" / f"{name}.npz")
    metrics = read_json(folder / "metrics.json")
    report = built(metrics["evaluation"])(sets)
    write_json(
        folder / "metrics.json",
        {**metrics, "rows": report.rows, "calibrators": report.calibrators},
        sealed=True,
    )


def main() -> None:
    """Add the runs that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(run) for run in run_folders(given.results.resolve())]
        for run in with_progress(iter(folders), len(folders), "rounding and scoring"):
            round_and_score(run, Path(scratch).joinpath("results", *run.parts[-5:]))
        added = store.add(given.to, Path(scratch) / "results", kept=store.Kept(sets=()))
    told(added, given.to)


if __name__ == "__main__":
    main()

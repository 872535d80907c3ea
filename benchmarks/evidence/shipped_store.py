"""Runs whose logits are rounded as a store keeps them and then scored, so that all their numbers follow from float16.

    python benchmarks/evidence/shipped_store.py RESULTS --to STORE
    python benchmarks/evidence/shipped_store.py STORE --again

For the store that ships, which has no room for float32. The runs below RESULTS stay as they are. With `--again` the
entries of a store are scored again as an evaluation does today, their calibrators with today's default arguments.
Numbers of sets whose logits they lack stay where they are of no calibrator; those after one of before go.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from calibench import store
from calibench.evaluation.serialization import build_evaluation, fill_defaults
from calibench.messages.progress import with_progress
from calibench.runs import (
    Predictions,
    Run,
    json_bytes,
    read_json,
    run_folders,
    write_atomically,
    write_json,
)
from calibench.runs.files import describe_content
from calibench.statistics.number import RAW
from calibench.store import Entry
from calibench.store.entry import entry_digest
from calibench.store.index import rebuild_index
from calibench.store.packing import round_predictions
from calibench.verbs.store import print_additions


def round_and_score(source: Path, folder: Path) -> None:
    """Copy a run with rounded logits of validation and test, and the numbers that follow from them."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("checkpoints", "tensorboard"))
    sets = {name: Predictions.load(path) for name, path in Run(folder).sets().items()}
    sets |= {
        name: Predictions.from_arrays(round_predictions(sets[name])) for name in ("val", "test")
    }
    for name in ("val", "test"):
        sets[name].save(folder / "predictions" / f"{name}.npz")
    metrics = read_json(folder / "metrics.json")
    report = build_evaluation(metrics["evaluation"])(sets)
    write_json(
        folder / "metrics.json",
        {**metrics, "rows": report.rows, "calibrators": report.calibrators},
        sealed=True,
    )


def score_again(entry: Entry) -> None:
    """Give an entry the numbers of today's evaluation, and the digests of its changed files."""
    entry.check()
    sets, content = entry.predictions(), entry.metrics()
    classes = [block["class_path"] for block in content["evaluation"]["calibrators"]]
    evaluation = fill_defaults({**content["evaluation"], "calibrators": classes})
    report = build_evaluation(evaluation)(sets)
    claimed = [r for r in content["rows"] if r["split"] not in sets and r["calibrator"] == RAW]
    changed = {"calibrators": report.calibrators, "rows": [*report.rows, *claimed]}
    text = json_bytes({**content, "evaluation": evaluation, **changed}, compact=True)
    write_atomically(entry.folder / "metrics.json", text)
    status = {
        **entry.status,
        "files": {**entry.status["files"], "metrics.json": describe_content(text)},
    }
    write_json(entry.folder / "status.json", {**status, "digest": entry_digest(status)})


def main() -> None:
    """Add the runs that are named on the command line, or score a store's entries again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    if given.again:
        entries = [*store.entries(given.results)]
        for entry in with_progress(iter(entries), len(entries), "scoring again"):
            score_again(entry)
        rebuild_index(store.Folder(given.results))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(run) for run in run_folders(given.results.resolve())]
        for run in with_progress(iter(folders), len(folders), "rounding and scoring"):
            round_and_score(run, Path(scratch).joinpath("results", *run.parts[-5:]))
        added = store.add(given.to, Path(scratch) / "results", policy=store.StoragePolicy(sets=()))
    print_additions(added, given.to)


if __name__ == "__main__":
    main()

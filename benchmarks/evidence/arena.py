"""A tiny file in the form of CalArena's, with its index, made from the store that ships: tests read it.

    python benchmarks/evidence/arena.py FOLDER

writes FOLDER/ours-multiclass.h5 and FOLDER/ours-multiclass-experiments.csv: every fifth example, at most 150, of
validation and test of two runs of each benchmark.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import h5py
import numpy as np

from calibench import store

SPLITS = {"cal": "val", "test": "test"}
EVERY, MOST, RUNS = 5, 150, 2


def main(folder: Path) -> None:
    lines: list[dict[str, object]] = []
    seen: dict[str, int] = {}
    with h5py.File(folder / "ours-multiclass.h5", "w") as file:
        for entry in store.entries("store"):
            cell = entry.cell
            if cell.seed != 1 or seen.get(cell.benchmark, 0) == RUNS:
                continue
            seen[cell.benchmark] = seen.get(cell.benchmark, 0) + 1
            sets = entry.predictions()
            group = file.create_group(f"{cell.benchmark}/{cell.loss}")
            for theirs, ours in SPLITS.items():
                part = sets[ours]
                logits = part.logits[::EVERY][:MOST].astype(np.float64)
                probs = np.exp(logits - logits.max(1, keepdims=True))
                probs /= probs.sum(1, keepdims=True)
                target = part.target[::EVERY][:MOST].astype(np.int32)
                for name, values in (
                    (f"probas_{theirs}", probs.astype("f4")),
                    (f"labels_{theirs}", target),
                ):
                    group.create_dataset(name, data=values, compression="gzip")
            sizes = {f"{name}_size": len(group[f"labels_{name}"]) for name in SPLITS}
            named = {"dataset": cell.benchmark, "model": cell.loss}
            lines.append({**named, **sizes, "n_classes": probs.shape[1]})
    with (folder / "ours-multiclass-experiments.csv").open("w", newline="") as index:
        writer = csv.DictWriter(index, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

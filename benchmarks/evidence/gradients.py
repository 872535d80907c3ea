"""How closely the gradient norms of trained networks follow the Brier score, as rows for claims.py.

    python benchmarks/evidence/gradients.py results/digits_lt > benchmarks/results/evidence_gradients.csv

A row for each run and number, of all training examples after the last epoch (BSCE-GRA, Figure 4): `gradient_spread` is
the standard deviation of the norm within bins of the Brier score over that of all (`papers/bsce_gra/gradient_norm.py`),
`gradient_spearman` the rank correlation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidy

sys.path.insert(0, str(Path(__file__).parents[1] / "papers" / "bsce_gra"))
from gradient_norm import compute_gradient_norms, summarise_norms

from calibench.runs import Run
from calibench.runs.finished import find_finished_runs
from calibench.training.export import load_trained_network


def rows(run: Run) -> Iterator[list[Any]]:
    """Both numbers of a run."""
    trained = load_trained_network(run, trusted=False)
    data = trained.data
    norms = compute_gradient_norms(
        trained.backbone, trained.loss, data.plain_batches("train"), batch_size=data.batch_size
    )
    summary = summarise_norms(norms)
    yield tidy.row(run, "train", "raw", "gradient_spread", summary.relative)
    yield tidy.row(run, "train", "raw", "gradient_spearman", summary.spearman)


if __name__ == "__main__":
    folders = [*map(Path, sys.argv[1:])]
    tidy.print_rows(row for run in find_finished_runs(folders) for row in rows(run))

"""How closely the gradient norms of trained networks follow the Brier score, as rows for claims.py.

    python benchmarks/evidence/gradients.py results/digits_lt > benchmarks/results/evidence_gradients.csv

A row for each run and number, of all training examples after the last epoch (BSCE-GRA, Figure 4): `gradient_spread` is
the standard deviation of the norm within bins of the Brier score over that of all (`calibench analyse gradient-norm`),
`gradient_spearman` the rank correlation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidy

from calibench.analyses.arguments import finished_runs
from calibench.analyses.gradient_norm import gradient_norms, summary
from calibench.runs import Run
from calibench.training.export import load_trained_network


def rows(run: Run) -> Iterator[list[Any]]:
    """Both numbers of a run."""
    trained = load_trained_network(run, trusted=False)
    data = trained.data
    norms = gradient_norms(
        trained.backbone, trained.loss, data.plain_batches("train"), batch_size=data.batch_size
    )
    found = summary(norms)
    yield tidy.row(run, "train", "raw", "gradient_spread", found.relative)
    yield tidy.row(run, "train", "raw", "gradient_spearman", found.spearman)


if __name__ == "__main__":
    folders = [*map(Path, sys.argv[1:])]
    tidy.print_rows(row for run in finished_runs(folders) for row in rows(run))

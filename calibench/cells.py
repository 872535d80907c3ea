"""Which run folder a job's cell has, and whether it is done: resolved only where there are results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibench.pool import Job
from calibench.runs import Cell, Run


def runs_of(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """Folders of jobs, by their positions, of those whose benchmark has results below `root`.

    A key needs the resolved configuration and so torch, which is imported only if there is something to find.
    Jobs that differ in nothing but the seed are resolved once.
    """
    cells: dict[tuple[str, ...], Cell] = {}
    runs: dict[int, Run] = {}
    for position, job in enumerate(jobs):
        if not (root / job.benchmark).is_dir():
            continue
        at = job.arguments.index("--seed_everything")
        same = (*job.arguments[:at], *job.arguments[at + 2 :])
        if same not in cells:
            from calibench.experiment import Experiment

            cells[same] = Experiment(job.arguments).cell
        cell = cells[same]
        seeded = Cell(cell.benchmark, cell.backbone, cell.loss, cell.key, job.seed)
        runs[position] = Run(seeded.folder(root))
    return runs

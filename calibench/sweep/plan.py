"""Run folders of jobs, from which one sees what is done; configurations are resolved only if results exist."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from calibench.config import short_name
from calibench.runs import Cell, Run
from calibench.sweep.pool import Job


def runs_of(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """The run folders of jobs, by position, for those whose benchmark and loss have results below `root`.

    A key needs the resolved configuration and so torch, which is imported only if there is something to find.
    Jobs that differ in nothing but the seed are resolved once.
    """
    cells: dict[str, Cell | None] = {}
    runs: dict[int, Run] = {}
    for position, job in enumerate(jobs):
        same = json.dumps({**job.config, "seed_everything": None}, sort_keys=True, default=str)
        if same not in cells:
            cells[same] = _resolved(job) if _may_have_results(job, root) else None
        cell = cells[same]
        if cell is None:
            continue
        seeded = Cell(cell.benchmark, cell.backbone, cell.loss, cell.key, job.seed)
        runs[position] = Run(seeded.folder(root))
    return runs


def _resolved(job: Job) -> Cell:
    from calibench.training.experiment import Experiment

    return Experiment(job.config).cell


def _may_have_results(job: Job, root: Path) -> bool:
    """Whether there is a folder of the job's benchmark and of its loss."""
    if not (root / job.benchmark).is_dir():
        return False
    loss = (job.config.get("model") or {}).get("loss")
    name = loss.get("class_path", "*") if isinstance(loss, dict) else str(loss or "*")
    return any((root / job.benchmark).glob(f"*/{short_name(name)}"))

"""Which run folder a job's cell has, and whether it is done: resolved only where there are results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibench.config import merge_files, short_name, split_arguments
from calibench.runs import Cell, Run
from calibench.sweep.pool import Job


def runs_of(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """Folders of jobs, by their positions, of those whose benchmark and loss have results below `root`.

    A key needs the resolved configuration and so torch, which is imported only if there is something to find.
    Jobs that differ in nothing but the seed are resolved once.
    """
    cells: dict[tuple[str, ...], Cell | None] = {}
    runs: dict[int, Run] = {}
    for position, job in enumerate(jobs):
        at = job.arguments.index("--seed_everything")
        same = (*job.arguments[:at], *job.arguments[at + 2 :])
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

    return Experiment(job.arguments).cell


def _may_have_results(job: Job, root: Path) -> bool:
    """Whether there is a folder of the job's benchmark and, unless an option names another, of its loss."""
    if not (root / job.benchmark).is_dir():
        return False
    files, options = split_arguments(job.arguments)
    if any(option.partition("=")[0] in ("--model.loss", "--model") for option in options):
        return True
    loss = (merge_files(files).get("model") or {}).get("loss")
    name = loss.get("class_path", "*") if isinstance(loss, dict) else str(loss or "*")
    return any((root / job.benchmark).glob(f"*/{short_name(name)}"))

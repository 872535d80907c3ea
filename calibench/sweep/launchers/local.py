"""Launcher of this machine: jobs on its cores, or some on each of its GPUs."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from calibench.ground.errors import UsageError
from calibench.ground.processes import cores
from calibench.sweep.pool import Job, Pool


def visible_gpus() -> list[str]:
    """The GPUs that this process may use: those in CUDA_VISIBLE_DEVICES, or else all of nvidia-smi."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name.strip() not in ("", "-1")]
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []


def any_wants_gpu(jobs: Sequence[Job]) -> bool:
    """Whether a job's configuration leaves the accelerator open or names one that is not the CPU."""
    return any((job.config.get("trainer") or {}).get("accelerator") != "cpu" for job in jobs)


def local_pool(
    jobs: Sequence[Job],
    logs: Path,
    *,
    at_a_time: int | None,
    cells_per_gpu: int | None,
    minutes_per_cell: float = math.inf,
) -> Pool:
    """A pool of worker processes for jobs; each sees one GPU if the jobs use GPUs and the machine has some.

    Args:
        jobs: The jobs.
        logs: Folder of the log files.
        at_a_time: Number of jobs at a time; by default `cells_per_gpu` (1) on each GPU, or one on each core.
        cells_per_gpu: Number of jobs at a time on one GPU.
        minutes_per_cell: Time limit of a job; one that takes longer is ended and has failed.

    Raises:
        UsageError: If `cells_per_gpu` is given and no GPU is visible, or the jobs want none.
    """
    wanted = any_wants_gpu(jobs)
    gpus = visible_gpus() if wanted else []
    if cells_per_gpu is not None and not gpus:
        why = "none is visible here" if wanted else "the configuration says `accelerator: cpu`"
        raise UsageError(f"`--cells-per-gpu` needs a GPU; {why}.")
    size = at_a_time or (cells_per_gpu or 1) * len(gpus) or cores()
    return Pool(min(size, len(jobs)), logs, gpus, minutes_per_cell)

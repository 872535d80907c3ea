"""Launcher of SLURM: jobs in a job array, watched by the process that submitted it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from calibench.ground.output import say
from calibench.sweep.durations import expected_seconds
from calibench.sweep.launchers.bundles import Bundle, bundled
from calibench.sweep.launchers.local import local_pool
from calibench.sweep.launchers.sbatch import Array, gpus_asked_for
from calibench.sweep.launchers.watch import ArrayTask, record, recorded, watch
from calibench.sweep.plan import runs_of
from calibench.sweep.pool import Job


@dataclass
class Slurm:
    """Runs jobs in a SLURM job array, with the methods of a `Pool`.

    Jobs that are done are checked on this machine, as in a local sweep. Jobs that an earlier sweep submitted and that
    are still queued or running are watched and not submitted again.

    Attributes:
        root: The results folder, on a file system that the nodes share.
        options: submitit's parameters of a SLURM job, by name.
        minutes_per_job: Largest expected time of a SLURM job; short runs share one.
        at_a_time: Number of runs at a time in a SLURM job; by default what its GPUs hold, or its `cpus_per_task`.
        cells_per_gpu: Number of runs that share a GPU; a SLURM job then has one GPU unless the options say more.
        minutes_per_cell: Time limit of a run; one that takes longer is ended and has failed.
    """

    root: Path
    options: Mapping[str, Any]
    minutes_per_job: float = 60.0
    at_a_time: int | None = None
    cells_per_gpu: int | None = None
    minutes_per_cell: float = math.inf
    _tasks: list[ArrayTask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._asked: dict[str, Any] = {**self.options}
        if self.cells_per_gpu is not None and not gpus_asked_for(self.options):
            self._asked["gpus_per_node"] = 1
        gpus = gpus_asked_for(self._asked)
        fit = gpus * (self.cells_per_gpu or 1) or int(self._asked.get("cpus_per_task", 1))
        self._at_once = self.at_a_time or fit
        if not gpus:
            self.at_a_time = self._at_once
            self._asked.setdefault("cpus_per_task", self._at_once)

    @property
    def size(self) -> int:
        """Number of jobs that run now."""
        return sum(job.state == "running" for task in self._tasks for job in task.jobs)

    def log(self, job: Job) -> Path:
        """The log file of a job."""
        return self.root.absolute() / "logs" / job.log_name

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Submit the jobs and watch them; yields each that changed, and None after a while without a change."""
        done = self.submit(jobs)
        if done:
            here = local_pool(done, self.root / "logs", at_a_time=1, cells_per_gpu=None)
            try:
                yield from here.run(done)
            finally:
                here.close()
        yield from watch(self._tasks)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Submit the jobs that are neither done nor in a SLURM job already. Returns those that are done."""
        self._tasks = list(recorded(self._folder, jobs))
        watched = {id(job) for task in self._tasks for job in task.jobs}
        bundles, done = self._bundles([job for job in jobs if id(job) not in watched])
        if bundles:
            self._submit(bundles)
        return done

    def script(self, jobs: Sequence[Job]) -> tuple[int, str]:
        """The number of SLURM jobs for what is not done, and the script that starts them."""
        bundles, _ = self._bundles(jobs)
        return len(bundles), self._array(self._folder / "TIME").script(len(bundles))

    def close(self) -> None:
        """Report which SLURM jobs go on after this process."""
        arrays = dict.fromkeys(task.array for task in self._tasks if not task.over)
        for array in arrays:
            say(
                f"calibench: SLURM job {array} goes on; the same command watches it, `scancel {array}` ends it.",
                to=sys.stderr,
            )

    @property
    def _folder(self) -> Path:
        return self.root.absolute() / "logs" / "slurm"

    def _bundles(self, jobs: Sequence[Job]) -> tuple[list[list[Job]], list[Job]]:
        """The jobs that are not done, by the SLURM job that they share, and those that are."""
        runs = runs_of(jobs, self.root)
        seconds = expected_seconds(len(jobs), runs)
        done = [position in runs and runs[position].done for position in range(len(jobs))]
        left = [position for position, over in enumerate(done) if not over]
        bundles = bundled(
            [jobs[position] for position in left],
            [seconds[position] for position in left],
            minutes=self.minutes_per_job,
            at_a_time=self._at_once,
        )
        return bundles, [job for job, over in zip(jobs, done, strict=True) if over]

    def _array(self, folder: Path) -> Array:
        # Twice the expected time, which is a mean; a job that runs into the limit goes on in a second one.
        return Array(folder, self._asked, minutes=ceil(2 * self.minutes_per_job))

    def _submit(self, bundles: Sequence[list[Job]]) -> None:
        folder = self._folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        folder.mkdir(parents=True)
        logs = self.root.absolute() / "logs"
        works = [
            Bundle(
                jobs, logs, folder / f"{number}.jsonl", self.at_a_time, self.cells_per_gpu,
                self.minutes_per_cell,
            )
            for number, jobs in enumerate(bundles)
        ]  # fmt: skip
        array = self._array(folder).submit(works)
        tasks = [ArrayTask(array, n, work.events, work.jobs) for n, work in enumerate(works)]
        record(folder, array, tasks)
        self._tasks += tasks

"""Bundles of jobs that share a SLURM job, and the events that a bundle reports."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibench.sweep.launchers.local import local_pool
from calibench.sweep.pool import Job

_REPORTED = ("state", "epoch", "epochs", "seconds", "reason")


def bundled(
    jobs: Sequence[Job], seconds: Sequence[float | None], *, minutes: float, at_a_time: int
) -> list[list[Job]]:
    """Cut a list of jobs, in order, into bundles that take about `minutes` each.

    Args:
        jobs: The jobs.
        seconds: Expected seconds of each alone; a job for which they are None counts as a whole bundle.
        minutes: Largest time of a bundle; a longer job gets a bundle of its own.
        at_a_time: Number of jobs of a bundle that run together, by which its time is divided.
    """
    room = 60 * minutes * at_a_time
    bundles: list[list[Job]] = []
    used = room
    for job, expected in zip(jobs, seconds, strict=True):
        needed = 60 * minutes if expected is None else expected
        if not bundles or used + needed > room:
            bundles.append([])
            used = 0.0
        bundles[-1].append(job)
        used += needed
    return bundles


@dataclass
class Bundle:
    """The work of one SLURM job: run several jobs, some of them together, and append events to a file.

    submitit pickles the bundle and calls it; at a pre-emption or time-out it puts the result of `checkpoint` back into
    the queue.

    Attributes:
        jobs: The jobs.
        logs: Folder of the log files.
        events: File of JSON lines that the submitter reads.
        at_a_time: As for `local_pool`.
        cells_per_gpu: As for `local_pool`.
        minutes_per_cell: As for `local_pool`.
    """

    jobs: list[Job]
    logs: Path
    events: Path
    at_a_time: int | None
    cells_per_gpu: int | None
    minutes_per_cell: float = math.inf

    def __call__(self) -> None:
        """Run the jobs that are neither done nor failed."""
        pool = local_pool(
            self.jobs,
            self.logs,
            at_a_time=self.at_a_time,
            cells_per_gpu=self.cells_per_gpu,
            minutes_per_cell=self.minutes_per_cell,
        )
        # scancel and a time-out also end the running jobs; no other job must start in their place
        signal.signal(signal.SIGTERM, lambda *_: pool.drain())
        try:
            for job in pool.run(self.jobs):
                if job is not None:
                    self._report(job)
        finally:
            pool.close()

    def checkpoint(self) -> Any:
        """The bundle for submitit's queue; jobs that were cut short go on from their last checkpoints."""
        from submitit.helpers import DelayedSubmission

        for job in self.jobs:
            if job.state in ("running", "waiting") or job.reason.startswith("terminated"):
                job.state, job.reason = "queued", ""
                self._report(job)
        return DelayedSubmission(self)

    def _report(self, job: Job) -> None:
        event = {name: getattr(job, name) for name in _REPORTED}
        line = json.dumps({"cell": self.jobs.index(job), **event}) + "\n"
        with suppress(OSError), self.events.open("a") as file:  # training goes on without the file
            file.write(line)


def update(jobs: Sequence[Job], line: str) -> Job:
    """Update the job that an event is about, from a line of a bundle's file. Returns the job."""
    event = json.loads(line)
    job = jobs[int(event["cell"])]
    for name in _REPORTED:
        setattr(job, name, event[name])
    return job

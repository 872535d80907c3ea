"""Cells that share a SLURM job."""

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

_TOLD = ("state", "epoch", "epochs", "seconds", "reason")


def bundled(
    jobs: Sequence[Job], seconds: Sequence[float | None], *, minutes: float, at_a_time: int
) -> list[list[Job]]:
    """Cut a list of cells, in order, into bundles that take about `minutes` each.

    Args:
        jobs: The cells.
        seconds: What each is expected to take alone; None where nobody knows: such a cell counts as a whole bundle.
        minutes: What a bundle should take at most; a longer cell has one of its own.
        at_a_time: How many cells of a bundle run at once, so that it takes the sum divided by this.
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
    """What one SLURM job does: runs cells, several at a time, and appends what happens to a file.

    submitit pickles it, calls it, and at a pre-emption or time-out asks `checkpoint` what to put back into the queue.

    Attributes:
        jobs: The cells.
        logs: Folder of what they print.
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
        """Run the cells that are neither done nor failed."""
        pool = local_pool(
            self.jobs,
            self.logs,
            at_a_time=self.at_a_time,
            cells_per_gpu=self.cells_per_gpu,
            minutes_per_cell=self.minutes_per_cell,
        )
        # scancel and a time-out send it to the cells as well, which end; no other one must start in their place
        signal.signal(signal.SIGTERM, lambda *_: pool.drain())
        try:
            for job in pool.run(self.jobs):
                if job is not None:
                    self._tell(job)
        finally:
            pool.close()

    def checkpoint(self) -> Any:
        """What is left, for submitit to put back into the queue: cut-off cells go on from their last checkpoint."""
        from submitit.helpers import DelayedSubmission

        for job in self.jobs:
            if job.state in ("running", "waiting") or job.reason.startswith("terminated"):
                job.state, job.reason = "queued", ""
                self._tell(job)
        return DelayedSubmission(self)

    def _tell(self, job: Job) -> None:
        told = {name: getattr(job, name) for name in _TOLD}
        line = json.dumps({"cell": self.jobs.index(job), **told}) + "\n"
        with suppress(OSError), self.events.open("a") as file:  # training goes on without
            file.write(line)


def retell(line: str, jobs: Sequence[Job]) -> Job:
    """Bring the job that a line of a bundle's events is about up to date; returns it."""
    told = json.loads(line)
    job = jobs[int(told["cell"])]
    for name in _TOLD:
        setattr(job, name, told[name])
    return job

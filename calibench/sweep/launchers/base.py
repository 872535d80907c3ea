"""The interface of a launcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from calibench.sweep.pool import Job


class Launcher(Protocol):
    """Runs jobs somewhere and reports their progress."""

    @property
    def size(self) -> int:
        """Number of jobs at a time."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Run all jobs; yields each job whose state changed, and None after a while without a change."""

    def log(self, job: Job) -> Path:
        """The log file of a job."""

    def close(self) -> None:
        """Release the processes, or leave SLURM's to go on."""

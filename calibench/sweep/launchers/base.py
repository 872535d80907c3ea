"""What the verb `sweep` needs of a launcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from calibench.sweep.pool import Job


class Launcher(Protocol):
    """Runs cells somewhere and tells how far they are."""

    @property
    def size(self) -> int:
        """How many cells run at a time."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Run all jobs; yields each job whose state changed, and None when nothing did for a while."""

    def log(self, job: Job) -> Path:
        """Where the output of a job goes."""

    def close(self) -> None:
        """Stop."""

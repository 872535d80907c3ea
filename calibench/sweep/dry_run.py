"""Dry run of a sweep: its jobs, which of them are done, and the time that the others will take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from calibench.sweep.durations import expected_seconds
from calibench.sweep.plan import runs_of
from calibench.sweep.pool import Job


def listing(jobs: Sequence[Job], root: Path, at_a_time: int, how: str) -> Iterator[str]:
    """One line for each job, then their number and the time left when `at_a_time` jobs run together."""
    runs = runs_of(jobs, root)
    done = {position for position, run in runs.items() if run.done}
    for position, job in enumerate(jobs):
        yield f"{job.label}{' (done)' if position in done else ''}"
    counted = f"{len(jobs)} cells"
    left = len(jobs) - len(done)
    if not left:
        yield f"{counted}, all done"
        return
    yield f"{counted}, {len(done)} done, {_time(expected_seconds(len(jobs), runs), at_a_time, how)}"


def _time(expected: Sequence[float | None], at_a_time: int, how: str) -> str:
    """The time left in words."""
    known = [seconds for seconds in expected if seconds is not None]
    if len(known) < len(expected):
        return "time unknown until a cell of each benchmark and network is done"
    left = sum(seconds > 0 for seconds in known)
    total = timedelta(seconds=round(sum(known) / min(at_a_time, max(1, left))))
    return f"about {total} left {how}"

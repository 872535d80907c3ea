"""Durations of jobs, from finished runs of the same benchmark and network, and the time that a sweep still takes."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from calibench.runs.durations import RunDuration, describe_seconds, mean_duration
from calibench.sweeps.pool import Job


def estimate_durations(jobs: Sequence[Job], root: Path) -> None:
    """Give each job the seconds that it is expected to take, from the finished runs of its benchmark and network."""
    means: dict[tuple[str, str], RunDuration | None] = {}
    for job in jobs:
        if job.kind not in means:
            means[job.kind] = mean_duration(root.joinpath(*job.kind))
        duration = means[job.kind]
        if duration is not None and job.planned_epochs is not None:
            job.estimate = duration.seconds(job.planned_epochs)


def time_left(jobs: Sequence[Job], at_a_time: int) -> str:
    """How long the jobs that are not finished take, so many at a time: `about 7:30`, or `?`.

    A job takes what those of its benchmark and network took in this sweep, or else in earlier ones. Before any of
    them is done its epochs alone are known, not its evaluation: `at least 1:29`.
    """
    unfinished = [job for job in jobs if job.state in ("queued", "running")]
    durations_by_kind = _whole_durations(jobs)
    by_epochs = _means((job.kind, job.seconds_by_epochs) for job in jobs)
    seconds: list[float] = []
    is_whole = True
    for job in unfinished:
        expected = durations_by_kind.get(job.kind, job.estimate)
        if expected is None:
            is_whole = False
            expected = job.seconds_by_epochs or by_epochs.get(job.kind)
        if expected is None:
            return "?"
        elapsed = time.monotonic() - job.started if job.state == "running" else 0.0
        seconds.append(max(0.0, expected - elapsed))
    return f"{'about' if is_whole else 'at least'} {describe_seconds(schedule(seconds, at_a_time))}"


def schedule(seconds: Sequence[float], at_a_time: int) -> float:
    """When the last of several jobs ends, if each starts, in their order, where one ended."""
    ends = [0.0] * max(1, at_a_time)
    for duration in seconds:
        heapq.heappush(ends, heapq.heappop(ends) + duration)
    return max(ends)


def _whole_durations(jobs: Sequence[Job]) -> dict[tuple[str, str], float]:
    """Mean seconds of the jobs that this sweep finished, by benchmark and network."""
    return _means((job.kind, job.seconds) for job in jobs if job.state == "done")


def _means(
    values: Iterable[tuple[tuple[str, str], float | None]],
) -> dict[tuple[str, str], float]:
    by_kind: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind, value in values:
        if value is not None:
            by_kind[kind].append(value)
    return {kind: fmean(seconds) for kind, seconds in by_kind.items()}

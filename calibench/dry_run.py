"""What `calibench sweep --dry-run` says: the cells, which of them are done, how long the others take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from calibench.cells import runs_of
from calibench.pool import Job
from calibench.runs import CorruptRun, Run, read_json


def listing(jobs: Sequence[Job], root: Path, at_a_time: int) -> Iterator[str]:
    """One line a cell, then the sum."""
    runs = runs_of(jobs, root)
    done = {position for position, run in runs.items() if run.done}
    for position, job in enumerate(jobs):
        yield f"{job.label}{' (done)' if position in done else ''}"
    counted = f"{len(jobs)} cells"
    left = len(jobs) - len(done)
    if not left:
        yield f"{counted}, all done"
        return
    yield f"{counted}, {len(done)} done, {_time(jobs, runs, done, at_a_time)}"


def _time(jobs: Sequence[Job], runs: dict[int, Run], done: set[int], at_a_time: int) -> str:
    """The time left, from the finished cells of the suite with the same benchmark and network."""
    seconds: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for position in done:
        took = _seconds(runs[position])
        if took is not None:
            seconds[_like(runs, position)].append(took)
    left = [position for position in range(len(jobs)) if position not in done]
    if any(_like(runs, position) not in seconds for position in left):
        return "time unknown until a cell of each benchmark and network is done"
    total = sum(fmean(seconds[_like(runs, position)]) for position in left)
    return f"about {timedelta(seconds=round(total / min(at_a_time, len(left))))} left with --jobs {at_a_time}"


def _like(runs: dict[int, Run], position: int) -> tuple[str, ...]:
    return runs[position].folder.parts[-5:-3] if position in runs else ()


def _seconds(run: Run) -> float | None:
    try:
        return float(read_json(run.folder / "environment.json")["wall_seconds"])
    except (CorruptRun, KeyError, TypeError, ValueError):
        return None

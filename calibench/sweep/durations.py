"""Expected durations of jobs, from similar runs that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean

from calibench.runs import CorruptRun, Run, read_json


def expected_seconds(count: int, runs: Mapping[int, Run]) -> list[float | None]:
    """Expected seconds of each of `count` jobs: the mean of finished runs with the same benchmark and network.

    Args:
        count: The number of jobs.
        runs: Their run folders by position, as far as known.

    Returns:
        Seconds; 0 for a job that is done, None if no similar run is.
    """
    done = {position for position, run in runs.items() if run.done}
    took: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for position in done:
        took[_like(runs, position)] += _seconds(runs[position])

    def expected(position: int) -> float | None:
        if position in done:
            return 0.0
        alike = took.get(_like(runs, position))
        return fmean(alike) if alike else None

    return [expected(position) for position in range(count)]


def _like(runs: Mapping[int, Run], position: int) -> tuple[str, ...]:
    """The benchmark and the network of a job, which similar runs share."""
    return runs[position].folder.parts[-5:-3] if position in runs else ()


def _seconds(run: Run) -> Iterator[float]:
    try:
        yield float(read_json(run.folder / "environment.json")["wall_seconds"])
    except (CorruptRun, KeyError, TypeError, ValueError):
        return

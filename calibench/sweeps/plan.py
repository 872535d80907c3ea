"""Run folders of jobs, from which one sees what is done, and the time that the others will take."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from glob import escape
from pathlib import Path
from statistics import fmean

from calibench.configuration.merging import short_name, to_class_block
from calibench.runs import CorruptRun, Run, RunId, read_json
from calibench.sweeps.pool import Job


def find_runs(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """The run folders of jobs, by position, for those whose benchmark and loss have results below `root`.

    A key needs the resolved configuration and so torch, which is imported only if there is something to find.
    Jobs that differ in nothing but the seed are resolved once.
    """
    cells: dict[str, RunId | None] = {}
    runs: dict[int, Run] = {}
    for position, job in enumerate(jobs):
        same = json.dumps({**job.config, "seed_everything": None}, sort_keys=True, default=str)
        if same not in cells:
            cells[same] = _resolve_run_id(job) if _may_have_results(job, root) else None
        if cell := cells[same]:
            runs[position] = Run(cell._replace(seed=job.seed).folder(root))
    return runs


def _resolve_run_id(job: Job) -> RunId:
    from calibench.training.experiment import Experiment

    return Experiment(job.config).run_id


def _may_have_results(job: Job, root: Path) -> bool:
    """Whether there is a folder of the job's benchmark and of its loss."""
    loss = (to_class_block((job.config.get("model") or {}).get("loss")) or {}).get("class_path")
    # one that fulfils no contract of ours goes by its whole path
    patterns = (escape(short_name(str(loss))), escape(str(loss))) if loss else ("*",)
    return any(any((root / job.benchmark).glob(f"*/{pattern}")) for pattern in patterns)


def estimate_seconds(count: int, runs: Mapping[int, Run]) -> list[float | None]:
    """Expected seconds of each of `count` jobs: the mean of finished runs with the same benchmark and network.

    0 for a job that is done, None if no similar run is; run folders are by position, as far as known.
    """
    positions_done = {position for position, run in runs.items() if run.done}
    kinds = {position: run.folder.parts[-5:-3] for position, run in runs.items()}
    took: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for position in positions_done:
        with suppress(CorruptRun, KeyError, TypeError, ValueError):
            environment = read_json(runs[position].folder / "environment.json")
            took[kinds[position]].append(float(environment["wall_seconds"]))
    means = {kind: fmean(seconds) for kind, seconds in took.items()}
    return [0.0 if n in positions_done else means.get(kinds.get(n, ())) for n in range(count)]


def list_jobs(jobs: Sequence[Job], root: Path, at_a_time: int, scope: str) -> Iterator[str]:
    """One line for each job, then their number and the time left when `at_a_time` jobs run together."""
    runs = find_runs(jobs, root)
    positions_done = {position for position, run in runs.items() if run.done}
    for position, job in enumerate(jobs):
        yield f"{job.label}{' (done)' if position in positions_done else ''}"
    if len(positions_done) == len(jobs):
        yield f"{len(jobs)} cells, all done"
        return
    time = _describe_time(estimate_seconds(len(jobs), runs), at_a_time, scope)
    yield f"{len(jobs)} cells, {len(positions_done)} done, {time}"


def _describe_time(expected: Sequence[float | None], at_a_time: int, scope: str) -> str:
    estimates = [seconds for seconds in expected if seconds is not None]
    if len(estimates) < len(expected):
        return "time unknown until a cell of each benchmark and network is done"
    left = sum(seconds > 0 for seconds in estimates)
    total = timedelta(seconds=round(sum(estimates) / min(at_a_time, max(1, left))))
    return f"about {total} left {scope}"

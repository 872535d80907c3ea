"""Run folders of jobs, from which one sees what is done, and the time that the others will take."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path

from calibench.configuration.merging import short_name, to_class_block
from calibench.messages.printable_text import count_of
from calibench.runs import Run, RunId
from calibench.runs.durations import describe_seconds
from calibench.runs.folder import check_loss_folder
from calibench.runs.requests import digest_request, find_requested_runs
from calibench.sweeps.durations import estimate_durations, schedule
from calibench.sweeps.pool import Job


def find_runs(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """The run folders of jobs, by position, for those whose benchmark and loss have results below `root`.

    A key needs the resolved configuration and so torch, which is imported only if there is something to find.
    Jobs that differ in nothing but the seed are resolved once.
    """
    return locate_runs(jobs, root, among=lambda job: _may_have_results(job, root))


def locate_runs(
    jobs: Sequence[Job], root: Path, *, among: Callable[[Job], bool] = lambda job: True
) -> dict[int, Run]:
    """The run folders of jobs, by position, whether they are there or not; this resolves configurations."""
    cells: dict[str, RunId | None] = {}
    runs: dict[int, Run] = {}
    for position, job in enumerate(jobs):
        same = json.dumps({**job.config, "seed_everything": None}, sort_keys=True, default=str)
        if same not in cells:
            cells[same] = _resolve_run_id(job) if among(job) else None
        if cell := cells[same]:
            runs[position] = Run(cell._replace(seed=job.seed).folder(root))
            check_loss_folder(runs[position].folder)
    return runs


def find_requested(jobs: Sequence[Job], root: Path) -> dict[int, Run]:
    """The finished runs of jobs, by position, that were asked for by the same configurations."""
    digests = [digest_request(job.config) for job in jobs]
    runs: dict[str, Run] = {}
    for benchmark in {job.benchmark for job in jobs}:
        runs |= find_requested_runs(root / benchmark, set(digests))
    return {n: runs[digest] for n, digest in enumerate(digests) if digest in runs}


def _resolve_run_id(job: Job) -> RunId:
    from calibench.training.experiment import Experiment

    return Experiment(job.config).run_id


def _may_have_results(job: Job, root: Path) -> bool:
    """Whether there is a folder of the job's benchmark and of its loss."""
    loss = (to_class_block((job.config.get("model") or {}).get("loss")) or {}).get("class_path")
    # one that fulfils no contract of ours goes by its whole path
    patterns = (escape(short_name(str(loss))), escape(str(loss))) if loss else ("*",)
    return any(any((root / job.benchmark).glob(f"*/{pattern}")) for pattern in patterns)


def expected_seconds(
    jobs: Sequence[Job], runs: Mapping[int, Run], root: Path
) -> list[float | None]:
    """Expected seconds of each job, by the finished runs of its benchmark and network; 0 for a job that is done.

    None if no such run is; run folders are by position, as far as known.
    """
    estimate_durations(jobs, root)
    finished = {position for position, run in runs.items() if run.done}
    return [0.0 if n in finished else job.estimate for n, job in enumerate(jobs)]


def list_jobs(jobs: Sequence[Job], root: Path, at_a_time: int, scope: str) -> Iterator[str]:
    """One line for each job, then their number and the time left when `at_a_time` jobs run together.

    A run that was asked for by the same configuration is found by it; others are resolved, which takes torch, and said.
    """
    runs = find_requested(jobs, root)
    others = [position for position in range(len(jobs)) if position not in runs]
    resolved = find_runs([jobs[position] for position in others], root)
    runs |= {others[place]: run for place, run in resolved.items()}
    positions_done = {position for position, run in runs.items() if run.done}
    for position, job in enumerate(jobs):
        yield f"{job.label}{' (done)' if position in positions_done else ''}"
    if resolved:
        cells = "1 cell was" if len(resolved) == 1 else f"{len(resolved)} cells were"
        yield f"{cells} resolved: no finished run says that it is of this configuration"
    if len(positions_done) == len(jobs):
        yield f"{count_of(len(jobs), 'cell')}, all done"
        return
    time = _describe_time(expected_seconds(jobs, runs, root), at_a_time, scope)
    yield f"{count_of(len(jobs), 'cell')}, {len(positions_done)} done, {time}"


def _describe_time(expected: Sequence[float | None], at_a_time: int, scope: str) -> str:
    estimates = [seconds for seconds in expected if seconds is not None]
    if len(estimates) < len(expected):
        return "time unknown until a cell of each benchmark and network is done"
    left = schedule([seconds for seconds in estimates if seconds], at_a_time)
    return f"about {describe_seconds(left)} left {scope}"

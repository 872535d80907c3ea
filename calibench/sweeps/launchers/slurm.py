"""Launcher of SLURM: bundles of jobs in a job array, by submitit; their run folders show how far they are."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from calibench.configuration.merging import Config
from calibench.files.atomic_files import read_text
from calibench.messages.errors import ExpectedFailure
from calibench.messages.printable_text import say
from calibench.runs import Run, read_json, write_json
from calibench.runs.files import json_or_nothing, to_plain_data
from calibench.sweeps.launchers.sbatch import JobArray, count_requested_gpus
from calibench.sweeps.plan import expected_seconds, find_runs, locate_runs
from calibench.sweeps.pool import FINAL, Job, LauncherOptions, build_pool

# --- the work of a SLURM job ---


def cut_bundles(
    jobs: Sequence[tuple[Job, float | None]], *, minutes: float, at_a_time: int
) -> list[list[Job]]:
    """Cut a list of jobs, in order, into bundles that take at most `minutes` each, by the seconds of each job alone.

    A longer job gets a bundle of its own; one that takes nobody knows how long counts as a whole bundle. The time of a
    bundle is divided by the number of its jobs that run together.
    """
    room = 60 * minutes * at_a_time
    bundles: list[list[Job]] = []
    filled = room
    for job, expected in jobs:
        needed = 60 * minutes if expected is None else expected
        if not bundles or filled + needed > room:
            bundles.append([])
            filled = 0.0
        bundles[-1].append(job)
        filled += needed
    return bundles


@dataclass
class Bundle:
    """The work of one SLURM job: run several jobs, some of them together.

    submitit pickles the bundle and calls it; at a pre-emption or time-out it puts the result of `checkpoint` back into
    the queue.
    """

    jobs: list[Job]
    logs: Path
    where: LauncherOptions

    def __call__(self) -> None:
        """Run the jobs that are neither done nor failed; the output of the SLURM job names those that fail."""
        pool = build_pool(self.jobs, self.logs, self.where)
        # scancel and a time-out also end the running jobs; no other job must start in their place
        signal.signal(signal.SIGTERM, lambda *_: pool.drain())
        try:
            for job in pool.run(self.jobs):
                if job is not None and job.state == "failed":
                    say(f"{job.label} failed: {job.reason}")
        finally:
            pool.close()

    def checkpoint(self) -> Any:
        """The bundle for submitit's queue; jobs that were cut short go on from their last checkpoints."""
        from submitit.helpers import DelayedSubmission

        for job in self.jobs:
            if job.state in ("running", "waiting") or job.reason.startswith(_CUT_SHORT):
                job.state, job.reason = "queued", ""
        return DelayedSubmission(self)


# --- the jobs, seen from the process that submitted them ---

FOLDER_POLL_SECONDS = (
    2.0  # between two looks at the run folders, which are on a file system of several machines
)
ASKED_EVERY = 15.0  # seconds between two calls of `squeue`
_RECORD = "submission.json"
_CUT_SHORT = "terminated"  # begins the reason of a run that a signal ended


@dataclass
class JobFolder:
    """The run folder of a job, which shows how far it is; a failure from before the sweep is not the job's."""

    job: Job
    run: Run

    def __post_init__(self) -> None:
        self._earlier = self.run.status

    def update(self) -> bool:
        """Update the job by its folder; whether it changed.

        One that was cut short is in the queue again, unless its SLURM job is over.
        """
        job, status = self.job, self.run.status
        before = (job.state, job.epoch, job.reason)
        state, reason = status.get("status"), str(status.get("reason") or "")
        if state in ("done", "trial"):
            job.state, job.reason, job.seconds = "done", "", self._wall_seconds()
        elif state == "running":
            if job.state != "running":
                job.started = time.monotonic()
            job.reached(self._epochs(), job.planned_epochs or 0)
        elif state == "failed" and reason.startswith(_CUT_SHORT):
            job.state, job.reason = "queued", ""
        elif state == "failed" and status != self._earlier:
            job.state, job.reason = "failed", reason
        return before != (job.state, job.epoch, job.reason)

    def _epochs(self) -> int:
        """The epochs that are done: the training curve has a line of each."""
        try:
            return max(0, len(read_text(self.run.folder / "metrics.csv").splitlines()) - 1)
        except OSError:
            return 0

    def _wall_seconds(self) -> float:
        environment = json_or_nothing(self.run.folder / "environment.json")
        return float(environment.get("wall_seconds") or 0.0)


@dataclass
class ArrayTask:
    """One task of a job array, by its number in it, the folder of its output, and those of our jobs that it runs."""

    array: str
    number: int
    folder: Path
    jobs: list[Job]

    @property
    def is_finished(self) -> bool:
        """Whether all of its jobs are done or failed."""
        return all(job.state in FINAL for job in self.jobs)

    def give_up(self, state: str) -> Iterator[Job]:
        """Mark the unfinished jobs as failed, as their SLURM job is over; yields them."""
        for job in self.jobs:
            if job.state not in FINAL:
                job.state = "failed"
                job.reason = f"task {self.number} of SLURM job {self.array} is over ({state}); see {self.folder}"
                yield job


def wait_for_tasks(
    tasks: Sequence[ArrayTask], folders: Mapping[int, JobFolder]
) -> Iterator[Job | None]:
    """Look at run folders, by `id` of their job, until every job is done or failed.

    Yields each job that changed, and None after a while without a change. A job whose task is over has failed, also
    where its folder does not say so.
    """
    last_query = time.monotonic()
    while left := [task for task in tasks if not task.is_finished]:
        ended_states: dict[str, Callable[[int], str]] = {}
        if (
            time.monotonic() - last_query > ASKED_EVERY
        ):  # before a look, which sees what ended meanwhile
            ended_states = {name: ended(name) for name in {task.array for task in left}}
            last_query = time.monotonic()
        waiting = [job for task in left for job in task.jobs if job.state not in FINAL]
        yield from (job for job in waiting if folders[id(job)].update())
        for task in left:
            if task.array in ended_states and (state := ended_states[task.array](task.number)):
                yield from task.give_up(state)
        yield None
        time.sleep(FOLDER_POLL_SECONDS)


def record(folder: Path, array: str, tasks: Sequence[ArrayTask]) -> None:
    """Record the configurations of a job array's runs, so that a later sweep finds them."""
    cells = [[job.config for job in task.jobs] for task in tasks]
    write_json(folder / _RECORD, {"array": array, "cells": cells})


def recorded(folder: Path, jobs: Sequence[Job]) -> Iterator[ArrayTask]:
    """Tasks of earlier submissions below `folder` that are queued or running and have some of the jobs."""
    jobs_by_text = {_text(job.config): job for job in jobs}
    for path in sorted(folder.glob(f"*/{_RECORD}")):
        content = read_json(path)
        array, states = content["array"], ended(content["array"])
        alive = [number for number in range(len(content["cells"])) if not states(number)]
        if not alive:
            path.rename(path.with_name("ended.json"))
        for number in alive:
            texts = map(_text, content["cells"][number])
            task_jobs = [jobs_by_text[text] for text in texts if text in jobs_by_text]
            if task_jobs:
                yield ArrayTask(array, number, path.parent, task_jobs)


def _text(config: Config) -> str:
    """A configuration as text that is the same before and after it was written to a file."""
    return json.dumps(to_plain_data(config), sort_keys=True, default=str)


_OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
)  # fmt: skip


def ended(array: str) -> Callable[[int], str]:
    """From the number of a task of a job array to the state in which it ended; empty if it did not, or is unknown.

    This asks `squeue`, which every cluster has (an ExpectedFailure without); `sacct` needs an accounting database.
    `squeue` forgets tasks that ended minutes ago; they count as over. The only task of a single job is 0.
    """
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={array}"]  # fmt: skip
    try:
        reply = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return lambda task: ""
    except OSError as error:
        raise ExpectedFailure(
            "`squeue` was not found: is this a machine of a SLURM cluster?"
        ) from error
    if reply.returncode and "Invalid job id" not in reply.stderr:
        return lambda task: ""  # SLURM does not answer; its jobs may run all the same
    named = (line.partition("|") for line in reply.stdout.split())
    states = {int(name.partition("_")[2] or 0): state for name, _, state in named}
    end_states = {task: state if state in _OVER else "" for task, state in states.items()}
    return lambda task: end_states.get(task, "ended")


@dataclass
class Slurm:
    """Runs jobs in a SLURM job array, with the methods of a `Pool`; nodes share the folder of results.

    Jobs that are done are checked on this machine, as in a local sweep. Jobs that an earlier sweep submitted and that
    are still queued or running are waited for and not submitted again. The options are submitit's.

    By default so many cells run together in a SLURM job as its GPUs hold, or as it has `cpus_per_task`; where cells
    share a GPU, it has one GPU unless the options say more.
    """

    root: Path
    options: Config
    where: LauncherOptions = field(default_factory=LauncherOptions)
    _tasks: list[ArrayTask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logs = self.root.absolute() / "logs"
        self._folder = self.logs / "slurm"
        self._asked = {**self.options}
        if self.where.cells_per_gpu is not None and not count_requested_gpus(self.options):
            self._asked["gpus_per_node"] = 1
        gpus = count_requested_gpus(self._asked)
        fit = gpus * (self.where.cells_per_gpu or 1) or int(self._asked.get("cpus_per_task", 1))
        self._at_once = self.where.jobs or fit
        if not gpus:
            self.where = replace(self.where, jobs=self._at_once)
            self._asked.setdefault("cpus_per_task", self._at_once)

    @property
    def size(self) -> int:
        """Number of jobs that run now."""
        return sum(job.state == "running" for task in self._tasks for job in task.jobs)

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Submit the jobs and wait for them; yields each that changed, and None after a while without a change."""
        located = locate_runs(jobs, self.root)
        folders = {id(job): JobFolder(job, located[place]) for place, job in enumerate(jobs)}
        finished = self.submit(jobs)
        if finished:
            pool = build_pool(finished, self.logs, LauncherOptions(jobs=1))
            try:
                yield from pool.run(finished)
            finally:
                pool.close()
        yield from wait_for_tasks(self._tasks, folders)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Submit the jobs that are neither done nor in a SLURM job already. Returns those that are done."""
        self._tasks = list(recorded(self._folder, jobs))
        watched = {id(job) for task in self._tasks for job in task.jobs}
        bundles, finished = self._bundles([job for job in jobs if id(job) not in watched])
        if bundles:
            self._submit(bundles)
        return finished

    def script(self, jobs: Sequence[Job]) -> tuple[int, str]:
        """The number of SLURM jobs for what is not done, and the script that starts them."""
        bundles, _ = self._bundles(jobs)
        return len(bundles), self._array(self._folder / "TIME").script(len(bundles))

    def close(self) -> None:
        """Report which SLURM jobs go on after this process."""
        for array in dict.fromkeys(task.array for task in self._tasks if not task.is_finished):
            ways = f"the same command waits for it, `scancel {array}` ends it"
            say(f"calibench: SLURM job {array} goes on; {ways}.", to=sys.stderr)

    def _bundles(self, jobs: Sequence[Job]) -> tuple[list[list[Job]], list[Job]]:
        """The jobs that are not done, by the SLURM job that they share, and those that are."""
        runs = find_runs(jobs, self.root)
        seconds = expected_seconds(jobs, runs, self.root)
        finished = {position for position, run in runs.items() if run.done}
        left = [(job, seconds[n]) for n, job in enumerate(jobs) if n not in finished]
        bundles = cut_bundles(left, minutes=self.where.minutes_per_job, at_a_time=self._at_once)
        return bundles, [jobs[position] for position in sorted(finished)]

    def _array(self, folder: Path) -> JobArray:
        # Twice the expected time, which is a mean; a job that runs into the limit goes on in a second one.
        return JobArray(folder, self._asked, minutes=ceil(2 * self.where.minutes_per_job))

    def _submit(self, bundles: Sequence[list[Job]]) -> None:
        folder = self._folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        folder.mkdir(parents=True)
        works = [Bundle(jobs, self.logs, self.where) for jobs in bundles]
        array = self._array(folder).submit(works)
        tasks = [ArrayTask(array, n, folder, work.jobs) for n, work in enumerate(works)]
        record(folder, array, tasks)
        self._tasks += tasks

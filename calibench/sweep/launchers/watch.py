"""Watching of SLURM jobs: the events that bundles write to files, and the states in the queue."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibench.config import Config
from calibench.runs import read_json, write_json
from calibench.runs.files import plain
from calibench.sweep.launchers.bundles import update
from calibench.sweep.launchers.queue import ended
from calibench.sweep.pool import FINAL, Job

ASKED_EVERY = 15.0  # seconds between two calls of `squeue`
_RECORD = "submission.json"


@dataclass
class ArrayTask:
    """One task of a job array.

    Attributes:
        array: Number of the array.
        number: Its own number within it.
        events: The file to which its bundle reports.
        jobs: Its jobs.
        read: Number of bytes of the file that were read.
    """

    array: str
    number: int
    events: Path
    jobs: list[Job]
    read: int = 0

    @property
    def over(self) -> bool:
        """Whether all of its jobs are done or failed."""
        return all(job.state in FINAL for job in self.jobs)

    def news(self) -> Iterator[Job]:
        """Update the jobs from new events; yields those that changed."""
        if not self.events.exists():
            return
        with self.events.open("rb") as file:
            file.seek(self.read)
            while (line := file.readline()).endswith(b"\n"):
                self.read += len(line)
                job = update(self.jobs, line.decode())
                job.started = time.monotonic() - job.seconds
                yield job

    def give_up(self, state: str) -> Iterator[Job]:
        """Mark the unfinished jobs as failed, as their SLURM job is over; yields them."""
        yield from self.news()
        for job in self.jobs:
            if job.state not in FINAL:
                job.state = "failed"
                job.reason = f"task {self.number} of SLURM job {self.array} is over ({state}); see {self.events.parent}"
                yield job


def watch(tasks: Sequence[ArrayTask]) -> Iterator[Job | None]:
    """Watch until every job is done or failed; yields each that changed, and None after a while without a change."""
    asked = time.monotonic()
    while left := [task for task in tasks if not task.over]:
        yield from (job for task in left for job in task.news())
        if time.monotonic() - asked > ASKED_EVERY:
            yield from _lost(left)
            asked = time.monotonic()
        yield None
        time.sleep(0.5)


def _lost(tasks: Sequence[ArrayTask]) -> Iterator[Job]:
    for array in dict.fromkeys(task.array for task in tasks):
        states = ended(array)
        for task in tasks:
            if task.array == array and (state := states(task.number)):
                yield from task.give_up(state)


def record(folder: Path, array: str, tasks: Sequence[ArrayTask]) -> None:
    """Record the configurations of a job array's runs, so that a later sweep finds them."""
    cells = [[job.config for job in task.jobs] for task in tasks]
    write_json(folder / _RECORD, {"array": array, "cells": cells})


def recorded(folder: Path, jobs: Sequence[Job]) -> Iterator[ArrayTask]:
    """Tasks of earlier submissions below `folder` that are queued or running and have some of the jobs."""
    wanted = {_text(job.config): job for job in jobs}
    for path in sorted(folder.glob(f"*/{_RECORD}")):
        content = read_json(path)
        array, states = content["array"], ended(content["array"])
        alive = [number for number in range(len(content["cells"])) if not states(number)]
        if not alive:
            path.rename(path.with_name("ended.json"))
        for number in alive:
            cells = content["cells"][number]
            if any(_text(config) in wanted for config in cells):
                theirs = [wanted.get(_text(config)) or Job("", "", 0, config) for config in cells]
                yield ArrayTask(array, number, path.with_name(f"{number}.jsonl"), theirs)


def _text(config: Config) -> str:
    """A configuration as text that is the same before and after it was written to a file."""
    return json.dumps(plain(config), sort_keys=True, default=str)

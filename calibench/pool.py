"""Warm worker processes that run one cell after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from calibench.config import Terminated, UsageError

State = Literal["queued", "running", "done", "skipped", "failed"]
_SYMBOLS: dict[str, str] = {"queued": "·", "done": "✓", "skipped": "✓ before", "failed": "✗ failed"}


@dataclass
class Job:
    """One cell of a sweep: what `calibench fit` is called with, and how far it is."""

    benchmark: str
    loss: str
    seed: int
    arguments: list[str]
    state: State = "queued"
    epoch: int = 0
    epochs: int = 0
    started: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    variant: str = ""

    @property
    def row(self) -> str:
        """The loss, and what tells the job from others of it: `focal gamma=3`."""
        return f"{self.loss} {self.variant}".rstrip()

    @property
    def label(self) -> str:
        """`digits_lt focal seed=1`."""
        return f"{self.benchmark} {self.row} seed={self.seed}"

    @property
    def text(self) -> str:
        """What the live table shows."""
        if self.state == "running":
            return f"{self.epoch}/{self.epochs or '?'}"
        return f"✓ {self.seconds:.0f} s" if self.state == "done" else _SYMBOLS[self.state]


def _work(connection: Connection) -> None:
    """A worker: runs the cells it is sent until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        _run_cell(connection, *task)


def _run_cell(connection: Connection, arguments: list[str], log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    from calibench import training

    try:
        outcome, _ = training.fit(
            arguments, report=lambda done, total: connection.send(("epoch", done, total))
        )
        connection.send(("end", outcome, ""))
    except Terminated:
        raise SystemExit(143) from None
    except Exception as error:
        if not isinstance(error, UsageError):
            traceback.print_exc()
        connection.send(("end", "failed", " ".join(str(error).split()) or type(error).__name__))


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    job: Job | None = None


@dataclass
class Pool:
    """Warm processes that run jobs one after another; closing it ends them."""

    size: int
    logs: Path
    workers: list[_Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        if "forkserver" in methods:
            self._context.set_forkserver_preload(["calibench.training"])
        self.logs.mkdir(parents=True, exist_ok=True)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self.workers.append(worker)
        return worker

    def log(self, job: Job) -> Path:
        """Where the output of a job goes."""
        return self.logs / (job.label.replace("/", "_").replace(" ", "-") + ".log")

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Run all jobs; yields each job whose state changed, and None when nothing did for a while."""
        queue = [job for job in jobs if job.state == "queued"]
        for _ in range(min(self.size, len(queue))):
            yield self._give(self._start(), queue.pop(0))
        while busy := [worker for worker in self.workers if worker.job is not None]:
            ready = wait([worker.connection for worker in busy], timeout=0.5)
            if not ready:
                yield None
            for worker in busy:
                if worker.connection in ready:
                    yield from self._receive(worker, queue)

    def _give(self, worker: _Worker, job: Job) -> Job:
        worker.job, job.state, job.started = job, "running", time.monotonic()
        worker.connection.send((job.arguments, str(self.log(job))))
        return job

    def _receive(self, worker: _Worker, queue: list[Job]) -> Iterator[Job]:
        job = worker.job
        assert job is not None
        try:
            kind, first, second = worker.connection.recv()
        except (EOFError, OSError):
            kind, first, second = "end", "failed", "its process died"
            self.workers.remove(worker)
            worker = self._start() if queue else worker
        if kind == "epoch":
            job.epoch, job.epochs = first, second
            yield job
            return
        worker.job = None
        job.state, job.reason, job.seconds = first, second, time.monotonic() - job.started
        yield job
        if queue:
            yield self._give(worker, queue.pop(0))

    def close(self) -> None:
        """End the workers: politely, then not."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(timeout=10)
            if worker.process.is_alive():
                worker.process.kill()

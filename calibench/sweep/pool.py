"""Warm worker processes that run one cell after another."""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, NoReturn

from calibench.config import Terminated, UsageError
from calibench.processes import warm_context

TERMINATED = "terminated (SIGTERM)"

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
    def log_name(self) -> str:
        """The file of what it prints."""
        return self.label.replace("/", "_").replace(" ", "-") + ".log"

    @property
    def text(self) -> str:
        """What the live table shows."""
        if self.state == "running":
            return f"{self.epoch}/{self.epochs or '?'}"
        return f"✓ {self.seconds:.0f} s" if self.state == "done" else _SYMBOLS[self.state]


def _work(connection: Connection, device: str | None) -> None:
    """A worker: runs the cells it is sent until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, _terminate)
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]  # a cell is one process; Lightning would take it for a task of SLURM's
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        while True:
            _run_cell(connection, *connection.recv())
    except EOFError:
        return
    except Terminated:
        raise SystemExit(143) from None


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def _run_cell(connection: Connection, arguments: list[str], log: str) -> None:
    try:
        _write_to(log)
        from calibench.training.fit import fit

        outcome, _ = fit(
            arguments, report=lambda done, total: connection.send(("epoch", done, total))
        )
        connection.send(("end", outcome, ""))
    except Terminated:
        with suppress(OSError):
            connection.send(("last", "failed", TERMINATED))
        raise SystemExit(143) from None
    except Exception as error:
        if not isinstance(error, UsageError):
            traceback.print_exc()
        connection.send(("end", "failed", " ".join(str(error).split()) or type(error).__name__))
    finally:
        # A trainer, its module and its data refer to each other: their memory, a GPU's too, would stay on.
        gc.collect()


def _write_to(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


@contextmanager
def _for_the_parent_only(*signals: signal.Signals) -> Iterator[None]:
    """Processes started inside never see these signals, which SLURM sends to every process of a job."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    device: str | None
    job: Job | None = None


@dataclass
class Pool:
    """Warm processes that run jobs one after another; closing it ends them.

    Attributes:
        size: How many run at a time.
        logs: Folder of what they print.
        devices: GPUs, as CUDA_VISIBLE_DEVICES names them, dealt out to the processes in turn; none for all to see all.
    """

    size: int
    logs: Path
    devices: Sequence[str] = ()
    workers: list[_Worker] = field(default_factory=list)
    queue: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._context: Any = warm_context(["calibench.training.fit"])

    def _start(self, device: str | None) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, device), daemon=True)
        with _for_the_parent_only(signal.SIGUSR1, signal.SIGUSR2):
            process.start()
        theirs.close()
        worker = _Worker(process, ours, device)
        self.workers.append(worker)
        return worker

    def log(self, job: Job) -> Path:
        """Where the output of a job goes."""
        return self.logs / job.log_name

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Run all jobs; yields each job whose state changed, and None when nothing did for a while."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.queue = [job for job in jobs if job.state == "queued"]
        for number in range(min(self.size, len(self.queue))):
            device = self.devices[number % len(self.devices)] if self.devices else None
            yield self._give(self._start(device), self.queue.pop(0))
        while busy := [worker for worker in self.workers if worker.job is not None]:
            ready = wait([worker.connection for worker in busy], timeout=0.5)
            if not ready:
                yield None
            for worker in busy:
                if worker.connection in ready:
                    yield from self._receive(worker)

    def drain(self) -> None:
        """Start no further job; those that run go on."""
        self.queue.clear()

    def _give(self, worker: _Worker, job: Job) -> Job:
        worker.job, job.state, job.started = job, "running", time.monotonic()
        worker.connection.send((job.arguments, str(self.log(job))))
        return job

    def _receive(self, worker: _Worker) -> Iterator[Job]:
        job = worker.job
        assert job is not None
        try:
            kind, first, second = worker.connection.recv()
        except (EOFError, OSError):
            kind, first, second = "last", "failed", "its process died"
        if kind == "epoch":
            job.epoch, job.epochs = first, second
            yield job
            return
        worker.job = None
        job.state, job.reason, job.seconds = first, second, time.monotonic() - job.started
        yield job
        if kind == "last":
            self.workers.remove(worker)
        if self.queue:
            free = self._start(worker.device) if kind == "last" else worker
            yield self._give(free, self.queue.pop(0))

    def close(self) -> None:
        """End the workers: politely, then not."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(timeout=10)
            if worker.process.is_alive():
                worker.process.kill()

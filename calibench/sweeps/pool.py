"""A pool of worker processes, each of which runs one job after another, and that of this machine."""

import errno
import gc
import math
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any, Literal

from calibench.configuration.merging import Config, class_title, to_class_block
from calibench.messages.checks import Count, positive
from calibench.messages.errors import UsageError, one_line
from calibench.messages.spelling import command_line_spelling, is_command_line, spell_argument
from calibench.parallel.processes import (
    Terminated,
    cause_of_death,
    cores,
    end_with_parent,
    keep_imports,
    unwinding,
    warm_context,
    without_main_module,
)
from calibench.runs import Busy

RETRIED_AFTER = 5.0  # seconds until a run that another process trains is tried again
WORKER_POLL_SECONDS = 0.5  # after which waiting and overdue runs are looked at
_GRACE = 10.0  # seconds that a process gets to end by itself

State = Literal["queued", "waiting", "running", "done", "skipped", "failed"]
FINAL = ("done", "skipped", "failed")
_SYMBOLS: dict[str, str] = {"queued": "·", "done": "✓", "skipped": "✓ before", "failed": "✗ failed"}


@dataclass
class Job:
    """A planned run of a sweep: its configuration and its progress.

    A job whose run another process trains is `waiting`; its reason names that process. `first_epoch` is where it began,
    or went on, and `first_epoch_at` when. `estimate` is how many seconds it takes by finished runs of its network.
    """

    benchmark: str
    loss: str
    seed: int
    config: Config
    state: State = "queued"
    epoch: int = 0
    epochs: int = 0
    started: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    variant: str = ""
    first_epoch: int | None = None
    first_epoch_at: float = 0.0
    estimate: float | None = None

    def reached(self, epoch: int, epochs: int) -> None:
        """Note how many epochs are done, of how many, now."""
        self.state, self.reason, self.epoch, self.epochs = "running", "", epoch, epochs
        if self.first_epoch is None:
            self.first_epoch, self.first_epoch_at = epoch, time.monotonic()

    @property
    def seconds_by_epochs(self) -> float | None:
        """Seconds that the training takes, by its epochs so far; the evaluation is not in them."""
        if self.state != "running" or self.first_epoch is None or self.epoch == self.first_epoch:
            return None
        an_epoch = (time.monotonic() - self.first_epoch_at) / (self.epoch - self.first_epoch)
        return self.first_epoch_at - self.started + an_epoch * (self.epochs - self.first_epoch)

    @property
    def kind(self) -> tuple[str, str]:
        """The benchmark and network, as folders name them: jobs of a kind take about as long."""
        block = to_class_block((self.config.get("model") or {}).get("backbone"))
        has_class = isinstance(block, dict) and "class_path" in block
        return self.benchmark, class_title(block).replace("/", "_") if has_class else ""

    @property
    def planned_epochs(self) -> int | None:
        """The epochs of its training, where the configuration says them."""
        epochs = str((self.config.get("trainer") or {}).get("max_epochs"))
        return int(epochs) if epochs.isdecimal() else None

    @property
    def row(self) -> str:
        """The loss, and how the job differs from others with this loss: `focal gamma=3`."""
        return f"{self.loss} {self.variant}".rstrip()

    @property
    def label(self) -> str:
        """A short name: `digits_lt focal seed=1`."""
        return f"{self.benchmark} {self.row} seed={self.seed}"

    @property
    def log_name(self) -> str:
        """The name of the log file."""
        return self.label.replace("/", "_").replace(" ", "-") + ".log"

    @property
    def text(self) -> str:
        """The progress as the live table shows it."""
        if self.state == "running":
            return f"{self.epoch}/{self.epochs or '?'}"
        if self.state == "waiting":
            return f"waits for {self.reason}"
        return f"✓ {self.seconds:.0f} s" if self.state == "done" else _SYMBOLS[self.state]


def _run_worker(connection: Connection, device: str | None, is_shell: bool) -> None:
    """A worker process: run the jobs that arrive until the connection closes."""
    keep_imports()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    end_with_parent()
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]  # or Lightning would take the process for a task of SLURM
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        with unwinding(), command_line_spelling() if is_shell else nullcontext():
            while True:
                _run_job(connection, *connection.recv())
    except EOFError:
        return
    except Terminated as ended:
        raise SystemExit(128 + ended.number) from None


def _run_job(connection: Connection, config: Config, log: str) -> None:
    end: tuple[str, str, str]
    try:
        _redirect_output(log)
        from calibench.plots.trackers import keep_artefacts
        from calibench.training.fit import fit

        def report(epoch: int, total: int) -> None:
            connection.send(("epoch", epoch, total))

        outcome, _ = fit(config, report=report, keep=keep_artefacts)
        end = ("end", outcome, "")
    except Busy as busy:
        end = ("end", "waiting", busy.owner)
    except Terminated as ended:
        with suppress(OSError):
            connection.send(("last", "failed", str(ended)))
        raise
    except Exception as error:
        if not isinstance(error, UsageError):
            traceback.print_exc()
        end = ("end", "failed", one_line(error))
    finally:
        # A trainer, its module and its data refer to each other, so their memory would not be freed at once.
        gc.collect()
    with suppress(OSError):  # the sweep has ended, and so will this process
        connection.send(end)


_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)


def _redirect_output(log: str) -> None:
    """Append the output of this process to a file, but never through a symbolic link.

    Where nothing may be written, a run that is done has nothing to say, and another one fails by its own folder.
    """
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    device: str | None
    job: Job | None = None
    ending: float | None = None  # when it was told to end, as its job took too long


@dataclass
class Pool:
    """A pool of worker processes that run jobs, so many at a time; closing it ends them.

    Devices are GPUs, as CUDA_VISIBLE_DEVICES names them, assigned to the processes in turn; if empty, each process sees
    all. A job that takes longer than its limit is ended and has failed.
    """

    size: int
    logs: Path
    devices: Sequence[str] = ()
    minutes_per_cell: float = math.inf
    workers: list[_Worker] = field(default_factory=list)
    queue: list[Job] = field(default_factory=list)
    waiting: list[tuple[float, Job]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._context: Any = warm_context(["calibench.training.fit"])
        dealt = [self.devices[n % len(self.devices)] for n in range(self.size) if self.devices]
        self._drained = False
        self._free_devices: list[str | None] = [*dealt] or [None] * self.size

    def _start(self, device: str | None) -> _Worker:
        own_end, worker_end = self._context.Pipe()
        arguments = worker_end, device, is_command_line()
        process = self._context.Process(target=_run_worker, args=arguments, daemon=True)
        # SLURM sends them to every process of a job, and they are the parent's to answer
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
        try:
            with without_main_module():  # jobs are configurations
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        worker_end.close()
        worker = _Worker(process, own_end, device)
        self.workers.append(worker)
        return worker

    def run(self, jobs: Sequence[Job]) -> Iterator[Job | None]:
        """Run all jobs; yields each job whose state changed, and None after a while without a change."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
        self.queue = [job for job in jobs if job.state == "queued"]
        yield from self._deal()
        while self._busy or (self.waiting and not self._drained):
            ready = wait([worker.connection for worker in self._busy], timeout=WORKER_POLL_SECONDS)
            if not ready:
                yield None
            for worker in self._busy:
                if worker.connection in ready:
                    yield from self._receive(worker)
            self._end_overdue()
            yield from self._deal()
        for _, job in self.waiting:
            job.state, job.reason = "queued", ""

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.job is not None]

    def drain(self) -> None:
        """Start no further job; those that run go on."""
        self._drained = True

    def _deal(self) -> Iterator[Job]:
        """Give each free process a job: one of the queue, or else a waiting one that is due."""
        while len(self._busy) < self.size and not self._drained:
            if self.queue:
                yield self._give(self._free_worker(), self.queue.pop(0))
            elif self.waiting and self.waiting[0][0] <= time.monotonic():
                self._give(self._free_worker(), self.waiting.pop(0)[1])  # `waiting` until it trains
            else:
                return

    def _free_worker(self) -> _Worker:
        for worker in [worker for worker in self.workers if worker.job is None]:
            if worker.process.is_alive():
                return worker
            self._remove(worker)
        return self._start(self._free_devices.pop(0))

    def _remove(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        self._free_devices.append(worker.device)

    def _give(self, worker: _Worker, job: Job) -> Job:
        worker.job, job.started = job, time.monotonic()
        if job.state == "queued":
            job.state = "running"
        worker.connection.send((job.config, str(self.logs / job.log_name)))
        return job

    def _receive(self, worker: _Worker) -> Iterator[Job]:
        job = worker.job
        assert job is not None
        try:
            kind, first, second = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(timeout=_GRACE)
            code = worker.process.exitcode
            died = "is lost" if code is None else cause_of_death(code)
            kind, first, second = "last", "failed", f"its process {died}"
        if kind == "epoch":
            job.reached(first, second)
            yield job
            return
        worker.job = None
        if worker.ending is not None or kind == "last":
            self._remove(worker)
        if worker.ending is not None and first == "failed":
            limit = spell_argument("minutes_per_cell")
            second = f"took longer than {self.minutes_per_cell:g} minutes ({limit})"
        is_unchanged = (job.state, job.reason) == (first, second)
        job.state, job.reason, job.seconds = first, second, time.monotonic() - job.started
        if first == "waiting":
            self.waiting.append((time.monotonic() + RETRIED_AFTER, job))
        if not is_unchanged:
            yield job

    def _end_overdue(self) -> None:
        """End the processes of jobs over their time limit, by SIGTERM first and SIGKILL later."""
        seconds_now = time.monotonic()
        for worker in self._busy:
            assert worker.job is not None
            if (
                worker.ending is None
                and seconds_now - worker.job.started > 60 * self.minutes_per_cell
            ):
                worker.ending = seconds_now
                worker.process.terminate()
            elif worker.ending is not None and seconds_now - worker.ending > _GRACE:
                worker.process.kill()

    def close(self) -> None:
        """End the workers, by SIGTERM and a closed connection first and SIGKILL later.

        What SIGTERM raises is lost where it arrives in a finalizer, as those of the last cell's trainer.
        """
        for worker in self.workers:
            worker.process.terminate()
            worker.connection.close()
        for worker in self.workers:
            worker.process.join(timeout=_GRACE)
            if worker.process.is_alive():
                worker.process.kill()


# --- the pool of this machine ---


@dataclass(frozen=True)
class LauncherOptions:
    """Where cells run, and how many at a time; a SLURM job starts its own by the same.

    Attributes:
        jobs: Number of cells that run at the same time, within each job with SLURM (default: one per core, or per GPU
            if GPUs are used).
        cells_per_gpu: Number of cells that run at the same time on each visible GPU, instead of --jobs (a small network
            leaves most of a GPU idle).
        launcher: Run on this machine (default), or as a SLURM job array.
        minutes_per_job: SLURM: short cells share a job of about N minutes, once finished cells show how long one takes.
            The job's time limit is twice that, or --slurm.time.
        minutes_per_cell: Stop a cell that takes longer, and count it as failed (default: no limit). Running the sweep
            again resumes the cell from its last checkpoint.
        detach: SLURM: submit the jobs and return; run the same command again to see their progress.
    """

    jobs: Count | None = None
    cells_per_gpu: Count | None = None
    launcher: Literal["local", "slurm"] = "local"
    minutes_per_job: Count = 60
    minutes_per_cell: Annotated[float, "N", positive] = math.inf
    detach: bool = False


def list_visible_gpus() -> list[str]:
    """The GPUs that this process may use: those in CUDA_VISIBLE_DEVICES, or else all of nvidia-smi."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is not None:
        return [name for name in names.split(",") if name.strip() not in ("", "-1")]
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        quiet = subprocess.DEVNULL
        return subprocess.check_output(command, stderr=quiet, text=True, timeout=30).split()
    return []


def build_pool(jobs: Sequence[Job], logs: Path, options: LauncherOptions) -> Pool:
    """A pool of worker processes for jobs; each sees one GPU if the jobs use GPUs and the machine has some.

    Raises a UsageError if cells are to share a GPU, and no GPU is visible or the jobs want none.
    """
    # a configuration may leave the accelerator open
    uses_gpus = any((job.config.get("trainer") or {}).get("accelerator") != "cpu" for job in jobs)
    gpus = list_visible_gpus() if uses_gpus else []
    if options.cells_per_gpu is not None and not gpus:
        reason = (
            "none is visible here" if uses_gpus else "the configuration says `accelerator: cpu`"
        )
        raise UsageError(f"{spell_argument('cells_per_gpu')} needs a GPU; {reason}.")
    size = options.jobs or (options.cells_per_gpu or 1) * len(gpus) or cores()
    return Pool(min(size, len(jobs)), logs, gpus, options.minutes_per_cell)

"""The pool of workers: cells that others run, workers that die, cells that hang, logs."""

from __future__ import annotations

import io
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from calibench.cli import main
from calibench.configuration.building import build_configuration
from calibench.runs import Busy
from calibench.sweeps import pool
from calibench.sweeps.launchers.slurm import Slurm
from calibench.sweeps.pool import Job, LauncherOptions, Pool, build_pool
from calibench.training import fit as training
from calibench.verbs import sweep
from calibench.verbs.sweep import run_jobs

pytestmark = pytest.mark.processes

OTHER = "process 7 on node3"


def jobs(n: int) -> list[Job]:
    return [Job("b", "loss", seed, {"seed_everything": seed}) for seed in range(n)]


class FakeProcess:
    """A worker that is a thread; it ignores a polite signal."""

    exitcode = -9

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.signals: list[str] = []
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                pool._run_job(self._connection, *self._connection.recv())
            except (EOFError, OSError):
                return

    def is_alive(self) -> bool:
        return "kill" not in self.signals

    def terminate(self) -> None:
        self.signals.append("terminate")

    def kill(self) -> None:
        self.signals.append("kill")
        with socket.socket(fileno=os.dup(self._connection.fileno())) as ending:
            ending.shutdown(socket.SHUT_RDWR)

    def join(self, timeout: float | None = None) -> None:
        pass


class ThreadPool(Pool):
    def _start(self, device: str | None) -> Any:
        ours, theirs = multiprocessing.Pipe()
        self.workers.append(pool._Worker(FakeProcess(theirs), ours, device))  # type: ignore[arg-type]
        return self.workers[-1]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What `fit` does when it is called for a cell, time after time: an outcome, an error, or something to wait for."""
    told: dict[str, list[Any]] = {}

    def fit(config: dict[str, Any], *, report: Any, keep: Any) -> tuple[str, None]:
        answers = told.get(str(config["seed_everything"]))
        found = answers.pop(0) if answers else "done"
        if isinstance(found, Exception):
            raise found
        if isinstance(found, threading.Event):
            found.wait(60)
            return "done", None
        report(0, 1)
        return found, None

    monkeypatch.setattr(training, "fit", fit)
    monkeypatch.setattr(pool, "_redirect_output", lambda log: None)
    monkeypatch.setattr(pool, "RETRIED_AFTER", 0.01)
    monkeypatch.setattr(pool, "WORKER_POLL_SECONDS", 0.02)
    monkeypatch.setattr(
        "gc.collect", lambda: 0
    )  # this process holds much, and the workers are in it
    return told


def history(pool: Pool, cells: Sequence[Job]) -> Iterator[tuple[int, str, str]]:
    """(seed, state, reason) of every cell that changed, in order."""
    try:
        for job in pool.run(cells):
            if job is not None and (job.state, job.epochs) != ("running", 0):
                yield job.seed, job.state, job.reason
    finally:
        pool.close()


def test_a_worker_is_no_task_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or Lightning would wait in each for the other processes of the job that the sweep itself runs in."""
    for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(pool, "end_with_parent", lambda: None)
    monkeypatch.setattr(pool, "unwinding", nullcontext)
    seen: list[list[str]] = []
    monkeypatch.setattr(
        pool, "_run_job", lambda *_: seen.append([n for n in os.environ if n.startswith("SLURM_")])
    )
    ours, theirs = multiprocessing.Pipe()
    ours.send(({}, "log"))
    ours.close()
    pool._run_worker(theirs, None, is_shell=False)
    assert seen == [[]]


# --- a cell that another process runs ---


def test_it_is_waited_for_and_then_skipped(fits: dict[str, list[Any]], tmp_path: Path) -> None:
    busy = Busy(tmp_path, OTHER)
    fits["0"] = [busy, busy, busy, "skipped"]
    told = list(history(ThreadPool(1, tmp_path), jobs(2)))
    assert told[0] == (0, "waiting", "process 7 on node3")
    assert [(state, reason) for seed, state, reason in told[1:] if seed == 0] == [
        ("running", ""),
        ("skipped", ""),
    ]
    assert told.index((1, "done", "")) < told.index((0, "skipped", ""))  # the others go on


def test_it_is_run_here_where_the_other_process_died(
    fits: dict[str, list[Any]], tmp_path: Path
) -> None:
    fits["0"] = [Busy(tmp_path, OTHER), "done"]
    assert [state for _, state, _ in history(ThreadPool(2, tmp_path), jobs(1))] == [
        "waiting",
        "running",
        "done",
    ]


def test_a_pool_that_is_drained_waits_no_longer(
    fits: dict[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RETRIED_AFTER", math.inf)
    fits["0"] = [Busy(tmp_path, OTHER)]
    cells, workers = jobs(2), ThreadPool(1, tmp_path)
    for job in workers.run(cells):
        if job is cells[0] and job.state == "waiting":
            workers.drain()
    assert [job.state for job in cells] == ["queued", "queued"]
    workers.close()


def test_who_is_waited_for_is_shown(fits: dict[str, list[Any]], tmp_path: Path) -> None:
    fits["0"] = [Busy(tmp_path, OTHER), Busy(tmp_path, OTHER), "skipped"]
    log, cells, workers = io.StringIO(), jobs(1), ThreadPool(1, tmp_path)
    run_jobs(cells, workers, Console(file=log, width=120))
    workers.close()
    assert log.getvalue().splitlines() == [
        "b loss seed=0: waits for process 7 on node3",
        "b loss seed=0: ✓ before",
    ]


# --- processes that die, cells that hang ---


def spawned(size: int, logs: Path, **options: Any) -> Pool:
    """A pool whose processes start anew: their first cell imports torch, which takes seconds."""
    made = Pool(size, logs, **options)
    made._context = multiprocessing.get_context("spawn")
    return made


def test_a_death_is_told_with_its_signal(tmp_path: Path) -> None:
    cells, workers = jobs(1), spawned(1, tmp_path)
    for job in workers.run(cells):
        if job is not None and job.state == "running":
            os.kill(workers.workers[0].process.pid or 0, signal.SIGKILL)
    assert cells[0].state == "failed"
    assert cells[0].reason == "its process was killed by signal 9 (SIGKILL; out of memory?)"


def test_a_cell_that_takes_too_long_is_ended_and_failed(tmp_path: Path) -> None:
    cells = jobs(1)
    list(history(spawned(1, tmp_path, minutes_per_cell=0.001), cells))
    assert cells[0].state == "failed"
    assert cells[0].reason == "took longer than 0.001 minutes (`minutes_per_cell`)"


def test_one_that_hangs_is_killed_and_the_next_cell_gets_a_process(
    fits: dict[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_GRACE", 0.2)
    hangs = threading.Event()
    fits["0"] = [hangs]
    cells = jobs(2)
    workers = ThreadPool(1, tmp_path, ["GPU-5a"], minutes_per_cell=0.005)
    had = [worker for _ in workers.run(cells) for worker in workers.workers]
    assert {worker.device for worker in had} == {"GPU-5a"}
    assert had[0].process.signals[:2] == ["terminate", "kill"]  # type: ignore[attr-defined]
    assert [job.state for job in cells] == ["failed", "done"]
    assert "took longer than" in cells[0].reason
    hangs.set()
    workers.close()


def deaf(connection: Connection, device: str | None, is_shell: bool) -> None:
    """A worker whose SIGTERM came in a finalizer, where what it raises is lost."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection.send("ready")
    with suppress(EOFError):
        connection.recv()


def test_a_worker_that_has_nothing_to_do_ends_although_sigterm_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_run_worker", deaf)
    workers = Pool(1, tmp_path)
    worker = workers._free_worker()
    assert worker.connection.recv() == "ready"
    workers.close()
    assert worker.process.exitcode == 0


def test_a_worker_that_died_while_it_had_nothing_to_do_gets_no_cell(
    fits: dict[str, list[Any]], tmp_path: Path
) -> None:
    workers = ThreadPool(1, tmp_path)
    idle = workers._free_worker()
    idle.process.kill()
    assert [state for _, state, _ in history(workers, jobs(1))] == ["running", "done"]
    assert idle not in workers.workers


@pytest.mark.parametrize("text", ["0", "-1", "nan", "soon"])
def test_the_limit_is_a_positive_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "digits_lt", "--dry-run", "--minutes-per-cell", text]) == 2
    said = capsys.readouterr().err
    assert "`--minutes-per-cell`" in said
    assert "number" in said
    assert text in said


def test_the_limit_reaches_cells_here_and_in_slurm_jobs(tmp_path: Path) -> None:
    cells = [Job("b", "loss", 1, build_configuration(["digits_lt"]))]
    where = LauncherOptions(minutes_per_cell=1.5)
    assert build_pool(cells, tmp_path, where).minutes_per_cell == 1.5
    assert Slurm(tmp_path, {}, where).where.minutes_per_cell == 1.5
    assert build_pool(cells, tmp_path, LauncherOptions(jobs=1)).minutes_per_cell == math.inf


# --- how a sweep ends ---


@pytest.mark.usefixtures("heard_hangup")
@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [(signal.SIGHUP, 129, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_closed_terminal_and_ctrl_c_end_the_workers(
    sent: signal.Signals, code: int, said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    closed = []

    class Launcher:
        size = 1

        def run(self, cells: Sequence[Job]) -> Iterator[None]:
            yield None
            signal.raise_signal(sent)

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(sweep, "build_pool", lambda *_: Launcher())
    assert main(["sweep", "digits_lt", "--seeds", "1", "--losses", "gce"]) == code
    assert capsys.readouterr().err == f"calibench: {said}\n"
    assert closed == [True]


# --- logs ---


def test_a_log_is_appended_to_and_is_never_behind_a_symbolic_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, written = tmp_path / "cell.log", []
    monkeypatch.setattr(
        os, "dup2", lambda descriptor, _: written.append(os.write(descriptor, b"x"))
    )
    for _ in range(2):  # the second is another sweep, which finds that the first one runs the cell
        pool._redirect_output(str(log))
    assert log.read_bytes() == b"xxxx"
    precious = tmp_path / "precious"
    precious.write_text("content")
    log.unlink()
    log.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        pool._redirect_output(str(log))
    assert precious.read_text() == "content"


def test_how_long_a_job_takes_is_known_from_its_first_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    job = Job("b", "focal", 1, {}, state="running", started=90.0)
    assert job.seconds_by_epochs is None
    job.reached(2, 10)  # a run that goes on after two epochs
    assert job.seconds_by_epochs is None
    now = 107.0
    job.reached(3, 10)
    assert job.seconds_by_epochs == pytest.approx(10 + 8 * 7)
    now = 117.0
    job.reached(4, 10)
    assert job.seconds_by_epochs == pytest.approx(10 + 8 * 8.5)
    job.state, job.seconds = "done", 75.0
    assert job.seconds_by_epochs is None  # what it took is known

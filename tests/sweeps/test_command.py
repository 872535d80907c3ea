"""Sweeps: the plan, workers, restarts, failures, interruption."""

from __future__ import annotations

import csv
import gc
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.messages.spelling import command_line_spelling
from calibench.messages.terminal import Terminal
from calibench.sweeps import pool
from calibench.sweeps.losses_and_seeds import CORE_LOSSES, parse_losses, parse_seeds
from calibench.sweeps.pool import Job, Pool
from calibench.sweeps.suites import build_suite
from calibench.tables.terminal import Printed
from calibench.training import fit as training
from calibench.verbs.sweep import live_table, results_root, run_jobs
from tests import warm
from tests.waiting import patience, started, wait_for

pytestmark = pytest.mark.processes

Swept = Callable[..., tuple[int, str, str]]


def command(root: Path, *arguments: str) -> list[str]:
    quick = ["--trainer.max_epochs", "2", "--trainer.default_root_dir", str(root)]
    quick += ["--data.ood", "[]", "--evaluation.calibrators", "[]"]
    quick += ["--trainer.limit_train_batches", "2"]
    return ["sweep", "digits_lt", *arguments, *quick]


def sweep(root: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A sweep in a process of its own, to be killed or interrupted."""
    whole = [sys.executable, "-m", "calibench", *command(root, *arguments)]
    return started(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def swept(capsys: pytest.CaptureFixture[str]) -> Swept:
    """Sweeps from this process, with warm workers; gives the exit code, the output and the errors."""

    def run(root: Path, *arguments: str) -> tuple[int, str, str]:
        code = main(command(root, *arguments))
        return code, *capsys.readouterr()

    return run


def results(root: Path) -> dict[str, Any]:
    """metrics.json of every run by its folder, without what names the folder of the results."""
    return {
        path.parent.relative_to(root).as_posix(): json.loads(path.read_text())
        for path in root.rglob("metrics.json")
    }


def numbers(board: str) -> list[dict[str, str]]:
    """The rows of a leaderboard as CSV, without what tells of time."""
    rows = [
        {key: value for key, value in row.items() if not key.startswith("seconds")}
        for row in csv.DictReader(io.StringIO(board))
    ]
    return [{**row, "tied": row["tied"].replace(" seconds", "")} for row in rows]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1..3", [1, 2, 3]),
        ("1,5,7", [1, 5, 7]),
        ("1 5 7", [1, 5, 7]),
        ("1..2, 7", [1, 2, 7]),
        ("3", [3]),
        ("1,1", [1]),
    ],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1...3", "3..1", "-1"])
def test_bad_seeds(text: str) -> None:
    with pytest.raises(UsageError, match="`seeds"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("1-3", "did you mean 1..3?"),
        ("3..1", "write `--seeds 1..3`"),
        ("1 2 digits_lt", "`calibench sweep digits_lt --seeds ...`"),
    ],
)
def test_bad_seeds_say_what_to_type(text: str, remedy: str) -> None:
    with command_line_spelling(), pytest.raises(UsageError) as error:
        parse_seeds(text)
    assert remedy in str(error.value)


def test_seeds_of_an_empty_variable_are_no_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "digits_lt", "--seeds", "", "--dry-run"]) == 2
    assert "--seeds" in capsys.readouterr().err


def test_losses(tmp_path: Path) -> None:
    assert parse_losses(["core"]) == list(CORE_LOSSES)
    assert set(CORE_LOSSES) < set(parse_losses(["all"]))
    mine = tmp_path / "mine.yaml"
    mine.write_text("model: {loss: CrossEntropyLoss}")
    assert parse_losses(["gce", str(mine), "gce"]) == ["gce", str(mine)]
    assert parse_losses(["gce,focal", "brier"]) == ["gce", "focal", "brier"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("mylosses:PolyLoss", "`mylosses.PolyLoss`"),
        ("digits_lt", "`calibench sweep digits_lt --losses ...`"),
        ("fcoal", "did you mean focal"),
        ("qqq", "calibench list losses"),
    ],
)
def test_what_is_no_loss_says_what_to_type(name: str, remedy: str) -> None:
    with command_line_spelling(), pytest.raises(UsageError) as error:
        parse_losses([name])
    assert remedy in str(error.value)


def test_a_loss_of_ones_own_goes_by_its_import_path() -> None:
    (job,) = build_suite(["digits_lt"], ["mylosses.PolyLoss"], "1").jobs()
    assert (job.loss, job.config["model"]["loss"]) == ("mylosses.PolyLoss", "mylosses.PolyLoss")


def test_one_seed_is_said_to_be_one(tmp_path: Path, swept: Swept) -> None:
    _, out, error = swept(tmp_path, "--losses", "gce", "--seeds", "3", "--dry-run")
    assert "digits_lt gce seed=3" in out
    assert "seed 3 alone; 3 seeds are `--seeds 1..3`" in error


def test_plan_goes_seed_by_seed_and_merges_the_loss_last(tmp_path: Path) -> None:
    overlay = tmp_path / "o.yaml"
    overlay.write_text("model: {loss: BrierLoss, loss_scale: sum}\nthreads: 4\n")
    suite = build_suite(["digits_lt", "digits"], ["focal", "gce"], "1,2", [str(overlay)])
    jobs = suite.jobs([("threads", "2")])
    assert [job.label for job in jobs[:4]] == [
        f"digits_lt {loss} seed={seed}" for seed in (1, 2) for loss in ("focal", "gce")
    ]
    config = jobs[0].config
    assert [config[key] for key in ("benchmark", "seed_everything", "ckpt_path", "threads")] == [
        "digits_lt", 1, "last", "2",
    ]  # fmt: skip
    assert config["model"]["loss"]["class_path"] == "FocalLoss"
    assert config["model"]["loss_scale"] == "sum"
    assert config["trainer"] == {"max_epochs": 30, "accelerator": "cpu", "devices": 1}
    assert jobs[-1].config == {
        **jobs[-3].config,
        "seed_everything": 2,
        "model": jobs[-1].config["model"],
    }


def test_the_time_left_is_said_after_the_first_epoch_and_the_first_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Launcher:
        size = 2

        def run(self, jobs: list[Job]) -> Iterator[Job]:
            first = jobs[0]
            first.state, first.started = "running", 0.0
            for epoch, now in ((0, 10.0), (1, 70.0), (2, 130.0)):
                monkeypatch.setattr(time, "monotonic", lambda now=now: now)
                first.reached(epoch, 10)
                yield first
            first.state, first.seconds = "done", 200.0
            yield first

    text = io.StringIO()
    jobs = [Job("speedrun", f"loss{i}", 1, {}) for i in range(3)]
    run_jobs(jobs, Launcher(), Terminal(file=text, width=200))  # type: ignore[arg-type]
    # three runs of 10 + 10 x 60 seconds, two at a time; 70 of the first are over, after which the third starts
    by_epoch, done, by_cell = text.getvalue().splitlines()
    assert by_epoch == "3 of 3 cells, at least 19:10 left"  # the evaluation is not known yet
    assert done == "speedrun loss0 seed=1: ✓ 200 s"
    assert by_cell == "2 of 3 cells, about 3:20 left"


def test_results_root() -> None:
    assert results_root([]) == Path("results")
    given = [("trainer.default_root_dir", "y"), ("threads", "1"), ("trainer.default_root_dir", "x")]
    assert results_root(given) == Path("x")


def test_the_live_table_shows_states_and_fits_the_terminal() -> None:
    jobs = [Job("b", f"loss{i}", seed, {}) for i in range(30) for seed in (1, 2)]
    jobs[0].state, jobs[0].seconds = "done", 4.2
    jobs[1].state, jobs[1].epoch, jobs[1].epochs, jobs[1].started = (
        "running",
        3,
        30,
        time.monotonic(),
    )
    jobs[2].state = "failed"
    console = Console(record=True, width=80, height=24, file=io.StringIO())
    console.print(Printed(live_table(jobs, 2, height=24)))
    text = console.export_text()
    assert "2 of 60 cells, 1 running, " in text
    for expected in ("✓ 4 s", "3/30", "✗ failed", "·", "more rows"):
        assert expected in text
    assert len(text.splitlines()) <= 24


FOUR_CELLS = ["--losses", "gce", "flsd", "--seeds", "1..2"]


@pytest.fixture
def whole(tmp_path: Path, swept: Swept) -> Path:
    """The results of an uninterrupted sweep."""
    code, out, error = swept(tmp_path / "whole", *FOUR_CELLS, "--jobs", "1")
    assert code == 0, error
    assert out.count("✓") == 4
    return tmp_path / "whole"


def test_a_sweep_goes_on_where_another_was_cut_short(
    tmp_path: Path, whole: Path, swept: Swept, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell that is done stays, one of a process that is gone goes on from its checkpoint, one never begun is run."""
    cut = shutil.copytree(whole, tmp_path / "cut")
    _, _, begun, unknown = (path.parent for path in sorted(cut.rglob("metrics.json")))
    (begun / "metrics.json").unlink()
    (begun / "status.json").write_text('{"status": "running", "pid": 1}')
    shutil.rmtree(unknown)
    goes_on_to_the_same(whole, cut, swept, capsys)


@pytest.mark.slow
def test_a_sweep_goes_on_where_another_was_killed(
    tmp_path: Path, whole: Path, swept: Swept, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its workers end by themselves, and the next sweep waits for them where it has to."""
    with warm.started(command(tmp_path / "cut", *FOUR_CELLS, "--jobs", "2")) as killed:
        wait_for(lambda: results(tmp_path / "cut"))
        killed.process.kill()  # and not its workers
        killed.process.join()
        goes_on_to_the_same(whole, tmp_path / "cut", swept, capsys)


def goes_on_to_the_same(
    whole: Path, cut: Path, swept: Swept, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a sweep finds done stays, and all of it equals an uninterrupted one, whatever --jobs is."""
    done = {path: path.stat().st_mtime_ns for path in cut.rglob("metrics.json")}
    assert len(done) < 4
    code, out, error = swept(cut, *FOUR_CELLS, "--jobs", "2")
    assert code == 0, error
    statuses = [json.loads(path.read_text())["status"] for path in cut.rglob("status.json")]
    assert statuses == ["done"] * 4
    assert results(cut) == results(whole)
    kept = [path for path, time_ns in done.items() if path.stat().st_mtime_ns == time_ns]
    # a run killed between its last two files is finished again
    assert out.count("✓ before") >= len(kept) - 1

    code, out, _ = swept(cut, *FOUR_CELLS)
    assert code == 0
    assert out.count("✓ before") == 4
    boards = []
    for root in (whole, cut):
        assert main(["leaderboard", str(root), "--format", "csv"]) == 0
        boards.append(numbers(capsys.readouterr().out))
    assert boards[0] == boards[1]


def test_a_failed_cell_does_not_stop_the_others(tmp_path: Path, swept: Swept) -> None:
    nan = tmp_path / "nan.yaml"
    nan.write_text(
        "model:\n  loss:\n    class_path: tests.plugin.BecomesNaN\n    init_args: {step: 1}\n"
    )
    cells = ["--losses", str(nan), "gce", "--seeds", "1", "--jobs", "1"]
    code, out, error = swept(tmp_path / "r", *cells)
    assert code == 1
    assert "digits_lt nan seed=1 failed: the training loss is not finite at epoch 0" in error
    assert "Generative" in out
    assert "BecomesNaN" in out  # a hole in the table, named below it


@pytest.mark.slow
def test_ctrl_c_is_the_sweeps_to_answer(tmp_path: Path) -> None:
    """A terminal sends it to the workers too, which go on until the sweep ends them."""
    arguments = [("trainer.max_epochs", "5000"), ("trainer.default_root_dir", str(tmp_path))]
    (cell,) = build_suite(["digits_lt"], ["gce"], "1").jobs(arguments)
    workers = Pool(1, tmp_path / "logs")
    for _ in workers.run([cell]):
        if cell.epoch == 1:
            os.kill(workers.workers[0].process.pid or 0, signal.SIGINT)
        elif cell.epoch > 1:
            break
    workers.close()
    (status,) = (json.loads(path.read_text()) for path in tmp_path.rglob("status.json"))
    assert (status["status"], status["reason"]) == ("failed", "terminated (SIGTERM)")
    assert "Traceback" not in (workers.logs / cell.log_name).read_text()


@pytest.mark.slow
def test_ctrl_c_ends_the_children_and_keeps_what_is_done(tmp_path: Path) -> None:
    with sweep(tmp_path, "--losses", "core", "--seeds", "1..9", "--jobs", "2") as process:
        wait_for(
            lambda: any('"done"' in path.read_text() for path in tmp_path.rglob("status.json"))
        )
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=patience(120))
        # the process that forks the workers notices by itself
        wait_for(lambda: str(process.pid) not in sessions())
    assert process.returncode == 130
    states = [json.loads(path.read_text())["status"] for path in tmp_path.rglob("status.json")]
    assert "done" in states
    assert "running" not in states
    ending = "of 63 cells done; the same command resumes where it stopped"
    last = error.splitlines()[-1]
    assert last == f"calibench: interrupted with {states.count('done')} {ending}"
    assert "Traceback" not in error


def sessions() -> list[str]:
    """Of every process."""
    shown = subprocess.run(["ps", "-eo", "sid"], capture_output=True, text=True, check=True)
    return shown.stdout.split()


def test_the_memory_of_a_cell_does_not_wait_for_the_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.itself = self

    left: list[weakref.ref[Trainer]] = []

    def fit(config: dict[str, object], report: object, keep: object) -> tuple[str, None]:
        left.append(weakref.ref(Trainer()))
        if config:
            raise ValueError("failed")
        return "done", None

    monkeypatch.setattr(training, "fit", fit)
    monkeypatch.setattr(pool, "_redirect_output", lambda log: None)
    ours, theirs = multiprocessing.Pipe()
    gc.disable()
    try:
        pool._run_job(theirs, {}, "")
        pool._run_job(theirs, {"model": "fails"}, "")
    finally:
        gc.enable()
    assert [ours.recv()[1] for _ in range(2)] == ["done", "failed"]
    assert [reference() for reference in left] == [None, None]

"""Two processes asked for one cell: it is trained once, evaluated with what both asked for, and ends as the winner's."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from calibench.parallel.processes import Terminated
from calibench.runs import Busy, Claim, LostClaim, Run
from calibench.runs.lock import hold_lock
from calibench.training import fit as training
from calibench.training.callbacks import claim_guard
from calibench.verbs.fit import configuration_of
from tests.waiting import patience, started

OLD = Path(__file__).parents[1] / "reference" / "run_of_0.1.0"
PUBLISHED = "TemperatureScaling, init_args: {shrinkage: false}"  # which that run has


def arguments(root: Path) -> list[str]:
    quick = ["--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false"]
    return ["--config", "digits_lt", *quick, "--trainer.default_root_dir", str(root)]


def asked(root: Path, calibrator: str) -> list[str]:
    return [
        *("--config", "digits_lt", "--trainer.max_epochs", "2"),
        *("--trainer.default_root_dir", str(root)),
        *("--evaluation.calibrators", f"[{{class_path: {calibrator}}}]"),
    ]


def test_a_run_finished_between_the_look_and_the_claim_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = Run.claimed

    @contextmanager
    def after_the_other(run: Run) -> Iterator[Claim]:
        shutil.copytree(OLD / "digits_lt", tmp_path / "digits_lt")
        with claimed(run) as claim:
            yield claim

    def train_again(*_: object) -> None:
        raise AssertionError("trained twice")

    monkeypatch.setattr(Run, "claimed", after_the_other)
    monkeypatch.setattr(training, "_train", train_again)
    outcome, run = training.fit(configuration_of(asked(tmp_path, PUBLISHED)))
    assert outcome == "skipped"
    assert run.done
    assert not (run.folder / "run.lock").exists()


# --- two that evaluate a finished run again ---


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A results folder with one finished run."""
    shutil.copytree(OLD / "digits_lt", tmp_path / "digits_lt")
    return tmp_path


def calibrators(root: Path) -> set[str]:
    (metrics,) = root.rglob("metrics.json")
    return {row["calibrator"] for row in json.loads(metrics.read_text())["rows"]}


@pytest.mark.slow
def test_neither_loses_the_others_calibrator(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, build = calibrators(finished), training.build_evaluation
    second = threading.Thread(
        target=training.fit, args=[configuration_of(asked(finished, "VectorScaling"))]
    )

    waits, say = threading.Event(), training.say

    def said_aloud(*words: Any, **to: Any) -> None:
        say(*words, **to)
        waits.set()

    def build_slowly(settings: Any) -> Any:
        monkeypatch.setattr(training, "build_evaluation", build)
        second.start()  # it comes while this one evaluates
        assert waits.wait(patience(20))
        return build(settings)

    monkeypatch.setattr(training, "say", said_aloud)
    monkeypatch.setattr(training, "build_evaluation", build_slowly)
    training.fit(configuration_of(asked(finished, "HistogramBinning")))
    second.join()
    of_then = "AdaptiveTemperatureScaling(initial_temperature=1.0, rule=clamped, shrinkage=False)"  # the old default
    expected = before - {"AdaptiveTemperatureScaling", "TemperatureScaling"} | {of_then}
    expected |= {"TemperatureScaling(shrinkage=False)"}
    assert calibrators(finished) == expected | {"VectorScaling", "HistogramBinning"}
    said = capsys.readouterr().err
    assert said.startswith(
        f"calibench: waiting for process {os.getpid()} on {socket.gethostname()}, which evaluates "
    )
    assert len(said.splitlines()) == 1


def test_a_worker_does_not_wait_for_its_turn(finished: Path) -> None:
    """Its sweep has other cells for it."""
    (run,) = (Run(path.parent) for path in finished.rglob("status.json"))
    with run.claimed(), pytest.raises(Busy):
        training.fit(
            configuration_of(asked(finished, "VectorScaling")), report=lambda done, total: None
        )


def test_a_run_that_is_trained_anew_is_not_waited_for(finished: Path) -> None:
    (run,) = (Run(path.parent) for path in finished.rglob("status.json"))
    arguments = asked(finished, "VectorScaling")
    with run.claimed():
        assert training.fit(configuration_of(asked(finished, PUBLISHED)))[0] == "skipped"
        with pytest.raises(Busy):
            training.fit(configuration_of([*arguments, "--overwrite", "true"]))


# --- one that lost the run ---


@pytest.mark.parametrize("fails", [False, True])
def test_it_leaves_the_winners_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Its own end, good or bad, comes after the winner's."""

    def lose(experiment: Any, run: Run, *_: object, **__: object) -> str:
        run.write_status("running")
        (run.folder / "run.lock").unlink()
        with run.claimed():
            run.write_status("done")
        if fails:
            raise OSError("the loser's")
        return "done"

    monkeypatch.setattr(training, "_train", lose)
    with pytest.raises(OSError if fails else LostClaim, match="loser's" if fails else "taken over"):
        training.fit(configuration_of(arguments(tmp_path)))
    (status,) = tmp_path.rglob("status.json")
    told = json.loads(status.read_text())
    assert (told["status"], told["reason"]) == ("done", None)


def test_what_is_done_stays_done_though_the_process_is_ended_just_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_status = Run.write_status

    def write_and_end(run: Run, status: Any, *details: Any, **named_details: Any) -> None:
        write_status(run, status, *details, **named_details)
        if status == "done":
            raise Terminated

    monkeypatch.setattr(Run, "write_status", write_and_end)

    def train(_: Any, run: Run, *__: object, **___: object) -> str:
        run.write_status("running")
        return "done"

    monkeypatch.setattr(training, "_train", train)
    with pytest.raises(Terminated):
        training.fit(configuration_of(arguments(tmp_path)))
    (status,) = tmp_path.rglob("status.json")
    assert json.loads(status.read_text())["status"] == "done"


def test_training_ends_with_the_epoch_in_which_it_loses_the_run(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "run.lock") as claim:
        guard = claim_guard(claim)
        guard.on_train_epoch_end(None, None)  # type: ignore[arg-type]
        (tmp_path / "run.lock").unlink()
        with pytest.raises(LostClaim):
            guard.on_train_epoch_end(None, None)  # type: ignore[arg-type]


# --- two processes for real ---


@pytest.mark.slow
def test_of_two_processes_one_trains(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calibench", "fit", *arguments(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ExitStack() as stack:
        both = [stack.enter_context(started(command, **pipes)) for _ in range(2)]
        ends = [(process, *process.communicate(timeout=patience(120))) for process in both]
    said = [out + error for _, out, error in ends]
    assert sum(" is done." in text for text in said) == 1, said
    for process, _, error in ends:
        if process.returncode:
            assert "is being run by process " in error
            assert len(error.splitlines()) == 1
    (status,) = tmp_path.rglob("status.json")
    assert json.loads(status.read_text())["status"] == "done"
    assert not list(tmp_path.rglob("run.lock"))

"""kill -9 at random moments, then resume: the numbers are those of the uninterrupted run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from calibench.data.fakes import write_chest_xrays
from calibench.runs.lock import read_signature
from tests import warm
from tests.waiting import patience, started, wait_for


def arguments(root: Path, *more: str) -> list[str]:
    return [
        "fit", "--config", "digits_lt", "--model.loss", "AdaFocalLoss", "--model.backbone.dropout", "0.3",
        "--trainer.max_epochs", "20", "--checkpoint_every_n_steps", "3", "--trainer.default_root_dir", str(root), *more,
    ]  # fmt: skip


class Command(Protocol):
    """The arguments of a run below a folder."""

    def __call__(self, root: Path) -> list[str]: ...


def outcome(root: Path) -> tuple[Any, str]:
    (folder,) = (path.parent for path in root.rglob("metrics.json"))
    return json.loads((folder / "metrics.json").read_text()), (folder / "metrics.csv").read_text()


def of_labels(root: Path) -> list[str]:
    """A run with several labels an example, on made-up X-rays below `root`'s folder."""
    return [
        "fit", "--config", "chestxray14", "--data.root", str(root.parent / "x-rays"), "--data.skip_missing", "true",
        "--data.side", "64", "--data.ten_crops", "null", "--data.batch_size", "8", "--model.backbone", "MLP",
        "--model.backbone.in_features", "12288", "--model.backbone.dropout", "0.3", "--trainer.max_epochs", "10",
        "--trainer.accelerator", "cpu", "--checkpoint_every_n_steps", "3", "--trainer.default_root_dir", str(root),
    ]  # fmt: skip


def finish(root: Path, command: Command = arguments) -> None:
    done = warm.run(command(root))
    assert done.returncode == 0, done.stderr


def has_the_run(root: Path, pid: int) -> bool:
    return any(read_signature(lock)[0] == pid for lock in root.rglob("run.lock"))


def kill_after(root: Path, seconds: float, command: Command = arguments) -> bool:
    """Start the run, kill it so many seconds after it took its folder; whether it was still running then."""
    with warm.started(command(root)) as run:
        process = run.process
        wait_for(lambda: not process.is_alive() or has_the_run(root, process.pid))
        time.sleep(seconds)
        return bool(process.is_alive())


@pytest.mark.slow
@pytest.mark.parametrize(("command", "trials"), [(arguments, 4), (of_labels, 1)])
def test_killed_at_random_moments(command: Command, trials: int, tmp_path: Path) -> None:
    write_chest_xrays(tmp_path / "x-rays")
    finish(tmp_path / "whole", command)
    expected = outcome(tmp_path / "whole")
    (environment,) = (tmp_path / "whole").rglob("environment.json")
    whole = json.loads(environment.read_text())["wall_seconds"]
    generator = random.Random(0)
    kills = 0
    for trial in range(trials):
        root = tmp_path / f"cut{trial}"
        for _ in range(5):
            kills += kill_after(root, generator.uniform(0, 0.4 * whole), command)
        finish(root, command)
        assert outcome(root) == expected
        assert not list(root.rglob("*.tmp"))  # what a killed write left is gone
    assert kills >= 2.5 * trials


@pytest.mark.slow
def test_two_processes_killed_and_resumed(tmp_path: Path) -> None:
    two = ("--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.max_epochs", "6")

    def command(root: Path) -> list[str]:
        return [sys.executable, "-m", "calibench", *arguments(root, *two)]

    def finish(root: Path) -> None:
        with started(command(root), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            _, error = process.communicate(timeout=patience(120))
        assert process.returncode == 0, error

    finish(tmp_path / "whole")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with started(command(tmp_path / "cut"), **silent) as process:
        wait_for(lambda: list((tmp_path / "cut").rglob("last.ckpt")), 120)
        os.killpg(process.pid, signal.SIGKILL)
    finish(tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")

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
from typing import Any

import pytest


def command(root: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "calibench", "fit", "--config", "digits_lt", "--model.loss", "AdaFocalLoss", "--model.backbone.dropout", "0.3",
        "--trainer.max_epochs", "20", "--checkpoint_every_n_steps", "3", "--trainer.default_root_dir", str(root), *more,
    ]  # fmt: skip


def outcome(root: Path) -> tuple[Any, str]:
    (folder,) = (path.parent for path in root.rglob("metrics.json"))
    return json.loads((folder / "metrics.json").read_text()), (folder / "metrics.csv").read_text()


def owner(root: Path) -> int | None:
    """The process that holds the run."""
    try:
        return json.loads(next(root.rglob("run.lock")).read_text())["pid"]
    except (StopIteration, FileNotFoundError, ValueError):
        return None


def kill_after(root: Path, seconds: float) -> bool:
    """Start the run, kill it so many seconds after it took its folder; whether it was still running then."""
    process = subprocess.Popen(command(root), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and owner(root) != process.pid:
        time.sleep(0.005)
    time.sleep(seconds)
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return running


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    expected = outcome(tmp_path / "whole")
    (environment,) = (tmp_path / "whole").rglob("environment.json")
    whole = json.loads(environment.read_text())["wall_seconds"]
    generator = random.Random(0)
    kills = 0
    for trial in range(4):
        root = tmp_path / f"cut{trial}"
        for _ in range(5):
            kills += kill_after(root, generator.uniform(0, 0.5 * whole))
        subprocess.run(command(root), check=True, capture_output=True)
        assert outcome(root) == expected
    assert kills >= 10


@pytest.mark.slow
def test_two_processes_killed_and_resumed(tmp_path: Path) -> None:
    two = ("--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.max_epochs", "6")
    subprocess.run(command(tmp_path / "whole", *two), check=True, capture_output=True, timeout=300)
    process = subprocess.Popen(
        command(tmp_path / "cut", *two),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while not list((tmp_path / "cut").rglob("last.ckpt")):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(command(tmp_path / "cut", *two), check=True, capture_output=True, timeout=300)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")

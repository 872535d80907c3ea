"""Sweeps on a real SLURM: the same numbers as at home, after scancel and after a pre-emption as well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_nodes import FIT, assert_same

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

# Resumed from a checkpoint, this ends with the same numbers only if the loss's state and every draw do.
LONG = ["--model.backbone.dropout", "0.3", "--trainer.max_epochs", "30"]


def command(root: Path, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-m", "calibench", "sweep", "digits_lt"),
        *arguments,
        *("--trainer.default_root_dir", str(root)),
    ]


def metrics(root: Path) -> dict[str, Any]:
    return {
        path.parent.relative_to(root).as_posix(): json.loads(path.read_text())
        for path in root.rglob("metrics.json")
    }


def wait_for(condition: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
    return found


def epochs(root: Path) -> int:
    """The epochs that the only cell has trained."""
    curves = [path.read_text().splitlines() for path in root.rglob("metrics.csv")]
    return max((len(lines) - 1 for lines in curves), default=0)


def status(root: Path) -> dict[str, Any]:
    """The status of the only cell."""
    (path,) = root.rglob("status.json")
    return dict(json.loads(path.read_text()))


def fewest_epochs(process: subprocess.Popen[str], root: Path) -> int:
    """The fewest epochs in the curve of the only cell until a process ends, well: a cell that starts anew has none."""
    fewest = epochs(root)
    while process.poll() is None:
        fewest = min(fewest, epochs(root))
        time.sleep(0.05)
    _, error = process.communicate()
    assert process.returncode == 0, error
    return fewest


def array(root: Path) -> str:
    (record,) = root.rglob("submission.json")
    return str(json.loads(record.read_text())["array"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The numbers of the long cell, run at home without interruption."""
    root = tmp_path_factory.mktemp("whole")
    cell = command(root, "--losses", "adafocal", "--seeds", "1", *LONG)
    subprocess.run(cell, check=True, capture_output=True, timeout=300)
    return metrics(root)


def test_an_array_gives_the_numbers_of_a_local_sweep(slurm: dict[str, str], tmp_path: Path) -> None:
    cells = ["--losses", "gce", "flsd", "--seeds", "1..2", "--trainer.max_epochs", "2"]
    subprocess.run(command(tmp_path / "home", *cells), check=True, capture_output=True, timeout=300)
    there = [*cells, "--launcher", "slurm", "--slurm.time", "30:00", "--slurm.partition", "main"]
    done = subprocess.run(
        command(tmp_path / "slurm", *there),
        env=slurm, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ended = re.findall(r"^digits_lt (\w+) seed=(\d): ✓", done.stdout, re.MULTILINE)
    assert sorted(ended) == [(loss, seed) for loss in ("flsd", "gce") for seed in "12"]
    assert "Generative" in done.stdout  # the leaderboard
    (record,) = (tmp_path / "slurm").rglob("submission.json")
    assert len(json.loads(record.read_text())["cells"]) == 4  # nobody knew what a cell takes
    assert metrics(tmp_path / "slurm") == metrics(tmp_path / "home")


def test_a_detached_sweep_is_watched_by_the_same_command(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    cells = ["--losses", "gce", "flsd", "--seeds", "1", "--trainer.max_epochs", "20"]
    sweep = command(tmp_path, *cells, "--launcher", "slurm", "--minutes-per-job", "10")
    done = subprocess.run(
        [*sweep, "--detach"], env=slurm, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert f"SLURM job {array(tmp_path)} goes on" in done.stderr
    assert not metrics(tmp_path)
    done = subprocess.run(sweep, env=slurm, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert len(metrics(tmp_path)) == 2
    array(tmp_path)  # one submission: the second command waited for the first one's

    done = subprocess.run(
        [*sweep, "--seeds", "1..3", "--dry-run"], env=slurm, capture_output=True, text=True
    )
    assert "6 cells, 2 done" in done.stdout
    assert "in 1 SLURM jobs" in done.stdout  # now it is known that a cell takes seconds


def test_a_cancelled_job_is_finished_by_the_next_sweep(
    slurm: dict[str, str], tmp_path: Path, whole: dict[str, Any]
) -> None:
    cell = command(tmp_path, "--losses", "adafocal", "--seeds", "1", *LONG, "--launcher", "slurm")
    first = subprocess.Popen(cell, env=slurm, text=True, stderr=subprocess.PIPE)
    wait_for(lambda: epochs(tmp_path) >= 3)
    subprocess.run(["scancel", array(tmp_path)], env=slurm, check=True)
    _, error = first.communicate(timeout=300)
    assert first.returncode == 1
    assert "digits_lt adafocal seed=1 failed: " in error
    assert not metrics(tmp_path)
    assert status(tmp_path)["reason"] == "terminated (SIGTERM)"

    again = subprocess.Popen(cell, env=slurm, text=True, stderr=subprocess.PIPE)
    assert fewest_epochs(again, tmp_path) >= 3
    assert metrics(tmp_path) == whole


def test_a_pre_empted_job_goes_on_from_its_last_checkpoint(
    slurm: dict[str, str], tmp_path: Path, whole: dict[str, Any]
) -> None:
    cell = command(tmp_path, "--losses", "adafocal", "--seeds", "1", *LONG, "--launcher", "slurm")
    sweep = subprocess.Popen(cell, env=slurm, text=True, stderr=subprocess.PIPE)
    wait_for(lambda: epochs(tmp_path) >= 3)
    job = array(tmp_path)
    subprocess.run(["scancel", "--signal", "USR2", job], env=slurm, check=True)
    wait_for(lambda: status(tmp_path)["status"] == "failed")

    def waits() -> bool:
        shown = ["squeue", "--noheader", "--format=%T", "--jobs", job]
        done = subprocess.run(shown, env=slurm, capture_output=True, text=True)
        return done.stdout.strip() == "PENDING"

    wait_for(waits)
    now = ["scontrol", "update", f"JobId={job}", "StartTime=now"]  # SLURM waits two minutes
    subprocess.run(now, env=slurm, check=True)
    assert fewest_epochs(sweep, tmp_path) >= 3
    assert metrics(tmp_path) == whole
    assert not list(tmp_path.rglob("hpc_ckpt*"))  # Lightning's own requeue had no part in it


def test_srun_starts_the_processes_of_one_run(slurm: dict[str, str], tmp_path: Path) -> None:
    fit = [sys.executable, "-m", "calibench", *FIT]
    alone = [*fit, "--trainer.default_root_dir", str(tmp_path / "alone")]
    subprocess.run(alone, check=True, capture_output=True, timeout=300)
    two = ["srun", "--ntasks", "2", "--ntasks-per-node", "2", *fit]
    done = subprocess.run(
        [*two, "--trainer.default_root_dir", str(tmp_path / "two")],
        env=slurm, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (environment,) = (tmp_path / "two").rglob("environment.json")
    assert json.loads(environment.read_text())["processes"] == 2
    assert_same(tmp_path / "two", tmp_path / "alone")

"""Time that a sweep still takes, from finished runs of the same benchmark and network."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from calibench.runs import write_json
from calibench.runs.durations import RunDuration, describe_seconds
from calibench.sweeps.durations import estimate_durations, schedule, time_left
from calibench.sweeps.pool import Job
from tests.run_folders import write_run

CONFIG = {"model": {"backbone": "SmallCNN"}, "trainer": {"max_epochs": "30"}}


def write_finished(root: Path, *, epochs: int, epoch: float, evaluation: float) -> Path:
    folder = write_run(root, loss="FocalLoss")
    (folder / "metrics.csv").write_text("epoch\n" + "0\n" * epochs)
    wall = epochs * epoch + evaluation
    content = {"wall_seconds": wall, "seconds_per_epoch": epoch}
    write_json(folder / "environment.json", content, sealed=True)
    return folder


def test_a_finished_run_of_another_length_says_how_long_a_job_takes(tmp_path: Path) -> None:
    folder = write_finished(tmp_path, epochs=10, epoch=2.0, evaluation=350.0)
    assert RunDuration.from_folder(folder) == RunDuration(2.0, 350.0)
    jobs = [Job("digits_lt", "gce", seed, CONFIG) for seed in (1, 2, 3)]
    estimate_durations(jobs, tmp_path)
    assert jobs[0].estimate == pytest.approx(30 * 2 + 350)
    # three of 410 seconds, two at a time: evaluation included
    assert time_left(jobs, 2) == f"about {describe_seconds(820)}"


def test_another_network_says_nothing(tmp_path: Path) -> None:
    write_finished(tmp_path, epochs=10, epoch=2.0, evaluation=350.0)
    job = Job("digits_lt", "gce", 1, {**CONFIG, "model": {"backbone": "MLP"}})
    estimate_durations([job], tmp_path)
    assert job.estimate is None
    assert time_left([job], 1) == "?"


def test_jobs_done_in_this_sweep_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    done, running, queued = (Job("b", "gce", seed, CONFIG, estimate=7.0) for seed in (1, 2, 3))
    done.state, done.seconds = "done", 90.0
    running.state, running.started = "running", 60.0
    assert time_left([done, running, queued], 2) == "about 1:30"
    assert time_left([done, running, queued], 1) == "about 2:20"


def test_the_last_job_may_run_alone() -> None:
    assert schedule([10.0, 10.0, 10.0], 2) == 20.0
    assert schedule([], 2) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (450, "7:30"), (4050, "1:07:30"), (3599.9, "1:00:00")]
)
def test_seconds_are_said_in_minutes_and_hours(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text

"""Which cells share a SLURM job, and what a job tells and keeps."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from calibench.sweeps.launchers.slurm import ArrayTask, Bundle, cut_bundles
from calibench.sweeps.pool import Job, LauncherOptions


def jobs(n: int) -> list[Job]:
    return [Job("b", "loss", seed, {"seed_everything": seed, "threads": 1}) for seed in range(n)]


@pytest.mark.parametrize(
    ("seconds", "at_a_time", "sizes"),
    [
        ([1200.0] * 7, 1, [3, 3, 1]),  # an hour holds three cells of twenty minutes
        ([1200.0] * 7, 2, [6, 1]),  # two at a time: six
        ([9000.0, 60.0, 60.0], 1, [1, 2]),  # a long one has a job of its own
        ([None, None, 60.0], 1, [1, 1, 1]),  # nobody knows
        ([None, None, 60.0], 2, [2, 1]),
        ([0.0, 0.0], 1, [2]),
        ([], 1, []),
    ],
)
def test_bundles_take_about_the_minutes(
    seconds: list[float | None], at_a_time: int, sizes: list[int]
) -> None:
    cells = jobs(len(seconds))
    bundles = cut_bundles(list(zip(cells, seconds, strict=True)), minutes=60, at_a_time=at_a_time)
    assert [len(bundle) for bundle in bundles] == sizes
    assert [job for bundle in bundles for job in bundle] == cells


def bundle(tmp_path: Path) -> Bundle:
    return Bundle(
        jobs(4), tmp_path, tmp_path / "0.jsonl", LauncherOptions(jobs=1, minutes_per_cell=30)
    )


def test_what_was_cut_off_goes_back_into_the_queue(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    one = bundle(tmp_path)
    one.jobs += [Job("b", "loss", 4, {})]
    states = ["done", "running", "failed", "failed", "waiting"]
    reasons = ["", "", "terminated (SIGTERM)", "the loss is not finite", "process 7"]
    for job, state, reason in zip(one.jobs, states, reasons, strict=True):
        job.state, job.reason = state, reason  # type: ignore[assignment]
    again = pickle.loads(pickle.dumps(one.checkpoint().function))
    assert [job.state for job in again.jobs] == ["done", "queued", "queued", "failed", "queued"]
    assert [job.reason for job in again.jobs] == ["", "", "", "the loss is not finite", ""]
    assert again.where.minutes_per_cell == 30


def test_the_submitter_reads_what_the_bundle_tells(tmp_path: Path) -> None:
    there, here = bundle(tmp_path), jobs(4)
    task = ArrayTask("7", 0, there.events, here)
    assert list(task.news()) == []
    there.jobs[1].state, there.jobs[1].epoch, there.jobs[1].epochs = "running", 2, 30
    there._report(there.jobs[1])
    assert list(task.news()) == [here[1]]
    assert here[1].text == "2/30"
    with there.events.open("a") as file:
        file.write('{"cell": 2, "st')  # a line that is being written
    assert list(task.news()) == []
    with there.events.open("a") as file:
        file.write('ate": "done", "epoch": 30, "epochs": 30, "seconds": 5.0, "reason": ""}\n')
    assert [job.text for job in task.news()] == ["✓ 5 s"]
    assert not task.is_finished
    lost = list(task.give_up("TIMEOUT"))
    assert [job.seed for job in lost] == [0, 1, 3]
    assert lost[0].reason == f"task 0 of SLURM job 7 is over (TIMEOUT); see {tmp_path}"
    assert task.is_finished


def test_a_full_disk_stops_no_cell(tmp_path: Path) -> None:
    one = bundle(tmp_path)
    one.events = Path("/dev/full")
    one._report(one.jobs[0])

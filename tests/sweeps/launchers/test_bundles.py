"""Which cells share a SLURM job, and what a job tells and keeps."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from calibench.runs import Run, write_json
from calibench.sweeps.launchers import slurm
from calibench.sweeps.launchers.slurm import (
    ArrayTask,
    Bundle,
    JobFolder,
    cut_bundles,
    wait_for_tasks,
)
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
    return Bundle(jobs(4), tmp_path, LauncherOptions(jobs=1, minutes_per_cell=30))


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


def job_folder(folder: Path, **status: str) -> JobFolder:
    """The folder of a job, with a status from before the sweep if one is given."""
    folder.mkdir(parents=True)
    if status:
        write_json(folder / "status.json", status)
    return JobFolder(Job("b", "loss", 1, {"trainer": {"max_epochs": 30}}), Run(folder))


def test_the_submitter_reads_run_folders(tmp_path: Path) -> None:
    shown = job_folder(tmp_path / "run")
    assert not shown.update()
    write_json(tmp_path / "run/status.json", {"status": "running"})
    assert shown.update()
    assert shown.job.text == "0/30"
    (tmp_path / "run/metrics.csv").write_text("epoch,val/nll\n0,1.2\n1,1.1\n")
    assert shown.update()
    assert shown.job.text == "2/30"
    assert not shown.update()
    write_json(tmp_path / "run/status.json", {"status": "failed", "reason": "terminated (SIGTERM)"})
    assert shown.update()
    assert (shown.job.state, shown.job.reason) == ("queued", "")  # a pre-emption: it goes on
    write_json(tmp_path / "run/environment.json", {"wall_seconds": 5.4})
    write_json(tmp_path / "run/status.json", {"status": "done"})
    assert shown.update()
    assert shown.job.text == "✓ 5 s"


def test_a_failure_from_before_is_not_the_sweeps(tmp_path: Path) -> None:
    old = {"status": "failed", "reason": "the loss is not finite", "finished": "yesterday"}
    shown = job_folder(tmp_path / "run", **old)
    assert not shown.update()
    write_json(tmp_path / "run/status.json", {**old, "finished": "today"})
    assert shown.update()
    assert (shown.job.state, shown.job.reason) == ("failed", "the loss is not finite")


def test_a_sweep_waits_until_every_folder_is_done_or_its_task_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "FOLDER_POLL_SECONDS", 0.0)
    monkeypatch.setattr(slurm, "ASKED_EVERY", -1.0)
    states = {"7": ["", ""], "8": ["TIMEOUT"]}
    monkeypatch.setattr(slurm, "ended", lambda array: states[array].__getitem__)
    shown = [job_folder(tmp_path / name) for name in "abc"]
    done, slow, lost = (folder.job for folder in shown)
    tasks = [ArrayTask("7", 0, tmp_path, [done]), ArrayTask("7", 1, tmp_path, [slow])]
    tasks.append(ArrayTask("8", 0, tmp_path, [lost]))
    write_json(tmp_path / "a/status.json", {"status": "done"})
    write_json(tmp_path / "b/status.json", {"status": "running"})
    news = wait_for_tasks(tasks, {id(folder.job): folder for folder in shown})
    assert [next(news) for _ in range(4)] == [done, slow, lost, None]
    assert lost.reason == f"task 0 of SLURM job 8 is over (TIMEOUT); see {tmp_path}"
    write_json(tmp_path / "b/status.json", {"status": "done"})
    states["7"][1] = "COMPLETED"  # it ended between two looks, the later of which sees the result
    assert [job for job in news if job] == [slow]
    assert [job.state for job in (done, slow, lost)] == ["done", "done", "failed"]

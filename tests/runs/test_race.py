"""Two processes asked for one cell: it is trained once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calibench.runs import Run
from calibench.training import fit as training


def arguments(root: Path) -> list[str]:
    quick = ["--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false"]
    return ["--config", "digits_lt", *quick, "--trainer.default_root_dir", str(root)]


def test_a_run_finished_between_the_look_and_the_claim_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, finished = training.fit(arguments(tmp_path / "theirs"))
    before = (finished.folder / "metrics.json").read_bytes()
    claimed = Run.claimed

    @contextmanager
    def after_the_other(run: Run) -> Iterator[None]:
        shutil.copytree(finished.folder, run.folder)
        with claimed(run):
            yield

    def train_again(*_: object) -> None:
        raise AssertionError("trained twice")

    monkeypatch.setattr(Run, "claimed", after_the_other)
    monkeypatch.setattr(training, "_train", train_again)
    outcome, run = training.fit(arguments(tmp_path / "ours"))
    assert outcome == "skipped"
    assert run.done
    assert not (run.folder / "run.lock").exists()
    assert (run.folder / "metrics.json").read_bytes() == before


def test_of_two_processes_one_trains(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calibench", "fit", *arguments(tmp_path)]
    both = [
        subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    ends = [(process, *process.communicate(timeout=240)) for process in both]
    said = [out + error for _, out, error in ends]
    assert sum(" is done." in text for text in said) == 1, said
    for process, _, error in ends:
        if process.returncode:
            assert "is being " in error
            assert len(error.splitlines()) == 1
    (status,) = tmp_path.rglob("status.json")
    assert json.loads(status.read_text())["status"] == "done"
    assert not list(tmp_path.rglob("run.lock"))

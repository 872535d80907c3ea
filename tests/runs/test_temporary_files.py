"""What a write that was cut off leaves is removed by the next; a temporary file is never one behind a link."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from calibench.runs import Run, atomic_file, write_atomically

A_DAY_AGO = time.time() - 90_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def leave(path: Path, *, old: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a part")
    if old:
        os.utime(path, (A_DAY_AGO, A_DAY_AGO))
    return path


def test_what_a_dead_writer_left_goes_with_the_next_write_after_a_day(tmp_path: Path) -> None:
    leave(tmp_path / ".x.json.00ff.tmp", old=True)
    leave(tmp_path / ".x.json.4711-00ff.00ff.tmp", old=True)  # of an earlier version
    write_atomically(tmp_path / "x.json", b"{}")
    assert names(tmp_path) == ["x.json"]


def test_what_a_writer_that_may_live_is_writing_stays(tmp_path: Path) -> None:
    theirs = [
        leave(tmp_path / ".x.json.00ff.tmp"),
        leave(tmp_path / ".y.json.00ff.tmp", old=True),  # another file's
    ]
    write_atomically(tmp_path / "x.json", b"{}")
    assert names(tmp_path) == sorted([*(path.name for path in theirs), "x.json"])


def test_a_write_that_fails_or_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "x") as file:
            file.write(b"a part")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []


def test_who_claims_a_run_removes_whatever_was_being_written_there(tmp_path: Path) -> None:
    run = Run(tmp_path)
    leave(tmp_path / ".status.json.4711.tmp")
    leave(run.checkpoints / ".last.ckpt.00ff.tmp")
    with run.claimed():
        assert names(tmp_path) == ["checkpoints", "run.lock"]
        assert names(run.checkpoints) == []


def test_a_link_in_the_place_of_a_temporary_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = leave(tmp_path / "precious")
    monkeypatch.setattr(secrets, "token_hex", lambda n: "00ff")  # which nobody can know
    (tmp_path / ".x.00ff.tmp").symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "x", b"content")
    assert precious.read_text() == "a part"


def test_on_a_full_disk_a_status_is_not_written_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    precious = leave(tmp_path / "precious")
    (tmp_path / "status.json").symlink_to(precious)
    monkeypatch.setattr("calibench.runs.folder.write_json", full)
    with pytest.raises(OSError, match="No space left"):
        Run(tmp_path).write_status("failed")
    assert precious.read_text() == "a part"

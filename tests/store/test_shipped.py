"""The store that comes with calibench, and the check of what is added to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import calibench
from calibench import store
from calibench.configuration.merging import benchmarks_folder
from calibench.evaluation.verify import verify_entry
from calibench.ranking import read_results
from calibench.store.index import list_rows

SHIPPED = benchmarks_folder() / "store"
ROOT = Path(__file__).parents[2]
ENTRY = "digits_lt/SmallCNN/CrossEntropyLoss"


def test_it_is_small_whole_and_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    rows = store.read_index(store.Folder(SHIPPED))
    assert rows == list_rows(store.Folder(SHIPPED))
    assert all(row.verified for row in rows)
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 10e6
    for entry in store.entries("store"):
        entry.check()
    read = read_results("store")
    assert (len(read.records), read.problems) == (len(rows), [])
    assert calibench.load(f"{ENTRY}/seed=1")["test"].logits.shape == (359, 10)


@pytest.mark.usefixtures("all_draws")
def test_the_numbers_of_an_entry_follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = verify_entry(store.find(f"{ENTRY}/seed=1"))
    assert [str(difference) for difference in found.wrong] == []
    assert found.checked > 100


@pytest.mark.slow
@pytest.mark.usefixtures("all_draws")
def test_all_numbers_follow() -> None:
    for entry in store.entries(SHIPPED):
        assert [str(difference) for difference in verify_entry(entry).wrong] == []


class TestWhatIsAdded:
    """`benchmarks/contributions/verify_store`, with a `calibench` that says how it was called."""

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "calibench").write_text('#!/bin/sh\necho called "$@"\n')
        (tmp_path / "bin" / "calibench").chmod(0o755)
        folder = tmp_path / "repository"
        self.write(folder, "a/b/c/d/seed=1/status.json")
        self.write(folder, "index.parquet")
        self.git(folder, "init", "-q", "-b", "main")
        self.commit(folder)
        self.git(folder, "checkout", "-q", "-b", "contribution")
        return folder

    def write(self, folder: Path, name: str, text: str = "x") -> None:
        path = folder / "benchmarks" / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, folder: Path, *arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True)

    def commit(self, folder: Path) -> None:
        self.git(folder, "add", "-A")
        self.git(folder, "commit", "-q", "-m", "x")

    def check(self, folder: Path) -> tuple[int, str]:
        self.commit(folder)
        path = f"{folder.parent / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", ROOT / "benchmarks" / "contributions" / "verify_store", "main"], cwd=folder, text=True,
            capture_output=True, env={**os.environ, "PATH": path},
        )  # fmt: skip
        return done.returncode, done.stdout

    def test_new_entries_are_verified(self, repository: Path) -> None:
        for name in ("status.json", "predictions/test.npz"):
            self.write(repository, f"a/b/my loss/d/seed=2/{name}")
        self.write(repository, "labels/00.npz")
        assert self.check(repository) == (
            0, "called store verify benchmarks/store benchmarks/store/a/b/my loss/d/seed=2\n"
        )  # fmt: skip

    def test_nothing_is_changed(self, repository: Path) -> None:
        self.write(repository, "a/b/c/d/seed=1/status.json", "y")
        code, out = self.check(repository)
        assert (code, "added, never changed" in out) == (1, True)

    def test_the_index_is_no_part_of_it(self, repository: Path) -> None:
        self.write(repository, "a/b/c/d/seed=2/status.json")
        self.write(repository, "index.parquet", "y")
        code, out = self.check(repository)
        assert (code, "leave it out" in out) == (1, True)

    def test_an_index_alone_is_what_verification_gives(self, repository: Path) -> None:
        self.write(repository, "index.parquet", "y")
        assert self.check(repository) == (0, "called store verify benchmarks/store\n")

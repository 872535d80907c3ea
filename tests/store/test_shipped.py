"""The store that comes with calibench, and the check of what is added to it."""

from __future__ import annotations

from pathlib import Path

import pytest

import calibench
from calibench import store
from calibench.configuration.files import benchmarks_folder
from calibench.evaluation.verify import verify_entry
from calibench.ranking import read_results
from calibench.store.index import list_rows

SHIPPED = benchmarks_folder() / "store"
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

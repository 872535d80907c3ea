"""Damaged, foreign and newer entries: one line each, and nothing that was there is lost."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest

import calibench
from calibench import store
from calibench.ranking.reading import read_results
from calibench.runs import CorruptRun, Predictions
from calibench.store import transfer
from calibench.store.entry import entry_digest
from tests.run_folders import settings_of, write_predictions, write_run
from tests.store.conftest import spoil

NAME = "digits_lt/SmallCNN/FocalLoss/seed=1"


def folder_of(kept: Path) -> Path:
    return store.find(NAME, kept).folder


@pytest.mark.parametrize("cut", [False, True])
def test_an_altered_or_truncated_file_is_named(kept: Path, cut: bool) -> None:
    file = folder_of(kept) / "predictions" / "test.npz"
    spoil(file, cut=cut)
    text = f"{file} is damaged or altered" + (".*shorter" if cut else "")
    with pytest.raises(CorruptRun, match=text):
        calibench.load(NAME, kept)


def test_a_file_that_is_missing_or_one_too_many_is_named(kept: Path) -> None:
    folder = folder_of(kept) / "predictions"
    (folder / "test.npz").rename(folder / "other.npz")
    with pytest.raises(CorruptRun, match=r"test\.npz is missing"):
        calibench.load(NAME, kept)
    (folder / "test.npz").write_bytes((folder / "other.npz").read_bytes())
    with pytest.raises(CorruptRun, match=r"other\.npz does not belong to the entry"):
        calibench.load(NAME, kept)


def edit(kept: Path, *, sealed: bool = True, **changes: object) -> None:
    path = folder_of(kept) / "status.json"
    status = json.loads(path.read_text()) | changes
    if sealed:
        status["digest"] = entry_digest(status)
    path.write_text(json.dumps(status))


def test_a_wrong_digest_is_named(kept: Path) -> None:
    edit(kept, sealed=False, precision="float32")
    with pytest.raises(CorruptRun, match="does not match its digest: damaged, or edited"):
        calibench.load(NAME, kept)


@pytest.mark.parametrize("file", ["../../x", "/etc/passwd", "predictions/../../../x.npz", "run.py"])
def test_an_entry_that_names_other_files_is_refused(kept: Path, file: str) -> None:
    edit(kept, files={file: {"bytes": 0, "sha256": ""}})
    with pytest.raises(CorruptRun, match="is no file of an entry"):
        calibench.load(NAME, kept)


@pytest.mark.parametrize(
    "name", ["../a/b/c/seed=1", "a/b/c/d/seed=x", "a/b/seed=1", "a/.b/c/d/seed=1"]
)
def test_an_entry_of_another_name_is_refused(name: str) -> None:
    from calibench.store.entry import check_name

    with pytest.raises(CorruptRun, match=r"is no <benchmark>|does not end in seed"):
        check_name(name)


def test_a_newer_format_is_named(kept: Path) -> None:
    edit(kept, format=3)
    with pytest.raises(CorruptRun, match="is of format 3, this calibench reads 2"):
        calibench.load(NAME, kept)
    (problem,) = read_results(kept).problems
    assert "is of format 3, this calibench reads 2" in problem.reason


def test_damaged_or_missing_labels_are_named(kept: Path) -> None:
    for file in kept.glob("labels/*"):
        with np.load(file) as arrays:
            np.savez(file, target=arrays["target"][::-1])
    with pytest.raises(CorruptRun, match=r"the labels .* do not match their digest"):
        calibench.load(NAME, kept)
    for file in kept.glob("labels/*"):
        file.unlink()
    with pytest.raises(CorruptRun, match=r"the labels .* are missing"):
        calibench.load(NAME, kept)


def test_labels_that_do_not_fit_the_logits_are_refused(results: Path, tmp_path: Path) -> None:
    (file,) = results.glob("*/*/FocalLoss/*/*/predictions/test.npz")
    with np.load(file) as arrays:
        changed = {**arrays, "target": arrays["target"][1:]}
    np.savez(file, **changed)
    added = store.add(tmp_path / "kept", results)
    assert len(added.new) == 1
    assert added.problems == [
        f"{file} is not a prediction file: `target` must be 200 integers, got int64 of shape (199,)."
    ]


def test_classes_in_another_order_are_refused(results: Path, kept: Path) -> None:
    run = write_run(results, loss="FocalLoss", settings=settings_of("FocalLoss", gamma=5.0))
    write_predictions(run)
    for file in run.glob("predictions/*.npz"):
        found = Predictions.load(file)
        found.metadata["class_names"].reverse()
        found.save(file)
    (problem,) = store.add(kept, results).problems
    assert "its classes are in another order (class 4, class 3, class 2, ...)" in problem
    assert len(list(store.entries(kept))) == 2


def test_unfinished_runs_are_named(results: Path, tmp_path: Path) -> None:
    write_run(results, loss="BrierLoss", status="running")
    added = store.add(tmp_path / "kept", results)
    assert len(added.new) == 2
    assert "it is no finished run but running" in added.problems[0]


def test_a_full_disk_leaves_what_was_there(
    results: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_predictions(write_run(results, loss="BrierLoss"))

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(transfer, "write_atomically", full)
    with pytest.raises(OSError, match="No space left on device"):
        store.add(kept, results)
    assert len(list(store.entries(kept))) == len(store.read_index(store.Folder(kept))) == 2
    assert not (kept / ".partial").exists()
    assert not (kept / "store.lock").exists()


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder nowhere"):
        store.results_folder("nowhere")
    with pytest.raises(ValueError, match="holds no run"):
        store.add(tmp_path / "kept", tmp_path)
    (tmp_path / "index.parquet").write_bytes(b"PAR1")
    with pytest.raises(store.StoreError, match="cannot be read"):
        store.read_index(store.Folder(tmp_path))

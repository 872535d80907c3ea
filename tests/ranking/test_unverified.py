"""An entry of a store that nobody here verified is never ranked without a mark; a forged one is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.configuration.files import benchmarks_folder
from calibench.ranking import rank_results, reading
from calibench.runs.files import describe_content
from calibench.store import entries
from calibench.store.entry import entry_digest
from calibench.store.verified import note_verified
from calibench.tables.grid import UNVERIFIED
from tests.run_folders import write_predictions, write_run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two entries, of whose index somebody says that all is verified."""
    from calibench.store import Folder, add, mark_verified

    for loss, nll in (("FocalLoss", 0.2), ("BrierLoss", 0.3)):
        values = {"nll": nll, "nll@TemperatureScaling": nll}
        write_predictions(write_run(tmp_path / "results", loss=loss, values=values), n=30)
    add(tmp_path / "store", tmp_path / "results")
    digests = {entry.digest: "9.9.9" for entry in entries(tmp_path / "store")}
    mark_verified(Folder(tmp_path / "store"), digests)
    return tmp_path / "store"


def folder_of(store: Path, loss: str) -> Path:
    return next(store.glob(f"*/*/{loss}/*/seed=1"))


def test_each_format_marks_what_is_not_verified(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the index of the store says, which came with it."""
    (verified,) = [e.digest for e in entries(store) if "BrierLoss" in e.name]
    note_verified([verified])
    for form in ("table", "markdown", "latex", "csv", "json"):
        assert main(["leaderboard", str(store), "--metrics", "nll", "--format", form]) == 0
        lines = capsys.readouterr().out.splitlines()
        if form == "json":
            focal, brier = json.loads("\n".join(lines))[0]["rows"]
            assert (focal["unverified"], "unverified" in brier) == ([1], False)
        elif form == "csv":
            assert "unverified_seeds" in lines[0]
        else:
            rows = [line for line in lines if "Focal" in line or "Brier" in line]
            rows = [line for line in rows if form != "latex" or "&" in line]
            mark = "dagger" if form == "latex" and UNVERIFIED not in rows[0] else UNVERIFIED
            assert [mark in line for line in rows[:2]] == [True, False], lines
            assert any("not verified on this machine" in line for line in lines)
    frame = rank_results(store, metrics=["nll"]).frame()
    assert set(zip(frame["loss"], frame["unverified"], strict=True)) == {
        ("Focal", True),
        ("Brier", False),
    }


def test_a_run_of_a_folder_of_results_has_no_mark(store: Path) -> None:
    assert UNVERIFIED not in str(rank_results(store.parent / "results", metrics=["nll"]))


def test_the_shipped_store_is_verified_by_its_index() -> None:
    ranked = rank_results(benchmarks_folder() / "store" / "digits_lt", metrics=["nll"])
    assert [row.unverified for table in ranked.tables for row in table.rows if row.unverified] == []


def test_the_index_of_runs_keeps_which_entry_a_number_is_of(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "INDEXED", 1)
    for _ in range(2):  # read, then from the index
        assert len(reading.read_results(store).unverified) == 2
    note_verified([entry.digest for entry in entries(store)])
    assert reading.read_results(store).unverified == frozenset()


def test_a_changed_number_is_left_out_and_a_forged_digest_is_not_verified(store: Path) -> None:
    """A number that is changed; the digests made anew beside it; what was verified before does not count for it."""
    note_verified([entry.digest for entry in entries(store)])
    assert reading.read_results(store).unverified == frozenset()
    folder = folder_of(store, "FocalLoss")
    metrics = folder / "metrics.json"
    content = json.loads(metrics.read_text())
    for row in content["rows"]:
        row["value"] = 0.001 if row["metric"] == "nll" else row["value"]
    metrics.write_text(json.dumps(content))
    read = reading.read_results(store)
    assert [problem.reason.partition(":")[0] for problem in read.problems] == [
        "metrics.json is damaged or altered"
    ]
    status = json.loads((folder / "status.json").read_text())
    status["files"]["metrics.json"] = describe_content(metrics.read_bytes())
    status["digest"] = entry_digest(status)
    (folder / "status.json").write_text(json.dumps(status))
    ranked = rank_results(store, metrics=["nll"])
    assert [row.unverified for row in ranked.tables[0].rows] == [[1], []]
    assert UNVERIFIED in str(ranked)

"""The index of results saves time and is never the truth."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from calibench.ranking import read_results, reading
from calibench.ranking.column_store import RUN_INDEX
from calibench.ranking.records import NumberFilter, Results
from calibench.statistics.number import Key
from calibench.tables.metric_titles import METRICS
from tests.run_folders import write_run

OF_NLL = NumberFilter(frozenset({"nll"}))
VERDICT = {
    "split": "test",
    "calibrator": "raw",
    "metric": "ece",
    "n_bins": 15,
    "value": 0.1,
    "floor": 0.02,
    "p": 0.5,
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs whose numbers have other keys, and one that failed; so few are indexed."""
    monkeypatch.setattr(reading, "INDEXED", 2)
    monkeypatch.setitem(METRICS, "mine", METRICS["nll"])  # and none after the test
    for seed in (1, 2, 10):
        write_run(tmp_path, seed=seed, values={"nll": seed / 10, "brier": math.inf})
    write_run(tmp_path, loss="FocalLoss", rows=[VERDICT], sets={"noise": 0.5})
    described = {"mine": {"title": "Mine", "percent": False, "higher_is_better": None}}
    write_run(tmp_path, loss="BrierLoss", changes={"caveats": ["seen"], "metrics": described})
    write_run(tmp_path, loss="DCALoss", status="failed", reason="NaN")
    return tmp_path


def opened(
    monkeypatch: pytest.MonkeyPatch, results: Path, wanted: NumberFilter = OF_NLL
) -> tuple[Results, int]:
    """The results, and how many metrics.json were read for them."""
    names: list[str] = []

    def read(folder: str, name: str, *, original: object = reading._read_file) -> object:
        names.append(name)
        return original(folder, name)  # type: ignore[operator]

    with monkeypatch.context() as patch:
        patch.setattr(reading, "_read_file", read)
        found = read_results(results, number_filter=wanted)
    return found, names.count("metrics.json")


@pytest.mark.parametrize(
    "wanted", [OF_NLL, NumberFilter(), NumberFilter(frozenset({"ece"}), frozenset({"test"}))]
)
def test_it_gives_what_the_files_give(
    results: Path, monkeypatch: pytest.MonkeyPatch, wanted: NumberFilter
) -> None:
    first, read = opened(monkeypatch, results, wanted)
    assert read == len(first.records) > 3
    assert opened(monkeypatch, results, wanted) == (first, 0)
    monkeypatch.setattr(reading, "INDEXED", 100)
    plain = read_results(results, number_filter=wanted)
    assert plain == first
    for one, other in zip(plain.records, first.records, strict=True):
        assert list(one.values) == list(other.values)  # in this order


def test_a_run_that_changed_is_read_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_results(results)
    folder = write_run(results, seed=2, values={"nll": 0.7})
    found, read = opened(monkeypatch, results)
    assert read == 1
    assert [
        record.values[Key("nll")] for record in found.records if record.folder == str(folder)
    ] == [0.7]
    content = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(content | {"claimed": ["test"]}))
    found, read = opened(monkeypatch, results)
    assert read == 1
    assert any("claimed" in caveat for record in found.records for caveat in record.caveats)
    assert opened(monkeypatch, results)[1] == 0


def test_a_file_of_the_same_size_and_time_is_another_file(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an archive could bring, with an index to believe it."""
    folder = write_run(results, seed=2, values={"nll": 0.2})
    read_results(results)
    then = (folder / "metrics.json").stat()
    write_run(results, seed=2, values={"nll": 0.3})
    os.utime(folder / "metrics.json", ns=(then.st_atime_ns, then.st_mtime_ns))
    assert (folder / "metrics.json").stat().st_size == then.st_size
    found, _ = opened(monkeypatch, results)
    assert 0.3 in [record.values[Key("nll")] for record in found.records]


def test_a_run_that_is_gone_is_gone(results: Path) -> None:
    first, *others = read_results(results).records
    shutil.rmtree(first.folder)
    assert read_results(results).records == others


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "folder", "other version", "link"])
def test_a_damaged_index_is_made_again(
    results: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    first, _ = opened(monkeypatch, results)
    file = results / RUN_INDEX
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[:-9])
    elif damage == "flipped":
        for place in range(4, len(content) // 2, 7):
            content[place] ^= 0xFF
        file.write_bytes(content)
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "other version":
        table = pq.read_table(file)
        meta = json.loads(table.schema.metadata[b"calibench"]) | {"format": "0"}
        pq.write_table(table.replace_schema_metadata({b"calibench": json.dumps(meta)}), file)
    else:
        file.unlink()
        file.mkdir() if damage == "folder" else file.symlink_to("/dev/zero")
    found, read = opened(monkeypatch, results)
    assert (found, read) == (first, len(first.records))
    if damage != "folder":
        assert opened(monkeypatch, results) == (first, 0)


def test_results_that_cannot_be_written_have_none(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    assert len(read_results(results).records) > 3
    assert not (results / RUN_INDEX).exists()


def test_a_warning_is_given_each_time(results: Path) -> None:
    folder = write_run(results, seed=7)
    (folder / "environment.json").write_text("{")
    first, again = read_results(results), read_results(results)
    assert first == again
    assert len(again.warnings) == 1


def test_few_runs_have_none(tmp_path: Path) -> None:
    write_run(tmp_path)
    read_results(tmp_path)
    assert not (tmp_path / RUN_INDEX).exists()

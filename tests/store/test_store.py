"""A store: what is added is found again, once, whole, and by name."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import yaml

import calibench
from calibench import store
from calibench.ranking import rank_results, read_results
from calibench.runs import Predictions, read_json, write_json
from calibench.runs.lock import hold_lock
from calibench.store import index as store_index
from calibench.store.packing import ROUNDING
from tests import warm
from tests.run_folders import settings_of, write_predictions, write_run

NAME = "digits_lt/SmallCNN/FocalLoss/seed=1"


def imported(dataset: str, model: str, sets: dict[str, Predictions]) -> store.Imported:
    return store.Imported(dataset, model, lambda: sets)


def first(root: Path, file: str) -> Path:
    return sorted(root.rglob(file))[0]


def test_an_entry_holds_the_logits_rounded_and_everything_else_as_it_was(
    results: Path, kept: Path
) -> None:
    sets = calibench.load(NAME, kept)
    assert list(sets) == ["val", "test", "noise", "photos"]
    for name, found in sets.items():
        (file,) = results.glob(f"*/*/FocalLoss/*/*/predictions/{name}.npz")
        run = Predictions.load(file)
        below = np.abs(run.logits - run.logits.max(1, keepdims=True))
        assert (np.abs(found.logits - run.logits) <= ROUNDING * below + 1e-5).all()
        assert (found.target == run.target).all()
        assert found.metadata.items() >= run.metadata.items()
        assert found.kind == run.kind
    (metrics,) = kept.glob("*/*/FocalLoss/*/*/metrics.json")
    assert read_json(metrics) == read_json(results / metrics.relative_to(kept))


def test_exact_keeps_every_bit(results: Path, tmp_path: Path) -> None:
    store.add(tmp_path / "exact", results, policy=store.StoragePolicy(exact=True))
    found = store.find(NAME, tmp_path / "exact")
    (file,) = results.glob("*/*/FocalLoss/*/*/predictions/test.npz")
    assert found.exact
    assert (found.predictions()["test"].logits == Predictions.load(file).logits).all()


def test_labels_are_kept_once_for_all_runs_on_the_same_examples(kept: Path) -> None:
    assert len(list(kept.rglob("predictions/*.npz"))) == 8
    assert len(list(kept.glob("labels/*.npz"))) == 4  # of four sets, for two runs


def test_no_file_names_a_folder_of_the_machine(results: Path, tmp_path: Path) -> None:
    file = first(results, "environment.json")
    content = {"command": "/home/me/calibench fit", "wall_seconds": 2.0}
    file.write_text(json.dumps(content))
    data = {"class_path": "CIFAR10DataModule", "init_args": {"root": "/home/me/data", "ood": []}}
    config = {"data": data, "trainer": {"default_root_dir": "/home/me", "max_epochs": 3}}
    file.with_name("config.yaml").write_text(yaml.safe_dump(config))
    metrics = file.with_name("metrics.json")
    write_json(
        metrics, {**read_json(metrics), "unavailable": {"svhn": "/home/me/x.mat is missing"}}
    )
    store.add(tmp_path / "kept", results)
    entry = next(store.entries(tmp_path / "kept"))
    assert entry.metrics()["unavailable"] == {"svhn": "x.mat is missing"}
    kept = yaml.safe_load((entry.folder / "config.yaml").read_text())
    assert kept["trainer"] == {"default_root_dir": None, "max_epochs": 3}
    assert kept["data"]["init_args"] == {"root": None, "ood": []}
    public = json.loads((tmp_path / "kept" / file.relative_to(results)).read_text())
    assert public == {"wall_seconds": 2.0}


def test_the_same_content_is_taken_once(results: Path, kept: Path) -> None:
    again = store.add(kept, results)
    assert (len(again.new), len(again.known), again.problems) == (0, 2, [])
    exact = store.add(kept, results, policy=store.StoragePolicy(exact=True))
    assert len(exact.known) == 2


def test_two_runs_of_one_identity_are_named_and_neither_is_overwritten(
    results: Path, kept: Path
) -> None:
    before = store.find(NAME, kept).digest
    (run,) = results.glob("*/*/FocalLoss/*/*")
    write_predictions(run, scale=3.0)
    added = store.add(kept, results)
    assert len(added.problems) == 1
    assert "FocalLoss" in added.problems[0]
    assert "another run has this identity" in added.problems[0]
    assert store.find(NAME, kept).digest == before


def test_one_store_is_added_to_another(kept: Path, tmp_path: Path) -> None:
    added = store.add(tmp_path / "other", kept)
    assert len(added.new) == 2
    digests = [[entry.digest for entry in store.entries(s)] for s in (kept, tmp_path / "other")]
    assert digests[0] == digests[1]
    assert len(store.add(tmp_path / "other", kept).known) == 2
    assert not (tmp_path / "other" / ".partial").exists()


def test_a_chosen_part_of_the_splits_leaves_claimed_numbers(results: Path, tmp_path: Path) -> None:
    store.add(tmp_path / "kept", results, policy=store.StoragePolicy(sets=[]))
    entry = store.find(NAME, tmp_path / "kept")
    assert list(entry.predictions()) == ["val", "test"]
    assert entry.status["claimed"] == ["noise", "photos"]
    (row, _) = store.read_index(store.Folder(tmp_path / "kept"))
    assert (row.sets, row.claimed) == (["val", "test"], ["noise", "photos"])
    record = read_results(tmp_path / "kept").records[0]
    assert "claimed, as their logits are not in the store: noise, photos" in record.caveats


def test_the_index_is_derived(kept: Path) -> None:
    before = store.read_index(store.Folder(kept))
    (kept / "index.parquet").unlink()
    assert store.rebuild_index(store.Folder(kept)) == before
    assert before[0].examples == 200
    assert before[0].outputs == "5 classes"


def test_what_was_verified_stays_so_until_a_file_changes(
    results: Path, kept: Path, tmp_path: Path
) -> None:
    place = store.Folder(kept)
    digest = store.find(NAME, kept).digest
    store.mark_verified(place, {digest: "0.1.0"})
    (index,) = kept.glob("index.*")
    written = index.stat().st_mtime_ns
    store.mark_verified(place, {digest: "0.1.0"})
    assert index.stat().st_mtime_ns == written  # which says so already
    before = store.read_index(place)
    store_index._write(place, [dataclasses.replace(row, examples=7) for row in before])
    store.mark_verified(place, {digest: "0.1.0"})
    assert store.read_index(place) == before  # what was typed into it is made again
    write_predictions(write_run(results, loss="BrierLoss"))
    store.add(kept, results)
    assert {row.name.split("/")[2]: row.verified for row in store.read_index(place)} == {
        "BrierLoss": "",
        "CrossEntropyLoss": "",
        "FocalLoss": "0.1.0",
    }


def test_the_numbers_of_a_store_are_those_of_the_runs(results: Path, kept: Path) -> None:
    runs, entries = (read_results(folder).records for folder in (results, kept))
    assert [run.cell for run in runs] == [entry.cell for entry in entries]
    assert [run.values for run in runs] == [entry.values for entry in entries]


def test_reading_needs_no_torch(kept: Path) -> None:
    code = f"import sys; from calibench import load; load({NAME!r}, {str(kept)!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class TestNames:
    def test_a_key_is_needed_only_where_two_would_match(self, results: Path, kept: Path) -> None:
        settings = settings_of("FocalLoss", gamma=5.0)
        write_predictions(write_run(results, loss="FocalLoss", settings=settings))
        store.add(kept, results)
        with pytest.raises(store.StoreError, match="fits 2 entries: say digits_lt") as caught:
            calibench.load(NAME, kept)
        for name in (row.name for row in store.read_index(store.Folder(kept))):
            assert (name in str(caught.value)) == ("FocalLoss" in name)
            assert calibench.load(name, kept)

    def test_a_near_match_is_named(self, kept: Path) -> None:
        with pytest.raises(store.StoreError, match="did you mean digits_lt/SmallCNN/FocalLoss"):
            calibench.load("digits_lt/SmallCNN/FocalLos/seed=1", kept)

    def test_a_run_is_found_below_a_store_or_by_its_folder(self, results: Path, kept: Path) -> None:
        (run,) = results.glob("*/*/FocalLoss/*/*")
        assert store.find_run(f"{kept}/{NAME}") == store.find_run(
            str(kept / run.relative_to(results))
        )
        assert store.find_run(str(run)).digest == ""
        with pytest.raises(FileNotFoundError, match="no run elsewhere"):
            store.find_run("elsewhere")

    def test_a_folder_called_store_comes_before_the_one_that_is_shipped(
        self, kept: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(kept.parent)
        shutil.move("kept", "store")
        assert store.results_folder("store") == Path("store")


def test_imported_predictions_have_the_path_of_their_content(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    sets = {
        split: Predictions(noise.normal(size=(50, 3)).astype("f4"), noise.integers(3, size=50))
        for split in ("val", "test")
    }
    added = store.add_imported(tmp_path, [imported("adult", "catboost/v2", sets)])
    (name,) = added.new
    dataset, model, what, digest, seed = name.split("/")
    assert (dataset, model, what, seed) == ("adult", "catboost_v2", "imported", "seed=1")
    entry = store.find(name, tmp_path)
    assert entry.imported
    assert entry.status["content"].startswith(digest)
    assert store.add_imported(tmp_path, [imported("adult", "catboost/v2", sets)]).known == [name]
    assert rank_results(tmp_path).warnings == [
        "there are only imported predictions, which come without numbers (see `calibench evaluate`)"
    ]


def test_several_labels_an_example_come_back_as_they_were(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    logits = noise.normal(size=(40, 6)).astype("f4") * 5
    target = noise.integers(-1, 2, size=(40, 6))
    given = Predictions.from_labels(logits, target, {"label_names": list("abcdef")})
    (name,) = store.add_imported(tmp_path, [imported("xray", "densenet", {"test": given})]).new
    found = store.load_entry(name, tmp_path)["test"]
    arrays = found.arrays("logits", found.logits, found.unknown_logits)
    assert (arrays["target"] == target).all()
    assert (np.abs(arrays["logits"] - logits) <= ROUNDING * np.abs(logits)).all()
    assert found.label_names == list("abcdef")
    assert store.read_index(store.Folder(tmp_path))[0].outputs == "6 labels"


def test_two_writers_at_once_are_one_line(results: Path, kept: Path) -> None:
    with (
        hold_lock(kept / "store.lock"),
        pytest.raises(store.StoreError, match="is being written by"),
    ):
        store.add(kept, results)


def check_both_are_listed(mine: Path) -> None:
    names = [entry.name for entry in store.entries(mine)]
    assert len(names) == 2
    assert [row.name for row in store.read_index(store.Folder(mine))] == sorted(names)
    assert not (mine / ".partial").exists()


def test_two_forks_that_add_at_once_lose_nothing(results: Path, tmp_path: Path) -> None:
    """One of them may be refused, and comes again; the store then has all, and its index lists them."""
    runs, mine, busy = sorted(results.glob("*/*/*/*/*")), tmp_path / "mine", 3
    for _ in range(2):
        children = []
        for run in runs:
            if (pid := os.fork()) == 0:
                code = 1
                try:
                    store.add(mine, run)
                    code = 0
                except store.StoreError as error:
                    code = busy if "is being written by" in str(error) else 1
                finally:
                    os._exit(code)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert set(codes) <= {0, busy}
        runs = [run for run, code in zip(runs, codes, strict=True) if code]
        assert len(runs) <= 1  # the other one is alone by then
    assert runs == []
    check_both_are_listed(mine)


@pytest.mark.slow
def test_two_processes_that_add_at_once_lose_nothing(results: Path, tmp_path: Path) -> None:
    """As forks do, by the command line."""
    runs = sorted(results.glob("*/*/*/*/*"))
    assert len(runs) == 2
    mine = tmp_path / "mine"
    commands = [["store", "add", str(run), "--to", str(mine)] for run in runs]
    refused = 0
    while commands:
        with ExitStack() as stack:
            both = [(one, stack.enter_context(warm.started(one))) for one in commands]
            done = [(one, process.finish()) for one, process in both]
        for _, one in done:
            assert one.returncode == 0 or "is being written by" in one.stderr, one.stderr
        commands = [command for command, one in done if one.returncode]
        refused += len(commands)
        assert refused <= 1  # the other one is alone by then
    check_both_are_listed(mine)


def test_an_index_with_fewer_rows_than_its_footer_says_is_damaged(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", lambda *_, **__: iter(()))
    with pytest.raises(store.StoreError, match="0 rows are in it, its footer says 2"):
        store.read_index(store.Folder(kept))


@pytest.mark.slow
def test_an_index_whose_footer_lost_its_rows_is_damaged(kept: Path) -> None:
    """A bit of the footer, which has no checksum: the columns say that they have no values."""
    path = kept / "index.parquet"
    good, rows = path.read_bytes(), store.read_index(store.Folder(kept))
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    refused = 0
    for place in range(footer, len(good) - 8, 3):
        for bit in (2, 6):
            changed = bytearray(good)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                assert store.read_index(store.Folder(kept)) == rows
            except store.StoreError:
                refused += 1
    assert refused > 100

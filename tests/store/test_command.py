"""`calibench store` as a user meets it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from calibench import store
from calibench.cli import main
from calibench.evaluation import Evaluation, verify
from calibench.evaluation.serialization import fill_defaults
from calibench.messages.version import __version__
from calibench.runs import Predictions
from calibench.store import Entry
from calibench.store.verified import verified_digests
from tests.run_folders import write_predictions, write_run
from tests.store.conftest import spoil

ENTRY = "digits_lt/SmallCNN/CrossEntropyLoss"
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "evidence" / "shipped_store.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run whose numbers follow from its logits, and one whose numbers do not."""
    results = tmp_path_factory.mktemp("runs") / "results"
    write_predictions(write_run(results, loss="FocalLoss"))
    folder = write_run(results, sets={})
    write_predictions(folder)
    sets = {
        name: Predictions.load(folder / "predictions" / f"{name}.npz") for name in ("val", "test")
    }
    found = Evaluation([], [15])(sets)
    settings = fill_defaults({"calibrators": [], "n_bins": [15]})
    told = {"rows": found.rows, "calibrators": {}, "evaluation": settings}
    write_run(results, changes=told)
    return results


@pytest.fixture
def mine(made: Path, tmp_path: Path) -> Path:
    store.add(tmp_path / "mine", made)
    return tmp_path / "mine"


def test_add_and_list(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = str(tmp_path / "mine")
    assert main(["store", "add", str(made), "--to", mine, "--sets", "none"]) == 0
    assert f"{mine}: 2 added, 0 there already" in capsys.readouterr().out
    assert main(["store", "add", str(made), "--to", mine]) == 1  # now with other sets
    assert "another run has this identity" in capsys.readouterr().err
    assert main(["store", "list", mine]) == 0
    out = capsys.readouterr().out
    assert f"{ENTRY}/" in out
    assert "val test" in out
    assert "noise photos" in out  # claimed
    assert "2 entries" in out


def test_what_float16_would_change_too_much_is_kept_exactly(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        verify, "tolerated_difference", lambda *_, exact: 0.0
    )  # as if each change were large
    mine = tmp_path / "mine"
    assert main(["store", "add", str(made), "--to", str(mine)]) == 0
    out = capsys.readouterr().out
    assert out.count("as float32: numbers would not follow from float16") == 1
    kept = {
        path.name: Entry.read(path / "seed=1").exact
        for path in mine.glob("*/*/*/*")
        if path.is_dir()
    }
    assert sorted(kept.values()) == [False, True]  # the other run's numbers follow from neither
    assert main(["store", "verify", str(mine), ENTRY]) == 0
    assert main(["store", "add", str(made), "--to", str(mine)]) == 0
    assert "0 added, 2 there already" in capsys.readouterr().out


def test_the_script_of_the_store_that_ships(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    one = next((made / ENTRY).iterdir())
    monkeypatch.setattr(sys, "argv", ["shipped_store.py", str(one), "--to", str(mine)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "1 added" in capsys.readouterr().out
    monkeypatch.setattr(
        verify, "tolerated_difference", lambda *_, exact: 1e-6
    )  # nothing is lost twice
    assert main(["store", "verify", str(mine)]) == 0


def test_list_reads_the_index_alone(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in mine.rglob("*/status.json"):
        file.unlink()
    assert main(["store", "list", str(mine)]) == 0
    assert "2 entries" in capsys.readouterr().out


def test_verify_marks_what_follows_and_names_what_does_not(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "verify", str(mine)]) == 1
    told = capsys.readouterr()
    assert "1 of 2 entries: every number follows from the logits" in told.out
    assert "FocalLoss" in told.err
    assert "metrics.json lacks what a run holds (KeyError: 'evaluation')" in told.err
    digests = {entry.name.split("/")[2]: entry.digest for entry in store.entries(mine)}
    assert verified_digests(mine, digests.values()) == {digests["CrossEntropyLoss"]}
    assert {row.verified for row in store.read_index(store.Folder(mine))} == {""}
    assert main(["store", "list", str(mine)]) == 0
    assert capsys.readouterr().out.count(__version__) == 1


def test_verify_takes_entries_and_files_of_them(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = store.find(f"{ENTRY}/seed=1", mine)
    for what in (ENTRY, entry.name, f"{mine}/{entry.name}/predictions/val.npz"):
        assert main(["store", "verify", str(mine), what]) == 0
        assert "1 of 1 entries" in capsys.readouterr().out


def test_a_damaged_entry_is_not_verified_any_more(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["store", "verify", str(mine), ENTRY])
    digest = store.find(f"{ENTRY}/seed=1", mine).digest
    assert verified_digests(mine, [digest]) == {digest}
    entry = store.find(f"{ENTRY}/seed=1", mine)
    spoil(entry.folder / "predictions" / "test.npz")
    assert main(["store", "verify", str(mine), ENTRY]) == 1
    assert "is damaged or altered: its digest differs" in capsys.readouterr().err
    assert verified_digests(mine, [digest]) == frozenset()


def test_a_run_of_a_folder_of_results_is_verified_too(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "verify", str(made), ENTRY]) == 0
    assert not (made / "index.parquet").exists()


def test_add_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(0)
    file = tmp_path / "forest.npz"
    np.savez(file, probs=noise.dirichlet(np.ones(3), size=30), y=noise.integers(3, size=30))
    mine = str(tmp_path / "mine")
    assert main(["store", "add", str(file), "--name", "iris/forest", "--to", mine]) == 0
    assert main(["store", "verify", mine]) == 0
    assert "nothing to verify: 1 entry" in capsys.readouterr().out


def test_to_is_not_of_push_and_what_it_meant_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, meant in (
        ("mine --to backup", "mine backup"),
        ("memory://a --to mine", "mine memory://a"),
    ):
        assert main(["store", "push", *words.split()]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"source first, calibench store push {meant}" in line


def test_pull_and_push_there_and_back(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/shared"
    capsys.readouterr()
    assert main(["store", "push", str(mine), url]) == 0
    assert capsys.readouterr().out.startswith(f"{mine} -> {url}: 2 entries\n")
    assert main(["store", "pull", url, ENTRY, "--to", str(tmp_path / "third")]) == 0
    assert f"{tmp_path}/third: 1 added" in capsys.readouterr().out
    assert main(["store", "pull", url, str(tmp_path / "fourth"), ENTRY]) == 0
    assert f"{url} -> {tmp_path}/fourth\n" in capsys.readouterr().out
    assert main(["store", "add", str(mine), str(tmp_path / "fifth")]) == 0
    assert f"{tmp_path}/fifth: 2 added" in capsys.readouterr().out


def test_push_takes_the_source_first(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`push A --to B` copied B into A."""
    for words, problem in (
        (["push", "there", "--to", str(mine)], f"calibench store push there {mine}"),
        (["push", str(mine)], "needs a store and a URL"),
        (["push", "file://x", str(mine)], "is a URL"),
        (["add", str(mine)], "needs a store to add to"),
        (["add", str(mine), "file://x"], "`store push` sends it to a URL"),
        (["pull", "file://x"], "needs a URL and a folder"),
    ):
        assert main(["store", *words]) == 2
        assert problem in capsys.readouterr().err
    assert not (tmp_path / "there").exists()


def test_evaluate_takes_a_run_and_an_entry(
    mine: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for root in (made, mine):
        options = ["--calibrators", "TemperatureScaling", "--bootstrap", "0"]
        assert main(["evaluate", f"{root}/{ENTRY}/seed=1", *options]) == 0
        said.append(capsys.readouterr().out)
    errors = [[line.split()[:2] for line in out.splitlines()[1:5]] for out in said]
    assert errors[0] == errors[1]
    assert "OOD AUROC % noise" in said[1]


def test_predictions_go_to_mine_where_no_store_is_named_and_rank_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    target = random.integers(0, 3, 60)
    for name, scale in (("good", 3.0), ("bad", 0.1)):
        logits = scale * np.eye(3)[target] + random.normal(size=(60, 3))
        np.savez(f"{name}.npz", logits=logits.astype(np.float32), target=target)
        assert main(["store", "add", f"{name}.npz", "--name", f"iris/{name}"]) == 0
    streams = capsys.readouterr()
    assert "no store is named: mine is used" in streams.err
    assert main(["store", "verify", "mine"]) == 0
    assert "nothing to verify: 2 entries" in capsys.readouterr().out
    assert main(["leaderboard", "mine"]) == 0
    out = capsys.readouterr().out
    assert "iris / 60 test examples" in out
    assert out.index("good") < out.index("bad")
    assert (
        main(["leaderboard", "shipped/digits_lt", "--top", "1"]) == 0
    )  # a store called mine hides nothing

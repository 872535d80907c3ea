"""The files of a run are those that the run wrote, or they are refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.runs import CorruptRun, Predictions, read_json, write_json
from calibench.runs.files import describe_files
from calibench.store import StoragePolicy, add
from tests.run_folders import write_predictions, write_run

CURVE = "epoch,step,val/nll\n0,10,1.5\n1,20,1.25\n"


def sealed(folder: Path) -> Path:
    """A run with predictions and a training curve, as training leaves it."""
    write_predictions(folder, n=40)
    (folder / "metrics.csv").write_text(CURVE)
    content = read_json(folder / "metrics.json")
    write_json(folder / "metrics.json", {**content, "files": describe_files(folder)}, sealed=True)
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    results = tmp_path / "results"
    return [sealed(write_run(results, seed=seed)) for seed in (1, 2)]


def of_another_seed(runs: list[Path]) -> str:
    shutil.copy(runs[1] / "predictions" / "test.npz", runs[0] / "predictions" / "test.npz")
    return "test.npz"


def of_another_set(runs: list[Path]) -> str:
    shutil.copy(runs[0] / "predictions" / "photos.npz", runs[0] / "predictions" / "noise.npz")
    return "noise.npz"


VERBS: list[Callable[[Path], list[str]]] = [
    lambda run: ["evaluate", str(run), "--calibrators", "none"],
    lambda run: ["doctor", str(run)],
    lambda run: ["store", "add", str(run), "--to", str(run.parents[5] / "store")],
    lambda run: ["plot", "reliability", str(run), "-o", str(run.parents[5] / "r.png")],
    lambda run: ["evaluate", "--test", str(run / "predictions/test.npz"), "--calibrators", "none"],
]


@pytest.mark.parametrize("verb", VERBS)
def test_what_reads_a_run_names_a_file_of_another_one(
    verb: Callable[[Path], list[str]], runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name = of_another_seed(runs)
    assert main(verb(runs[0])) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert name in said
    assert "its digest differs (" in said


@pytest.mark.parametrize("damage", [of_another_seed, of_another_set])
def test_a_report_names_each_file_that_it_leaves_out(
    damage: Callable[[list[Path]], str], runs: list[Path], tmp_path: Path
) -> None:
    name = damage(runs)
    (runs[1] / "metrics.csv").write_text(CURVE.replace("1.25", "1.26"))
    assert main(["report", str(tmp_path / "results"), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert f"{name} is damaged or altered" in page
    assert "metrics.csv is damaged or altered" in page


def test_a_curve_of_another_shape_is_named(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in runs:
        (run / "metrics.csv").write_text("epoch,step,val/nll\n0,10\n1,20,1.25\n")
    assert main(["plot", "curves", str(tmp_path / "results"), "-o", str(tmp_path / "c.png")]) != 0
    assert "metrics.csv" in capsys.readouterr().err


def test_a_whole_run_is_read_and_one_without_digests_too(runs: list[Path], tmp_path: Path) -> None:
    assert len(Predictions.load(runs[0] / "predictions" / "test.npz").target) == 40
    content = read_json(runs[0] / "metrics.json")
    write_json(runs[0] / "metrics.json", {k: v for k, v in content.items() if k != "files"})
    of_another_seed(runs)
    Predictions.load(runs[0] / "predictions" / "test.npz")
    assert add(tmp_path / "store", runs[1], policy=StoragePolicy()).problems == []


def test_a_store_names_its_own_digests(runs: list[Path], tmp_path: Path) -> None:
    add(tmp_path / "store", runs[0], policy=StoragePolicy())
    [test] = (tmp_path / "store").rglob("test.npz")
    shutil.copy(test.with_name("val.npz"), test)
    with pytest.raises(CorruptRun, match=r"test\.npz is damaged or altered"):
        Predictions.load(test)

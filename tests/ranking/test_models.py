"""A leaderboard of models, from files of their predictions for the same examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibench
from calibench.cli import main
from calibench.ranking.models import rank_models

K = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models: `good` sees the class clearly, `sharp` less so and is overconfident."""
    root = tmp_path_factory.mktemp("models")
    random = np.random.default_rng(0)
    for name, n in (("test", 150), ("val", 100)):
        target = random.integers(0, K, n)
        for model, signal, scale in (("good", 4.0, 1.0), ("sharp", 2.0, 3.0)):
            logits = scale * (random.normal(size=(n, K)) + signal * np.eye(K)[target])
            np.savez(root / f"{model}_{name}.npz", logits=logits.astype("float32"), target=target)
    return root


def paths(root: Path, name: str) -> list[str]:
    return [str(root / f"{model}_{name}.npz") for model in ("sharp", "good")]


def test_a_row_for_each_model_with_its_best_calibrator(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.verbs.leaderboard.RESAMPLES", 50)
    command = [
        "leaderboard",
        *paths(files, "test"),
        "--val",
        *paths(files, "val"),
        "--format",
        "md",
    ]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "models / 150 test examples" in text
    lead = next(line for line in text.splitlines() if line.startswith("lowest test NLL: good"))
    assert "; next: sharp" in lead
    assert lead.endswith("; significantly better than every other model")
    assert "| # | model | after | NLL | Brier | ECE% | raw NLL | raw ECE% | Error % |" in text
    (first, second) = [line for line in text.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
    assert "good" in first
    assert "sharp" in second
    assert " ± " in first
    assert "**" in first
    assert "± standard error over test examples" not in text  # with --notes


def test_models_in_memory_have_the_numbers_of_their_files(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.verbs.leaderboard.RESAMPLES", 50)
    sets = {}
    for name in ("test", "val"):
        arrays = {model: np.load(files / f"{model}_{name}.npz") for model in ("sharp", "good")}
        sets[name] = {model: (part["logits"], part["target"]) for model, part in arrays.items()}
    board = calibench.leaderboard(sets["test"], val=sets["val"])
    from_files = calibench.leaderboard(paths(files, "test"), val=paths(files, "val"))
    for model in ("sharp", "good"):
        for column in ("nll", "nll@best", "ece"):
            expected = from_files.value(f"{model}_test", column)
            assert board.value(model, column) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="one file, or one pair of scores and labels"):
        calibench.leaderboard({"both": paths(files, "test")})
    with pytest.raises(ValueError, match="of each model by its name"):
        calibench.leaderboard(sets["test"], val={"good": sets["val"]["good"]})
    with pytest.raises(ValueError, match="of each model by its name"):
        calibench.leaderboard(paths(files, "test"), val=sets["val"])
    reordered = tuple(part[np.argsort(sets["test"]["good"][1])] for part in sets["test"]["good"])
    with pytest.raises(ValueError, match="good has other labels than sharp"):
        calibench.leaderboard({"sharp": sets["test"]["sharp"], "good": reordered})


def test_the_numbers_are_those_of_evaluate(files: Path) -> None:
    reports = {}
    for model in ("good", "sharp"):
        file, val = (files / f"{model}_{name}.npz" for name in ("test", "val"))
        reports[model] = calibench.evaluate(file, val=val, calibrators=["TemperatureScaling"])
    (table,) = rank_models(reports).tables
    for row in table.rows:
        value = row.values[table.sort].mean
        assert value == reports[row.label].value("nll", calibrator=row.calibrator)
        on_val = {
            name: reports[row.label].value("nll_cross_fitted", split="val", calibrator=name)
            for name in ("raw", "TemperatureScaling")
        }
        assert row.calibrator == min(on_val, key=on_val.__getitem__)


def test_mistakes_are_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test, val = paths(files, "test"), paths(files, "val")
    for words, message in (
        ([*test, "--val", val[0]], "`--val` takes one file for each of the 2 models, got 1"),
        ([test[0], val[1]], "has other labels than"),
        ([test[0], str(files)], "is no file: give either folders of runs, or files"),
    ):
        assert main(["leaderboard", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.strip().splitlines()) == 1

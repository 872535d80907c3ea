"""Calibrators of other packages in the post-hoc benchmark, and its results as CalArena writes them."""

from __future__ import annotations

import csv
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibench.calibrator_comparison.cells import write_arena
from calibench.calibrator_comparison.peers import build_peer, check_peers
from calibench.cli import main
from calibench.messages.errors import UsageError
from tests.evaluation.examples import predictions


def test_names_are_checked_without_imports() -> None:
    assert check_peers("also", ("sklearn:isotonic",)) == ("sklearn:isotonic",)
    for wrong in ("sklearn", "sklear:isotonic", "sklearn:"):
        with pytest.raises(UsageError, match=f"takes PACKAGE:NAME .*, got `{wrong}`"):
            check_peers("also", (wrong,))


def test_a_method_of_scikit_learn_is_that_method() -> None:
    val, test = predictions(300, split="val"), predictions(200, split="test", seed=1)
    found = build_peer("sklearn:isotonic").fit(val.logits, val.target).predict_proba(test.logits)
    given, new = (_softmax(part.logits) for part in (val, test))
    maps = [
        IsotonicRegression(out_of_bounds="clip")
        .fit(given[:, k], val.target == k)
        .predict(new[:, k])
        for k in range(given.shape[1])
    ]
    expected = np.stack(maps, axis=1)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-6)


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_what_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="`sklearn:isotonc` cannot be had: "):
        build_peer("sklearn:isotonc")
    monkeypatch.setitem(sys.modules, "probmetrics", None)
    with pytest.raises(ValueError, match="`probmetrics:no` needs a package that is not installed"):
        build_peer("probmetrics:no")


class Halving:
    """As calibrators of netcal are: (N,) of two classes, (N, K) of more."""

    def fit(self, probs: np.ndarray, target: np.ndarray) -> Halving:
        assert probs.ndim == (1 if target.max() == 1 else 2)
        return self

    def transform(self, probs: np.ndarray) -> np.ndarray:
        return probs / 2 if probs.ndim == 1 else np.full_like(probs, 1 / probs.shape[1])


def test_netcal_has_the_second_of_two_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("netcal.binning")
    module.Halving = Halving  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "netcal", types.ModuleType("netcal"))
    monkeypatch.setitem(sys.modules, "netcal.binning", module)
    logits = np.array([[0.0, 1.0], [2.0, 0.0]])
    found = build_peer("netcal:Halving").fit(logits, np.array([0, 1])).predict_proba(logits)
    np.testing.assert_allclose(found[:, 1], _softmax(logits)[:, 1] / 2)


@pytest.mark.usefixtures("figures")
def test_the_command_has_a_row_for_each_and_a_file_for_each(tmp_path: Path) -> None:
    for split in ("val", "test"):
        part = predictions(120, split=split, seed=len(split))
        part.save(tmp_path / "net" / f"{split}.npz")
    out = tmp_path / "out"
    words = [
        "--calibrators",
        "VectorScaling",
        "--also",
        "sklearn:sigmoid",
        "--arena",
        "--jobs",
        "1",
    ]
    assert main(["posthoc", str(tmp_path / "net"), *words, "-o", str(out)]) == 0
    with (out / "results.csv").open() as file:
        rows = {row["calibrator"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["raw", "TemperatureScaling", "VectorScaling", "sklearn:sigmoid"]
    ours = rows["sklearn:sigmoid"]
    assert (ours["shrinkage"], ours["note"]) == ("", "")
    assert float(ours["fit_seconds"]) > 0
    folder = out / "arena" / "multiclass"
    names = {"Base-model", "TemperatureScaling", "VectorScaling", "sklearn-sigmoid"}
    assert {path.stem for path in folder.iterdir()} == names
    (line,) = csv.DictReader((folder / "sklearn-sigmoid.csv").read_text().splitlines())
    parts = ("brier", "logloss", "ece-15", "accuracy", "time")
    sizes = ["dataset", "model", "cal_size", "test_size", "n_classes"]
    assert list(line) == [*sizes, *(f"sklearn:sigmoid_{part}" for part in parts)]
    assert [line["cal_size"], line["test_size"], line["n_classes"]] == ["120", "120", "4"]
    assert float(line["sklearn:sigmoid_logloss"]) == float(ours["nll"])
    assert float(line["sklearn:sigmoid_accuracy"]) == pytest.approx(1 - float(ours["error"]))
    spent = float(ours["fit_seconds"]) + float(ours["apply_seconds"])
    assert float(line["sklearn:sigmoid_time"]) == pytest.approx(spent)


def test_raw_logits_are_the_base_model_and_two_classes_a_folder_of_their_own(
    tmp_path: Path,
) -> None:
    row = {
        "dataset": "d",
        "model": "m",
        "seed": 2,
        "size": 0,
        "repeat": 0,
        "calibrator": "raw",
        "classes": 2,
    }
    row |= {
        "fitted_on": 5,
        "tested_on": 7,
        "nll": "0.5",
        "error": "0.25",
        "fit_seconds": "",
        "apply_seconds": "0.1",
    }
    write_arena([row, {**row, "repeat": 1}, {**row, "size": 100}], tmp_path)
    (file,) = tmp_path.rglob("*.csv")
    assert file == tmp_path / "binary" / "Base-model.csv"
    (line,) = csv.DictReader(file.read_text().splitlines())
    assert (line["model"], line["Base-model_accuracy"], line["Base-model_time"]) == (
        "m/seed=2",
        "0.75",
        "",
    )
    assert "n_classes" not in line

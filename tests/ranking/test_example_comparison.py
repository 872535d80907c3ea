from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from calibench.ranking import Column, rank_results
from calibench.ranking.bold import OF_NETWORKS, PROMISE
from calibench.runs import Predictions, read_json, write_json
from tests.run_folders import write_run


def write(
    root: Path,
    loss: str,
    noise: float,
    *,
    seeds: int = 1,
    n: int = 300,
    n_bins: Sequence[int] = (15, 20),
) -> None:
    """Runs whose metrics.json holds the metrics of their logits."""
    for seed in range(1, seeds + 1):
        target = np.random.default_rng(0).integers(4, size=n)
        jitter = np.random.default_rng([seed, ord(loss[0])]).normal(size=(n, 4))
        logits = (3 * np.eye(4)[target] + noise * jitter).astype("f4")
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        nll = float(-np.log(probs[range(n), target]).mean())
        error = float((logits.argmax(axis=1) != target).mean())
        values = {"nll": nll, "error": error}
        folder = write_run(root, loss=loss, seed=seed, values=values, n_bins=n_bins)
        Predictions(logits, target, {"split": "test", "kind": "test"}).save(
            folder / "predictions" / "test.npz"
        )


def tied(root: Path) -> dict[str, bool]:
    (table,) = rank_results(root, metrics=["nll"]).tables
    return {row.loss: row.values[Column("nll")].tied for row in table.rows}


@pytest.mark.slow
def test_one_seed_compares_the_trained_networks_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0)
    write(tmp_path, "Close", 1.001)
    assert tied(tmp_path) == {"A": True, "B": False, "Close": True}
    lines = rank_results(tmp_path, wide=True).lines[0]
    assert f"bold: {OF_NETWORKS}" in lines
    without = next(line for line in lines if line.startswith("no bold in "))
    assert "ECE % +TS, NLL +ATS, ECE % +ATS, OOD AUROC % far: rows share 1 seed" in without
    assert PROMISE not in " ".join(lines)


def test_a_calibrator_that_is_not_installed_stops_no_table(tmp_path: Path) -> None:
    for loss in ("A", "B"):
        write(tmp_path, loss, 1.0)
    for file in tmp_path.rglob("metrics.json"):
        content = read_json(file)
        for row in content["rows"]:
            row["calibrator"] = row["calibrator"].replace("TemperatureScaling", "Unknown")
        write_json(file, content, sealed=True)
        test = Predictions.load(file.parent / "predictions" / "test.npz")
        test.save(file.parent / "predictions" / "val.npz")
    board = rank_results(tmp_path, metrics=["nll@Unknown"])
    assert len(board.tables[0].rows) == 2
    assert "`Unknown`" in board.warnings[0]
    assert board.warnings[0].endswith("its test examples are not compared")


def test_two_seeds_are_no_networks_and_too_few_for_methods(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0, seeds=2)
    write(tmp_path, "B", 2.0, seeds=2)
    assert tied(tmp_path) == {"A": False, "B": False}


def test_three_seeds_need_no_examples(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0, seeds=3)
    write(tmp_path, "B", 2.0, seeds=3)
    for file in tmp_path.rglob("test.npz"):
        file.write_bytes(b"x")
    board = rank_results(tmp_path, metrics=["nll"])
    assert not board.warnings
    assert tied(tmp_path) == {"A": True, "B": False}


def test_other_test_examples_are_not_paired(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0, n=200)
    assert OF_NETWORKS not in " ".join(rank_results(tmp_path, metrics=["nll"]).lines[0])


def test_a_corrupt_prediction_file_makes_no_bold_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0)
    file = next(tmp_path.rglob("B/*/seed=1/predictions/test.npz"))
    file.write_bytes(b"x")
    board = rank_results(tmp_path, metrics=["nll"])
    assert not any(row.values[Column("nll")].tied for row in board.tables[0].rows)
    (warning,) = board.warnings
    assert warning.startswith(f"{file.resolve()} is not a prediction file")


def test_the_bins_of_the_table_decide_whichever_they_are(tmp_path: Path) -> None:
    """Every binned column is compared on the examples, also with a second number of bins that is not 20."""
    for loss, noise in (("A", 1.0), ("B", 4.0)):
        write(tmp_path, loss, noise, n_bins=(10, 30))
    columns = ["ece", "ece_30", "classwise_ece_30", "smooth_ece"]
    board = rank_results(tmp_path, metrics=columns)
    assert any("10 bins: ECE" in line for line in board.lines[0])
    assert f"bold: {OF_NETWORKS}" in board.lines[0]
    assert not any(line.startswith("no bold") for line in board.lines[0])


def test_runs_with_other_bins_are_a_hole_and_named(tmp_path: Path) -> None:
    for loss in ("A", "B"):
        write_run(tmp_path, loss=loss)
    write_run(tmp_path, loss="C", n_bins=(30,))
    (table,) = rank_results(tmp_path, metrics=["ece"]).tables
    cells = {row.loss: row.values[Column("ece")] for row in table.rows}
    assert {loss: len(cell.seeds) for loss, cell in cells.items()} == {"A": 1, "B": 1, "C": 0}
    assert "ECE has 15 bins: runs with 30 have none here" in table.notes

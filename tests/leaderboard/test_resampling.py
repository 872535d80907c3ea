from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibench.leaderboard import Column, leaderboard
from calibench.leaderboard.resampling import NAME
from calibench.runs import Predictions
from tests.run_folders import write_run


def write(
    root: Path,
    loss: str,
    noise: float,
    *,
    seeds: int = 2,
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


def tied(root: Path, test: str = "auto") -> dict[str, bool]:
    (table,) = leaderboard(root, metrics=["nll"], test=test).tables
    return {row.loss: row.values[Column("nll")].tied for row in table.rows}


def test_two_seeds_tell_what_the_examples_show(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0)
    write(tmp_path, "Close", 1.001)
    assert tied(tmp_path) == {"A": True, "B": False, "Close": True}
    board = leaderboard(tmp_path)
    rule = next(line for line in board.lines[0] if line.startswith("bold:"))
    assert f"paired one-sided {NAME}; t-test over seeds" in rule
    assert "(ECE % +TS, ECE % +ATS, OOD AUROC %)" in rule


def test_one_seed_is_tested_over_examples(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0, seeds=1)
    write(tmp_path, "B", 2.0, seeds=1)
    assert tied(tmp_path) == {"A": True, "B": False}
    assert NAME in " ".join(leaderboard(tmp_path, metrics=["nll"]).lines[0])
    assert "not tested" in " ".join(leaderboard(tmp_path, metrics=["nll"], test="seeds").lines[0])


def test_other_test_examples_are_not_paired(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0, n=200)
    assert NAME not in " ".join(leaderboard(tmp_path, metrics=["nll"]).lines[0])


def test_a_corrupt_prediction_file_falls_back_to_seeds(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0)
    file = next(tmp_path.rglob("B/*/seed=1/predictions/test.npz"))
    file.write_bytes(b"x")
    board = leaderboard(tmp_path, metrics=["nll"])
    assert NAME not in " ".join(board.lines[0])
    (warning,) = board.warnings
    assert warning.startswith(f"{file.resolve()} is not a prediction file")


def test_the_bins_of_the_table_decide_whichever_they_are(tmp_path: Path) -> None:
    """Every binned column is tested by the bootstrap, also with a second number of bins that is not 20."""
    for loss, noise in (("A", 1.0), ("B", 4.0)):
        write(tmp_path, loss, noise, n_bins=(10, 30))
    columns = ["ece", "ece_30", "classwise_ece_30", "smooth_ece"]
    board = leaderboard(tmp_path, metrics=columns)
    assert any("10 bins: ECE" in line for line in board.lines[0])
    rule = next(line for line in board.lines[0] if line.startswith("bold:"))
    assert NAME in rule
    assert "t-test" not in rule


def test_runs_with_other_bins_are_a_hole_and_named(tmp_path: Path) -> None:
    for loss in ("A", "B"):
        write_run(tmp_path, loss=loss)
    write_run(tmp_path, loss="C", n_bins=(30,))
    (table,) = leaderboard(tmp_path, metrics=["ece"]).tables
    cells = {row.loss: row.values[Column("ece")] for row in table.rows}
    assert {loss: len(cell.seeds) for loss, cell in cells.items()} == {"A": 1, "B": 1, "C": 0}
    assert "ECE has 15 bins: runs with 30 have none here" in table.notes

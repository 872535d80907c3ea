from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibench.leaderboard import Column, leaderboard, read_results
from calibench.leaderboard.resampling import NAME, Bootstrap
from calibench.runs import Predictions
from tests.run_folders import write_run

CHECKED = ("error", "nll", "brier", "ece", "adaptive_ece")


def write(root: Path, loss: str, noise: float, *, seeds: int = 2, n: int = 300) -> None:
    """Runs whose metrics.json holds the metrics of their logits."""
    for seed in range(1, seeds + 1):
        target = np.random.default_rng(0).integers(4, size=n)
        jitter = np.random.default_rng([seed, ord(loss[0])]).normal(size=(n, 4))
        logits = (3 * np.eye(4)[target] + noise * jitter).astype("f4")
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        nll = float(-np.log(probs[range(n), target]).mean())
        error = float((logits.argmax(axis=1) != target).mean())
        folder = write_run(root, loss=loss, seed=seed, values={"nll": nll, "error": error})
        Predictions(logits, target, {"split": "test", "kind": "test"}).save(
            folder / "predictions" / "test.npz"
        )


def tied(root: Path, test: str = "auto") -> dict[str, bool]:
    (table,) = leaderboard(root, metrics=["nll"], test=test).tables
    return {row.loss: row.cells[Column("nll")].tied for row in table.rows}


def test_two_seeds_tell_what_the_examples_show(tmp_path: Path) -> None:
    write(tmp_path, "A", 1.0)
    write(tmp_path, "B", 2.0)
    write(tmp_path, "Close", 1.001)
    assert tied(tmp_path) == {"A": True, "B": False, "Close": True}
    board = leaderboard(tmp_path)
    rule = next(line for line in board.lines[0] if line.startswith("bold:"))
    assert f"paired one-sided {NAME}; t-test over seeds" in rule
    assert "(ClasswiseECE %, smECE %, ECE % +TS, ECE % +ATS, OOD AUROC %)" in rule


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


@pytest.mark.parametrize("metric", CHECKED)
def test_the_bootstrap_scores_what_the_metric_scores(tmp_path: Path, metric: str) -> None:
    """The mean over resamples of each metric is near torchmetrics' value of the whole test set."""
    import torch

    from calibench.metrics import calibration_metrics
    from calibench.statistics.bootstrap import Resamples

    write(tmp_path, "A", 3.0, seeds=1, n=2000)
    read = read_results(tmp_path)
    (record,) = read.records
    predictions = Predictions.load(Path(record.folder) / "predictions" / "test.npz")
    collection = calibration_metrics(4, n_bins=(15,))
    log_probs = torch.from_numpy(predictions.logits).log_softmax(dim=1)
    target = torch.from_numpy(predictions.target)
    collection.update(preds=log_probs.exp(), target=target, log_probs=log_probs)
    values = Bootstrap(read)._run(Column(metric), record, Resamples(2000))
    assert values.shape == (1, 1000)
    # a resampled calibration error is a little larger: it has the noise twice
    assert values.mean() == pytest.approx(float(collection.compute()[metric]), rel=0.05)
    assert values.std() > 0

"""One number through every door: metric class, metric function, `evaluate` and the numbers of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
from calibench import metrics as M
from calibench.cli import main
from calibench.evaluation.scoring import score_set
from calibench.predictions.arrays import predictions_of

K = 4
DOORS = {
    "ece": M.CalibrationError,
    "adaptive_ece": M.AdaptiveCalibrationError,
    "classwise_ece": M.ClasswiseCalibrationError,
    "smooth_ece": M.SmoothCalibrationError,
    "nll": M.NegativeLogLikelihood,
    "brier": M.BrierScore,
    "error": M.ErrorRate,
}


def probabilities(decimals: int | None) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    probs = random.dirichlet([0.5] * K, 400)
    if decimals:
        probs = np.round(probs, decimals)
    return probs, np.array([random.choice(K, p=row / row.sum()) for row in probs])


@pytest.mark.filterwarnings("ignore:.*read as rounded probabilities")
@pytest.mark.parametrize("decimals", [None, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_one_array_has_one_number(decimals: int | None) -> None:
    probs, labels = probabilities(decimals)
    scores, target = torch.from_numpy(probs), torch.from_numpy(labels)
    report = calibench.evaluate(probs, labels, n_bins=[15])
    shown = {n.key.metric: n.value for n in report.numbers if n.key.calibrator == "raw"}
    stored = predictions_of({"probs": probs, "target": labels})
    of_run = {n.key.metric: n.value for n in score_set(stored, n_bins=(15,))}
    for name, cls in DOORS.items():
        metric = cls(num_classes=K) if name == "classwise_ece" else cls()
        metric.update(scores[:100], target[:100])
        metric.update(scores[100:], target[100:])
        value = float(metric.compute())
        function = getattr(
            M,
            cls.__name__[0].lower()
            + "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__[1:]),
        )
        # float(): the 1e-12 is absolute, all values are of the order of 0.1
        assert float(function(scores, target)) == pytest.approx(value, abs=1e-12)
        assert shown[name] == pytest.approx(value, abs=1e-12)
        assert of_run[name] == pytest.approx(value, abs=1e-12)


def test_files_verb_and_leaderboard_have_that_number_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same float64 array as .npz, .csv and .parquet, by the verb, and in a table of models."""
    probs, labels = probabilities(None)
    expected = float(
        M.calibration_error(torch.from_numpy(probs), torch.from_numpy(labels), n_bins=15)
    )
    nll = float(M.negative_log_likelihood(torch.from_numpy(probs), torch.from_numpy(labels)))
    np.savez(tmp_path / "t.npz", probs=probs, labels=labels)
    frame = pd.DataFrame(probs, columns=[f"p{i}" for i in range(K)]).assign(label=labels)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.npz", "t.csv", "t.parquet"):
        output = tmp_path / "report.json"
        assert main(["evaluate", str(tmp_path / name), "--bootstrap", "0", "-o", str(output)]) == 0
        rows = {
            (row["metric"], row.get("n_bins")): row["value"]
            for row in json.loads(output.read_text())["rows"]
            if row["calibrator"] == "raw"
        }
        assert rows["ece", 15] == pytest.approx(expected, abs=1e-12)
        assert rows["nll", None] == pytest.approx(nll, abs=1e-12)
    capsys.readouterr()
    table = calibench.leaderboard([str(tmp_path / "t.npz")])
    assert table.value("t", "ece") == pytest.approx(expected, abs=1e-12)
    assert table.value("t", "nll") == pytest.approx(nll, abs=1e-12)

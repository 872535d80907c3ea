"""Pairs (confidence, correct) are scored as the probabilities that they are of, as far as they go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibench
from calibench.cli import main
from calibench.messages.errors import UsageError

RANDOM = np.random.default_rng(0)
PROBS = RANDOM.dirichlet(np.ones(4), 300)
LABELS = np.array([RANDOM.choice(4, p=row) for row in PROBS])
CONFIDENCE, CORRECT = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS


@pytest.mark.parametrize("bootstrap", [0, 20])
def test_pairs_have_the_numbers_of_their_probabilities(bootstrap: int) -> None:
    found = calibench.evaluate(CONFIDENCE, CORRECT, bootstrap=bootstrap)
    # Logits are float32, so are the probabilities that these numbers are of.
    of_all = calibench.evaluate(np.log(PROBS), LABELS, bootstrap=bootstrap)
    of_pairs = {(row["metric"], row.get("n_bins")): row for row in found.rows}
    assert {name for name, _ in of_pairs} == {
        "error",
        "hit_nll",
        "ece",
        "adaptive_ece",
        "smooth_ece",
    }
    for row in of_all.rows:
        same = of_pairs.get((row["metric"], row.get("n_bins")), {})
        for key in {"value", "low", "high", "floor", "p", "overconfidence"} & set(same):
            assert same[key] == pytest.approx(row[key], abs=1e-6), (row["metric"], key)
    assert {"NLL", "Brier", "ClasswiseECE"} <= set(found.unavailable)
    assert "smECE" in str(found)


def test_the_nll_of_hits_is_that_of_the_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of pairs no NLL of classes is known; what `doctor` chooses by is called hit NLL in both."""
    value = -np.log(np.where(CORRECT, CONFIDENCE, 1 - CONFIDENCE)).mean()
    report = calibench.evaluate(CONFIDENCE, CORRECT, bootstrap=20)
    (row,) = [row for row in report.rows if row["metric"] == "hit_nll"]
    assert row["value"] == pytest.approx(value, abs=1e-12)
    assert row["low"] < value < row["high"]
    assert "compared: hit NLL of" in str(calibench.doctor(CONFIDENCE, CORRECT, calibrators="TS"))
    file = tmp_path / "pairs.csv"
    pd.DataFrame({"confidence": CONFIDENCE, "correct": CORRECT}).to_csv(file, index=False)
    assert main(["evaluate", str(file)]) == 0
    block = " ".join(capsys.readouterr().out.split())
    assert f"hit NLL {value:.4f}" in block
    assert f"to choose a calibrator: calibench doctor {file}" in block
    assert main(["doctor", str(file), "--calibrators", "TS"]) == 0
    assert f"raw {value:.4f}" in capsys.readouterr().out


def test_further_metrics_of_top_labels_only() -> None:
    found = calibench.evaluate(CONFIDENCE, CORRECT, metrics=["KolmogorovSmirnovCalibrationError"])
    expected = calibench.evaluate(
        np.log(PROBS), LABELS, metrics=["KolmogorovSmirnovCalibrationError"]
    )
    assert found.value("ks") == pytest.approx(expected.value("ks"), abs=1e-6)
    with pytest.raises(UsageError, match=r"BrierDecomposition: .*every class are needed"):
        calibench.evaluate(CONFIDENCE, CORRECT, metrics=["BrierDecomposition"])
    with pytest.raises(ValueError, match="every class are needed for calibrators"):
        calibench.evaluate(CONFIDENCE, CORRECT, val=(CONFIDENCE, CORRECT), calibrators="TS")


def test_a_file_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "pairs.csv", tmp_path / "other.csv"
    pd.DataFrame({"confidence": CONFIDENCE, "correct": CORRECT}).to_csv(file, index=False)
    other.write_bytes(file.read_bytes())
    line = ["evaluate", "--test", str(file), "--bootstrap", "0"]
    assert main([*line, "--calibrators", "none"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ClasswiseECE: (confidence, correct) is not enough" in out
    assert "(n = 300)" in out or "points (limit" in out
    assert main([*line, "--calibrators", "none", "--metrics", "all"]) == 0
    every = capsys.readouterr().out
    assert "Kuiper" in every
    assert "SKCE" not in every
    for more in (
        ["--val", str(other)],
        ["--calibrators", "none", "--ood", f"a={other}"],
        ["--calibrators", "none", "--metrics", "CorpDecomposition"],
    ):
        assert main([*line, *more]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "(confidence, correct) is not enough" in captured.err
        assert captured.err.count("\n") == 1

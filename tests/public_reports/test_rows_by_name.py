"""Rows that go by their names at every door, and labels or confidences that look like something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibench
from calibench.calibrators import TemperatureScaling, VectorScaling
from calibench.metrics import brier_score
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.row_checks import describe_rows
from calibench.runs import Predictions
from tests.draws import draw_calibrated
from tests.public_reports.small_files import nll_of, read, table

N, NAMES = 1200, ["neg", "neu", "pos"]
RANDOM = np.random.default_rng(0)
LOGITS, PROBS, LABELS = draw_calibrated(RANDOM, N)
TEXTS = np.array(NAMES)[LABELS]
POSITIVE = RANDOM.random(N)
HITS = (RANDOM.random(N) < POSITIVE).astype(int)
IDS = [f"image {i}" for i in range(N)]
SCORES, SERIES = pd.DataFrame(LOGITS, columns=NAMES, index=IDS), pd.Series(TEXTS, index=IDS)

DOORS: dict[str, Callable[[Any, Any], Any]] = {
    "calibrator": lambda scores, labels: TemperatureScaling().fit(scores, labels),
    "estimator": lambda scores, labels: calibench.as_estimator(VectorScaling()).fit(scores, labels),
    "metric": lambda scores, labels: brier_score(
        np.exp(scores).div(np.exp(scores).sum(axis=1), axis=0), labels
    ),
    "evaluate": lambda scores, labels: calibench.evaluate(scores, labels, bootstrap=0),
}


@pytest.mark.parametrize("door", DOORS)
def test_shuffled_labels_are_refused_at_every_door(door: str) -> None:
    enter = DOORS[door]
    enter(SCORES, SERIES)
    enter(SCORES, SERIES.to_numpy())
    with pytest.raises(ValueError, match="have the same index in different orders"):
        enter(SCORES, SERIES.iloc[::-1])


def lines_on(probs: np.ndarray, labels: np.ndarray) -> list[str]:
    return [*describe_rows({"test": [Predictions(np.log(probs), labels)]})]


def test_rows_from_which_on_labels_are_those_of_chance_are_named() -> None:
    assert lines_on(PROBS, LABELS) == []
    (line,) = lines_on(np.delete(PROBS, 600, axis=0), LABELS[:-1])
    assert "in rows 599 to 1199, as by chance" in line
    order = np.argsort(LABELS, kind="stable")
    assert lines_on(PROBS[order], LABELS[order]) == []
    (line,) = lines_on(np.delete(PROBS[:500], 250, axis=0), LABELS[:499])
    assert "as by chance, and of" in line


def test_labels_that_are_all_predicted_are_named() -> None:
    (line,) = lines_on(PROBS, PROBS.argmax(axis=1))
    assert line.startswith("all 1,200 labels of `test` are the likeliest class, and ")
    sure = np.exp(20 * np.eye(3)[LABELS] + LOGITS)
    assert lines_on(sure / sure.sum(axis=1, keepdims=True), LABELS) == []


def test_confidences_that_are_of_one_of_two_answers_are_refused(tmp_path: Path) -> None:
    answers = np.where(POSITIVE > 0.5, "yes", "no")
    columns = {"answer": answers, "gold": np.where(HITS, "yes", "no")}
    with pytest.raises(ValueError, match=r'as P\(yes\) is: `keys="probs=confidence target=gold"`'):
        read(table(**columns, confidence=POSITIVE)(tmp_path))
    file = table(**columns, confidence=POSITIVE)(tmp_path)
    right = float(-np.log(np.where(HITS, POSITIVE, 1 - POSITIVE)).mean())
    found = nll_of(file, keys=("probs=confidence", "target=gold"))
    assert found == pytest.approx(right, abs=1e-6)
    pairs = read(table(**columns, confidence=np.maximum(POSITIVE, 1 - POSITIVE))(tmp_path))
    assert isinstance(pairs, ConfidencePairs)


def test_low_confidences_that_are_often_right_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "confidences below .5 are right more often the lower they are"
    read(table(confidence=POSITIVE, correct=(POSITIVE > 0.5) == HITS)(tmp_path))
    assert line in capsys.readouterr().err
    read(table(confidence=POSITIVE, correct=HITS)(tmp_path))
    assert line not in capsys.readouterr().err


def test_a_calibrator_of_probabilities_takes_logits_as_log_probabilities() -> None:
    """Vector scaling sees what the logits of a row have in common, which probabilities have lost."""
    scaling = calibench.calibrate(PROBS, LABELS, calibrator="VectorScaling", scores="probs")
    shifted = np.log(PROBS) + RANDOM.normal(size=(N, 1))
    right = np.asarray(scaling.predict_proba(np.log(PROBS)))
    np.testing.assert_allclose(np.asarray(scaling.predict_proba(shifted)), right, atol=1e-6)

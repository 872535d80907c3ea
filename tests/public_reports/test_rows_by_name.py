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
from calibench.predictions.arrays import predictions_of
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.row_checks import check_rows
from calibench.predictions.row_fit import refuse_misplaced_rows
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
    return [*check_rows({"test": [Predictions(np.log(probs), labels)]})]


ORDER = np.argsort(LABELS, kind="stable")
MISPLACED: dict[str, tuple[np.ndarray, np.ndarray, str]] = {
    "a row without a label": (
        np.delete(PROBS, 600, axis=0), LABELS[:-1], "in rows 599 to 1199, as by chance",
    ),
    "of few rows": (np.delete(PROBS[:500], 250, axis=0), LABELS[:499], "as by chance, and"),
    "a header as the first row": (PROBS[1:], LABELS[:-1], "labels fit `probs` 1 row up in"),
    "shifted": (PROBS, np.roll(LABELS, 2), "labels fit `probs` 2 rows up in"),
    "reversed": (PROBS, LABELS[::-1], "labels fit `probs` in reverse in"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISPLACED)
def test_labels_of_other_rows_are_refused(name: str) -> None:
    probs, labels, message = MISPLACED[name]
    arrays = {"probs": probs, "labels": labels}
    with pytest.raises(ValueError, match=f"{message}.* or say `trust_rows=True` if"):
        predictions_of(arrays)
    assert (predictions_of(arrays, trust_rows=True).target == labels).all()
    own = Predictions(np.log(probs), labels).arrays("logits", np.log(probs), ())
    assert (predictions_of(own).target == labels).all()  # whose rows this package wrote


@pytest.mark.parametrize("rows", [slice(None), ORDER], ids=["as drawn", "sorted"])
def test_labels_of_their_rows_are_read(rows: Any) -> None:
    assert (predictions_of({"probs": PROBS[rows], "labels": LABELS[rows]}).target >= 0).all()
    assert lines_on(PROBS[rows], LABELS[rows]) == []


def test_a_part_in_which_one_class_is_always_the_likeliest_is_no_other_part() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(2000) < 0.3).astype(int)
    margins = 6 * (labels - 0.5) + 2 * random.normal(size=2000)
    margins[:250] = np.minimum(margins[:250] - 5, -0.1)  # of a site where scores are lower
    hits = (margins > 0) == labels
    assert hits[:250].mean() < hits[250:].mean() - 0.15
    refuse_misplaced_rows(np.stack([-margins, margins], axis=1), labels, "logits")


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("signal", [0.0, 0.2, 1.0])
def test_models_that_know_little_have_rows_of_their_own(k: int, signal: float) -> None:
    """At most 1 % of true sets, of domains that differ in their difficulty, look misplaced."""
    random = np.random.default_rng(k)
    refused = 0
    for n in (100, 400, 2000) * 334:
        labels = random.choice(k, n, p=random.dirichlet(np.full(k, 3)))
        difficulty = signal * np.linspace(0.5, 1.5, n)[:, None]
        logits = difficulty * np.eye(k)[labels] + random.normal(size=(n, k))
        try:
            refuse_misplaced_rows(4 * logits, labels, "logits")
        except ValueError:
            refused += 1
    assert refused <= 10


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


def test_low_confidences_that_are_often_right_are_refused(tmp_path: Path) -> None:
    file = table(confidence=POSITIVE, correct=(POSITIVE > 0.5) == HITS)(tmp_path)
    with pytest.raises(
        ValueError, match=r"below \.5 are right more often the lower they are: give"
    ):
        read(file)
    assert isinstance(read(file, trust_rows=True), ConfidencePairs)
    assert isinstance(read(table(confidence=POSITIVE, correct=HITS)(tmp_path)), ConfidencePairs)


def test_a_calibrator_of_probabilities_takes_logits_as_log_probabilities() -> None:
    """Vector scaling sees what the logits of a row have in common, which probabilities have lost."""
    scaling = calibench.calibrate(PROBS, LABELS, calibrator="VectorScaling", scores="probs")
    shifted = np.log(PROBS) + RANDOM.normal(size=(N, 1))
    right = np.asarray(scaling.predict_proba(np.log(PROBS)))
    np.testing.assert_allclose(np.asarray(scaling.predict_proba(shifted)), right, atol=1e-6)

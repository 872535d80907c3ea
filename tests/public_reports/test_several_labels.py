"""Several labels an example in another order than their scores, or with other signs: read right or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibench
from calibench.predictions.files import Arrays, Reader
from calibench.predictions.row_checks import check_rows
from tests.public_reports.small_files import archive, read, text

N, L = 240, 4
RANDOM = np.random.default_rng(0)
PROBS = 1 / (1 + np.exp(-2 * RANDOM.normal(size=(N, L))))
LABELS = (RANDOM.random((N, L)) < PROBS).astype(int)
NLL = float(-np.log(np.where(LABELS, PROBS, 1 - PROBS)).mean())
ORDER = [1, 2, 3, 0]

REFUSED = {
    "another order": (PROBS, LABELS[:, ORDER], r"another order of the columns, \[1, 2, 3, 0\]: take"),
    "absent labels": (PROBS, 1 - LABELS, r"give 1 - labels, or P\(present\)"),
    "probabilities of what is absent": (1 - PROBS, LABELS, r"or say `scores=\"probs\"`"),
    "signs": (PROBS, 2 * LABELS - 1, r"-1 means unknown and 0 absent: give `\(labels \+ 1\) // 2`"),
}  # fmt: skip


def nll(probs: np.ndarray, labels: np.ndarray, **options: Any) -> float:
    read_arrays = Reader(**options).read(Arrays(probs, labels, "x"))
    logits = read_arrays.logits.astype(float)  # type: ignore[union-attr]
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return float(-log_probs[np.arange(len(logits)), read_arrays.target].mean())  # type: ignore[union-attr]


@pytest.mark.parametrize("name", REFUSED)
def test_labels_that_fit_in_another_reading_are_refused(name: str, tmp_path: Path) -> None:
    probs, labels, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read(archive(probs=probs, labels=labels)(tmp_path))


def test_what_refusals_of_several_labels_say_works() -> None:
    with pytest.warns(UserWarning, match="read as probabilities of labels"):
        assert nll(PROBS, LABELS) == pytest.approx(NLL, abs=1e-6)
    options = {"scores": "probs"}
    assert nll(PROBS[:, ORDER], LABELS[:, ORDER], **options) == pytest.approx(NLL, abs=1e-6)
    assert nll(PROBS, (2 * LABELS - 1 + 1) // 2, **options) == pytest.approx(NLL, abs=1e-6)
    assert nll(1 - PROBS, 1 - LABELS, **options) == pytest.approx(NLL, abs=1e-6)
    assert nll(PROBS, 1 - LABELS, **options) > 2 * NLL  # as the user says


def test_labels_of_other_rows_are_named() -> None:
    for labels, number in ((LABELS, 0), (LABELS[::-1], 1)):
        predictions = Reader(scores="probs").read(Arrays(PROBS, labels, "x"))
        lines = [*check_rows({"test": [predictions]})]  # type: ignore[list-item]
        assert sum("do not depend on its scores" in line for line in lines) == number


def test_axes_that_may_be_swapped_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(archive(probs=PROBS.T, labels=LABELS.T)(tmp_path))
    assert "4 examples of 240 labels each: rows are examples" in capsys.readouterr().err


def test_a_first_row_of_fractions_among_texts_is_no_header(tmp_path: Path) -> None:
    rows = "".join(f"image {i},{PROBS[i, 0]},{1 - PROBS[i, 0]},cat\n" for i in range(N))
    with pytest.raises(ValueError, match="the first row holds numbers, image 0, "):
        read(text("t.csv", rows)(tmp_path))


def test_probabilities_beside_truth_values_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    hits = LABELS[:, 0].astype(bool)
    line = "scores beside truth values are read as confidences"
    calibench.evaluate(PROBS[:, 0], hits, bootstrap=0)
    assert line in capsys.readouterr().err
    with pytest.warns(UserWarning, match="P\\(y = 1\\)"):
        report = calibench.evaluate(PROBS[:, 0], hits, bootstrap=0, pairs=False)
    assert line not in capsys.readouterr().err
    right = float(-np.log(np.where(hits, PROBS[:, 0], 1 - PROBS[:, 0])).mean())
    assert report.value("NLL") == pytest.approx(right, abs=1e-6)

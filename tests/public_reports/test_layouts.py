"""Layouts of saved predictions of which each revealed a kind: read right, by numpy, or refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.files import Arrays
from tests.public_reports.small_files import (
    BATCHES,
    BINARY_NLL,
    HITS,
    LABELS,
    NAMES,
    NLL,
    POSITIVE,
    PROBS,
    N,
    archive,
    nll_of,
    read,
    torch_file,
    write_lines,
)

LOGITS = np.log(PROBS) + 1
FRAME = pd.DataFrame(PROBS, columns=NAMES).assign(label=np.array(NAMES)[LABELS])


def csv_file(frame: pd.DataFrame, **options: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        frame.to_csv(folder / "t.csv", index=False, **options)
        return str(folder / "t.csv")

    return write


def dictionaries(order: Callable[[int], Any], label: Callable[[int], Any]) -> Callable[[Path], str]:
    rows = [
        {"label": label(i), "probs": {NAMES[k]: float(PROBS[i, k]) for k in order(i)}}
        for i in range(N)
    ]
    return lambda folder: write_lines(folder / "t.jsonl", rows)


def percent(values: np.ndarray) -> list[str]:
    return [f"{100 * value:.6f} %".replace(".", ",") for value in values]


def lists_of(key: str, values: np.ndarray) -> dict[str, list[torch.Tensor]]:
    return {key: [torch.from_numpy(values[rows]) for rows in BATCHES]}


COVARIATES = {"entropy": -(PROBS * np.log(PROBS)).sum(axis=1), "largest": PROBS.max(axis=1)}
READ = {
    "decimal commas, tabs": (csv_file(FRAME, sep="\t", decimal=","), NLL),
    "percent with decimal commas": (
        csv_file(FRAME.assign(**{name: percent(FRAME[name].to_numpy()) for name in NAMES}), sep=";"),
        NLL,
    ),
    "covariates beside classes": (csv_file(FRAME.assign(**COVARIATES)), NLL),
    "lists as texts": (
        csv_file(pd.DataFrame({"probs": [str(row.tolist()) for row in PROBS], "label": LABELS})),
        NLL,
    ),
    "arrays as texts": (
        csv_file(pd.DataFrame({"probs": [str(row) for row in PROBS], "label": LABELS})),
        NLL,
    ),
    "a class called y": (
        csv_file(
            pd.DataFrame(
                {"n": 1 - POSITIVE, "y": POSITIVE, "y_true": np.array(["n", "y"])[HITS]}
            )
        ),
        BINARY_NLL,
    ),
    "lists of batches by name": (
        torch_file({**lists_of("logits", LOGITS), **lists_of("labels", LABELS)}),
        NLL,
    ),
    "an axis of one": (archive(logits=LOGITS[:, None], labels=LABELS), NLL),
    "two axes of one": (archive(logits=LOGITS[:, :, None, None], labels=LABELS), NLL),
    "predicted classes beside scores": (
        archive(y_pred=PROBS.argmax(axis=1), y_score=PROBS, y_true=LABELS),
        NLL,
    ),
    "a column of two dimensions": (
        archive(y_pred=POSITIVE[:, None], y_true=HITS[:, None]),
        BINARY_NLL,
    ),
    "margins": (
        archive(decision_function=np.log(POSITIVE / (1 - POSITIVE)), y=2 * HITS - 1),
        BINARY_NLL,
    ),
    "dictionaries in any order, labels by name": (
        dictionaries(lambda i: np.argsort(-PROBS[i]), lambda i: NAMES[LABELS[i]]),
        NLL,
    ),
    "dictionaries in one order": (dictionaries(lambda _: range(3), lambda i: int(LABELS[i])), NLL),
    "positions whose number is that of the classes": (
        archive(probs=PROBS.reshape(20, 3, 3), labels=LABELS.reshape(20, 3)),
        NLL,
    ),
    "pixels whose number is that of the classes": (
        archive(probs=PROBS.reshape(20, 3, 3).swapaxes(1, 2), labels=LABELS.reshape(20, 3)),
        NLL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", READ)
def test_layouts_are_read(layout: str, tmp_path: Path) -> None:
    write, right = READ[layout]
    assert nll_of(write(tmp_path)) == pytest.approx(right, abs=2e-6)


REFUSED = {
    "dictionaries in any order": (
        dictionaries(lambda i: np.argsort(-PROBS[i]), lambda i: int(LABELS[i])),
        "dictionaries of scores have no order of the classes",
    ),
    "negative logarithms": (archive(scores=-np.log(PROBS), labels=LABELS), "give -x"),
    "logarithms to base 2": (archive(logits=np.log2(PROBS), labels=LABELS), "by ln 2"),
    "logarithms to base 10": (archive(scores=np.log10(PROBS), labels=LABELS), "by ln 10"),
    "positions or pixels": (
        archive(logits=3 * LOGITS.reshape(20, 3, 3), labels=LABELS.reshape(20, 3)),
        "classes may be the last axis, or the second one",
    ),
    "no header": (
        csv_file(FRAME.assign(label=LABELS), header=False),
        "the first row holds numbers",
    ),
    "counts of 255": (
        archive(probs=np.array([[200, 50, 5], [100, 100, 55]], np.uint8), labels=np.array([0, 1])),
        "divide by 255",
    ),
}


@pytest.mark.parametrize("layout", REFUSED)
def test_layouts_with_two_readings_are_refused(layout: str, tmp_path: Path) -> None:
    write, message = REFUSED[layout]
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path))
    assert "\n" not in str(caught.value)


def test_saturated_rows_are_logarithms_to_any_base() -> None:
    """Rows that put everything on one class sum to 1 in every reading: they are what they are called."""
    logits = np.where(np.eye(3)[LABELS] > 0, 0.0, -200.0)
    assert nll_of(Arrays(logits, LABELS, "x")) == pytest.approx(0, abs=1e-9)


def test_columns_that_may_be_labels_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = FRAME.rename(columns={"label": "outcome"}).assign(pred_class=NAMES[0])
    assert (read(csv_file(frame)(tmp_path)).target == -1).all()  # type: ignore[union-attr]
    assert 'not called labels: `keys="target=outcome"`' in capsys.readouterr().err


@pytest.mark.parametrize("hits", [("T", "F"), ("1.0", "0.0")])
def test_hits_and_percent_as_people_write_them(hits: tuple[str, str], tmp_path: Path) -> None:
    correct = np.where(HITS, *hits)
    frame = pd.DataFrame({"confidence": percent(POSITIVE), "correct": correct})
    pairs = read(csv_file(frame, sep=";")(tmp_path))
    assert isinstance(pairs, ConfidencePairs)
    np.testing.assert_allclose(pairs.confidence, POSITIVE, atol=1e-8)
    assert (pairs.correct == HITS).all()


def test_a_confidence_that_is_no_number_is_named_by_its_row(tmp_path: Path) -> None:
    rows = [{"confidence": "0.5", "correct": 1}, {"confidence": "high", "correct": 0}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match="row 2 holds `high`"):
        read(str(tmp_path / "t.jsonl"))

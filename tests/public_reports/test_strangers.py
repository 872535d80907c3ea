"""Files and Python values of strangers of which each was once read wrong, or refused with the wrong advice."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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
    PREDICTED,
    PROBS,
    TEXTS,
    N,
    archive,
    array,
    beside,
    nll_of,
    read,
    table,
    text,
    write_lines,
    write_table,
)

CONFIDENCE, RIGHT = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
LARGER = np.maximum(POSITIVE, 1 - POSITIVE)
ANSWERS = (POSITIVE > 0.5).astype(int)
SICK = np.where(HITS, "disease", "healthy")
YES_FIRST = {"Yes": POSITIVE, "No": 1 - POSITIVE}
UNSORTED = [2, 0, 1]  # places of the columns of classes
CATEGORIES = [NAMES[k] for k in UNSORTED]


def headerless_labels(labels: np.ndarray, scores: np.ndarray) -> Callable[[Path], str]:
    """Scores beside a text of one label a line."""
    return beside(array(scores), text("labels.txt", "".join(f"{label}\n" for label in labels)))


def batches(*parts: Callable[[slice], Any]) -> Callable[[Path], str]:
    """Write a list of batches, one of each part for each: the labels stand in a file of their own."""

    def write(folder: Path) -> str:
        (part,) = parts
        torch.save([part(rows) for rows in BATCHES], folder / "t.pt")
        np.save(folder / "labels.npy", LABELS)
        is_alone = isinstance(part(BATCHES[0]), torch.Tensor)
        return f"{folder / 't.pt'}:{folder / 'labels.npy'}" if is_alone else f"{folder / 't.pt'}"

    return write


def cloud_row(i: int) -> list[dict[str, Any]]:
    return [{"label": NAMES[k], "prob": float(PROBS[i, k])} for k in np.argsort(-PROBS[i])]


READ = {
    "a predicted class of tidymodels that is a number": (
        table(
            **{f".pred_{k + 1}": PROBS[:, k] for k in range(3)},
            **{".pred_class": PROBS.argmax(axis=1) + 1}, truth=LABELS + 1,
        ),
        NLL,
    ),
    "numbers of a batch": (
        batches(lambda rows: {"probs": torch.from_numpy(PROBS[rows]), "labels": torch.from_numpy(LABELS[rows]), "batch_idx": 3}),
        NLL,
    ),
    "batches of scores alone": (batches(lambda rows: torch.from_numpy(PROBS[rows])), NLL),
    "labels without a header": (headerless_labels(TEXTS, PROBS), NLL),
    "numbers of labels without a header": (headerless_labels(LABELS, PROBS), NLL),
    "scores of a table in the cloud": (
        lambda folder: write_lines(folder / "t.jsonl", [{"label": TEXTS[i], "probs": cloud_row(i)} for i in range(N)]),
        NLL,
    ),
    "columns of truth values": (
        table(**{"True": POSITIVE, "False": 1 - POSITIVE}, label=HITS.astype(bool)), BINARY_NLL,
    ),
    "a column of one of two classes by its name": (
        table(prob_disease=POSITIVE, label=SICK), BINARY_NLL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_files_are_read(name: str, tmp_path: Path) -> None:
    write, right = READ[name]
    assert nll_of(write(tmp_path)) == pytest.approx(right, abs=2e-6)


PAIRS = {
    "a score beside hits": (table(score=CONFIDENCE, is_tp=RIGHT), CONFIDENCE, RIGHT),
    "the confidence in one of many classes": (
        table(pred=PREDICTED, prob=CONFIDENCE, label=TEXTS), CONFIDENCE, RIGHT,
    ),
    "whole answers beside labels with a fraction": (
        table(pred=ANSWERS, prob=LARGER, label=HITS.astype(float)), LARGER, ANSWERS == HITS,
    ),
    "answers and gold of different types": (
        table(answer=LABELS, gold=LABELS.astype(float), confidence=CONFIDENCE), CONFIDENCE, RIGHT | True,
    ),
    "truth values beside 0 and 1": (
        table(prediction=ANSWERS > 0, confidence=LARGER, target=HITS), LARGER, ANSWERS == HITS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_read(name: str, tmp_path: Path) -> None:
    write, confidence, right = PAIRS[name]
    pairs = read(write(tmp_path))
    assert isinstance(pairs, ConfidencePairs)
    np.testing.assert_allclose(pairs.confidence, confidence)
    assert (pairs.correct == right).all()


def lists_of(folder: Path, *parts: Any) -> str:
    torch.save([tuple(parts) for _ in range(3)], folder / "t.pt")
    return str(folder / "t.pt")


REFUSED = {
    "one column beside names": (
        table(p=POSITIVE, label=SICK), "may be of healthy, the second of the sorted labels",
    ),
    "one column of many classes": (
        table(prob=CONFIDENCE, label=TEXTS), "one number an example, and labels are 3 classes, neg, neu, pos",
    ),
    "yes before no beside numbers": (
        table(**YES_FIRST, label=HITS), "may be places of the columns, where 0 is \"Yes\", or 1 may be \"Yes\"",
    ),
    "answers in other capitals": (
        table(answer=[text.upper() for text in PREDICTED], gold=TEXTS, confidence=CONFIDENCE),
        "equal in no row, `[A-Z]+` and `[a-z]+` in the first row: write them alike",
    ),
    "answers as names and as numbers": (
        table(answer=PREDICTED, gold=LABELS, confidence=CONFIDENCE), "equal in no row",
    ),
    "confidences out of 10": (
        table(confidence=np.ceil(10 * CONFIDENCE), correct=RIGHT), r"divide by the top of the scale .highest value: 10.",
    ),
    "batches of three parts": (
        lambda folder: lists_of(folder, torch.rand(4, 3), torch.zeros(4), torch.tensor(0.5)),
        "must hold pairs .scores, labels.",
    ),
    "members": (
        archive(probs=np.stack([PROBS, PROBS]), labels=LABELS), r"`probs\.mean\(0\)`",
    ),
    "draws": (
        archive(probs=np.stack([PROBS] * 5, 1), labels=LABELS), r"`probs\.mean\(1\)`",
    ),
    "a missing cell among percent": (
        table(**{name: [f"{100 * v:.9f}%" for v in column] for name, column in zip(NAMES[:2], PROBS.T[:2], strict=True)},
              pos=[None, *(f"{100 * v:.9f}%" for v in PROBS[1:, 2])], label=TEXTS),
        "row 1: the column `pos` is empty",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_files_are_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    write, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "classes", "right"),
    [
        ({"p": POSITIVE, "label": SICK}, "healthy,disease", BINARY_NLL),
        ({"p": 1 - POSITIVE, "label": SICK}, "disease,healthy", BINARY_NLL),
        ({**YES_FIRST, "label": HITS}, "No,Yes", BINARY_NLL),
        ({**YES_FIRST, "label": 1 - HITS}, "Yes,No", BINARY_NLL),
    ],
)
def test_classes_say_which_reading_is_meant(
    columns: dict[str, Any], classes: str, right: float, tmp_path: Path
) -> None:
    file = write_table(tmp_path / "t.csv", **columns)
    assert nll_of(file, keys=(f"classes={classes}",)) == pytest.approx(right, abs=1e-6)


FRAME = pd.DataFrame(PROBS[:, UNSORTED], columns=CATEGORIES)
VALUES = {
    "columns of two levels": (FRAME.set_axis(pd.MultiIndex.from_product([["prob"], CATEGORIES]), axis=1), TEXTS, NLL),
    "columns of truth values": (
        pd.DataFrame({True: POSITIVE, False: 1 - POSITIVE}), HITS.astype(bool), BINARY_NLL,
    ),
    "columns of numbers with a fraction": (
        pd.DataFrame({1.0: POSITIVE, 0.0: 1 - POSITIVE}), HITS.astype(float), BINARY_NLL,
    ),
    "nullable numbers": (FRAME.astype("Float64"), TEXTS, NLL),
    "a series of arrays": (pd.Series(list(PROBS)), LABELS, NLL),
    "an array with fields": (FRAME.to_records(index=False), TEXTS, NLL),
    "numbers that are objects": (PROBS.astype(object), LABELS, NLL),
    "numbers of Arrow": (FRAME.convert_dtypes(dtype_backend="pyarrow"), TEXTS, NLL),
    "dictionaries of numbers": ([{k: row[k] for k in UNSORTED} for row in PROBS], [*LABELS.tolist()], NLL),
    "what a trainer predicts": (namedtuple("Output", "predictions label_ids metrics")(PROBS, LABELS, {"loss": 0.5}), None, NLL),
    "named arrays": ({"probs": PROBS, "labels": LABELS}, None, NLL),
    "batches": ([PROBS[rows] for rows in BATCHES], [LABELS[rows] for rows in BATCHES], NLL),
    "labels that are categories": (FRAME, pd.Series(pd.Categorical(TEXTS, categories=NAMES[::-1])), NLL),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_python_values_are_read(name: str) -> None:
    values, labels, right = VALUES[name]
    assert nll_of(Arrays(values, labels, "x")) == pytest.approx(right, abs=2e-6)


def test_a_table_of_arrow_is_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    frame = pyarrow.Table.from_pandas(FRAME.assign(label=TEXTS))
    assert nll_of(Arrays(frame, None, "x")) == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (PROBS, pd.Categorical(TEXTS, categories=CATEGORIES), "order of the labels' categories, pos, neg, neu"),
        (np.ma.array(PROBS, mask=np.eye(N, 3, dtype=bool)), LABELS, "masked values are none"),
        (PROBS.astype(str), LABELS, r"`.astype\(float\)` makes numbers of them"),
        ((row for row in PROBS), LABELS, r"an iterator is given, .* `list\(...\)`"),
        ((np.log(PROBS), np.zeros((N, 5, 2))), LABELS, r"several arrays are given, of the shapes \(\d+, 3\) and"),
        ([[0.5, 0.5], [0.2, 0.3, 0.5]], [0, 1], "rows have different lengths, 2 and 3"),
        ([1, 2, [3]], [0, 1, 0], "numbers and lists are mixed"),
        (torch.tensor(PROBS).to_sparse(), LABELS, r"a sparse tensor is given, .* `\.to_dense\(\)`"),
        (SimpleNamespace(logits=PROBS), LABELS, r"a SimpleNamespace is given, and scores are needed: `\.logits`"),
        (np.where(PROBS < 0.01, -1e-9, PROBS), LABELS, r"clip each to \[0, 1\] and divide by the sum"),
        (None, LABELS, "scores .* are needed, and None is given"),
        ([None] * 3, [0, 1, 2], "hold object, no numbers"),
        (PROBS, [None] * N, "all labels are missing"),
        ({"a": 1.0}, [0], "its values are single numbers"),
        ("scores.npz", LABELS, "labels are given beside the file scores.npz, which has its own"),
        (POSITIVE, SICK, r"say `classes=\['disease', 'healthy'\]` or"),
    ],
)  # fmt: skip
def test_python_values_are_refused_with_a_way_out(values: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(Arrays(values, labels, "x"))
    assert "\n" not in str(caught.value)

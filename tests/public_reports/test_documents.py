"""Documents and layouts of other programs: JSON of tables and of services in the cloud, masks, tuples, Excel's text."""

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
from calibench.runs import Predictions
from tests.public_reports.small_files import (
    LABELS,
    NAMES,
    NLL,
    PROBS,
    TEXTS,
    N,
    document,
    nll_of,
    read,
    records,
    text,
    write_table,
)

FRAME = pd.DataFrame(PROBS, columns=NAMES).assign(label=TEXTS)
BY_SCORE = np.argsort(-PROBS, axis=1)
MANY = np.random.default_rng(3).random((N, 3)) < PROBS


def lists_in_parquet(folder: Path) -> str:
    probs = [[{"label": NAMES[k], "prob": PROBS[i, k]} for k in BY_SCORE[i]] for i in range(N)]
    frame = pd.DataFrame({"predicted_label_probs": probs, "label": TEXTS})
    frame.to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def decoded(folder: Path) -> str:
    parts = (torch.from_numpy(PROBS), torch.from_numpy(LABELS))
    torch.save((*parts, parts[0].argmax(1)), folder / "t.pt")
    return str(folder / "t.pt")


def with_signs_between_cells(sign: str, first_line: str = "") -> Callable[[Path], str]:
    rows = [
        [*NAMES, "label"],
        *([*map(repr, map(float, FRAME.iloc[i, :3])), TEXTS[i]] for i in range(N)),
    ]
    return text("t.csv", first_line + "\n".join(sign.join(row) for row in rows) + "\n")  # fmt: skip


READ = {
    "rows below columns": document(FRAME.to_dict("split")),
    "a table of wandb": document({"columns": [*FRAME], "data": FRAME.values.tolist(), "ncols": 4}),
    "cells by index": document(json.loads(FRAME.to_json())),
    "rows by their numbers": document(json.loads(FRAME.to_json(orient="index"))),
    "a number beside columns": document({"y_true": TEXTS.tolist(), "y_prob": PROBS.tolist(), "accuracy": 0.7}),
    "classes and scores of an instance": records(
        lambda i: {"instance": {"x": 1, "label": TEXTS[i]}, "prediction": {"classes": NAMES, "scores": [*PROBS[i]]}}
    ),
    "numbers of classes in one order": records(
        lambda i: {"label": int(LABELS[i]), "prediction": {"classes": NAMES[::-1], "scores": [*PROBS[i]]}}
    ),
    "names and confidences": records(
        lambda i: {
            "gold": TEXTS[i],
            "prediction": {"displayNames": [NAMES[k] for k in BY_SCORE[i]], "confidences": [*PROBS[i, BY_SCORE[i]]]},
        }
    ),
    "tokens": records(
        lambda i: {"top_logprobs": [{"token": NAMES[k], "logprob": np.log(PROBS[i, k])} for k in BY_SCORE[i]],
                   "gold": TEXTS[i]}
    ),
    "lists in parquet": lists_in_parquet,
    "decoded predictions": decoded,
    "the separator in the first line": with_signs_between_cells(";", "sep=;\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_documents_are_read(name: str, tmp_path: Path) -> None:
    assert nll_of(READ[name](tmp_path)) == pytest.approx(NLL, abs=2e-6)


@pytest.mark.parametrize("sign", [" ", "^"])
def test_any_sign_may_stand_between_cells(sign: str, tmp_path: Path) -> None:
    file = with_signs_between_cells(sign)(tmp_path)
    assert nll_of(file, separator=sign) == pytest.approx(NLL, abs=2e-6)


def test_lists_of_labels_are_several_labels_an_example(tmp_path: Path) -> None:
    file = records(
        lambda i: {
            "scores": dict(zip(NAMES, PROBS[i], strict=True)),
            "labels": [name for name, is_there in zip(NAMES, MANY[i], strict=True) if is_there],
        }
    )(tmp_path)
    right = float(-np.log(np.where(MANY, PROBS, 1 - PROBS)).mean())
    assert nll_of(file) == pytest.approx(right, abs=2e-6)


@pytest.mark.parametrize("missing", ["", None])
def test_empty_labels_are_left_out(missing: Any, tmp_path: Path) -> None:
    labels = TEXTS.astype(object)
    labels[:5] = missing
    right = float(-np.log(PROBS[np.arange(N), LABELS])[5:].mean())
    file = write_table(tmp_path / "t.csv", **FRAME.assign(label=labels))
    assert nll_of(file) == pytest.approx(right, abs=2e-6)
    frame = FRAME.assign(label=labels)
    assert nll_of(Arrays(frame, None, "x")) == pytest.approx(right, abs=2e-6)
    unlabelled = read(write_table(tmp_path / "u.csv", **FRAME.assign(label=missing)))
    assert isinstance(unlabelled, Predictions)
    assert (unlabelled.target == -1).all()


def test_pixels_without_a_class_are_left_out() -> None:
    """255 in masks of bytes, as of Pascal VOC and Cityscapes."""
    masks = LABELS.astype(np.uint8).reshape(3, 4, 5)
    masks[0, 0, :3] = 255
    logits = np.moveaxis(np.log(PROBS).reshape(3, 4, 5, 3), -1, 1)
    right = float(-np.log(PROBS[np.arange(N), LABELS])[3:].mean())
    assert nll_of(Arrays(logits, masks, "x"), scores="logits") == pytest.approx(right, abs=2e-6)


@pytest.mark.parametrize(
    ("confidence", "hit"), [("conf", "acc"), ("max_prob", "hit"), ("msp", "correct")]
)
def test_confidences_and_hits_by_other_names(confidence: str, hit: str, tmp_path: Path) -> None:
    values, hits = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
    pairs = read(write_table(tmp_path / "t.csv", **{confidence: values, hit: hits.astype(int)}))
    assert isinstance(pairs, ConfidencePairs)
    assert (pairs.correct == hits).all()


WEKA = {
    "inst#": np.arange(N) + 1,
    "actual": [f"{k + 1}:{NAMES[k]}" for k in LABELS],
    "predicted": [f"{k + 1}:{NAMES[k]}" for k in PROBS.argmax(axis=1)],
    "error": np.where(PROBS.argmax(axis=1) == LABELS, "", "+"),
    "prediction": PROBS.max(axis=1).round(3),
}
PYCARET = {
    "length": np.linspace(4, 8, N),
    "target": TEXTS,
    "prediction_label": np.array(NAMES)[PROBS.argmax(axis=1)],
    "prediction_score": PROBS.max(axis=1).round(3),
}


@pytest.mark.parametrize("columns", [WEKA, PYCARET], ids=["weka", "pycaret"])
def test_scores_of_the_predicted_class_are_confidences(
    columns: dict[str, Any], tmp_path: Path
) -> None:
    pairs = read(write_table(tmp_path / "t.csv", **columns))
    assert isinstance(pairs, ConfidencePairs)
    np.testing.assert_allclose(pairs.confidence, PROBS.max(axis=1).round(3))
    assert (pairs.correct == (PROBS.argmax(axis=1) == LABELS)).all()


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (PROBS.ravel(), LABELS, r"`\.reshape\(60, 3\)` if the 3 scores of an example follow"),
        (PROBS.T.reshape(3, 1, 5, 12), LABELS.reshape(1, 5, 12), r"`np\.moveaxis\(probs, 0, 1\)`"),
    ],
)
def test_shapes_are_refused_with_what_makes_rows_of_them(
    scores: np.ndarray, labels: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read(Arrays(scores, labels, "x"))


def test_rows_by_names_are_refused(tmp_path: Path) -> None:
    """They may be columns by the names of rows as well."""
    content = {f"image {i}": dict(zip(NAMES, row, strict=True)) for i, row in enumerate(PROBS)}
    with pytest.raises(ValueError, match="a list of objects is expected"):
        read(document(content)(tmp_path))


def test_a_score_of_the_predicted_class_is_no_score_of_the_second(tmp_path: Path) -> None:
    """Also where the first class alone is predicted."""
    labels = (LABELS == 0).astype(int)
    score = np.linspace(0.5, 0.9, N)
    columns = {"target": labels, "prediction_label": 0, "prediction_score": score}
    pairs = read(write_table(tmp_path / "t.csv", **columns))
    assert isinstance(pairs, ConfidencePairs)
    assert (pairs.correct == (labels == 0)).all()

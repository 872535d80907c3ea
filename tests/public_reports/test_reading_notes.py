"""Files of the world say in one line what was guessed of them, and read as a plain .npz of the same predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.files import Arrays, Reader
from tests.public_reports.small_files import (
    BATCHES,
    HITS,
    LABELS,
    NAMES,
    POSITIVE,
    PREDICTED,
    PROBS,
    TEXTS,
    N,
    harness_sample,
    pipeline_row,
    write_lines,
)

LOGITS = np.log(PROBS)
CONFIDENCE, RIGHT = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
OPTIONS = np.log(PROBS).tolist()


class Case(NamedTuple):
    """A file, parts of the line on it, and what a plain file of the same predictions holds."""

    write: Callable[[Path], str]
    parts: tuple[str, ...]
    plain: Mapping[str, Any] = MappingProxyType({"probs": PROBS, "labels": LABELS})


def table(suffix: str = ".csv", *, begins: str = "", **columns: Any) -> Callable[[Path], str]:
    """Write columns, of which those of the classes begin alike."""
    classes = {f"{begins}{name}": PROBS[:, k] for k, name in enumerate(NAMES)} if begins else {}

    def write(folder: Path) -> str:
        frame, file = pd.DataFrame({**columns, **classes}), folder / f"t{suffix}"
        frame.to_parquet(file) if suffix == ".parquet" else frame.to_csv(file, index=False)
        return str(file)

    return write


def text(content: Callable[[pd.DataFrame], str], encoding: str = "utf-8") -> Callable[[Path], str]:
    """Write a table of class columns and labels as text of some kind."""

    def write(folder: Path) -> str:
        frame = pd.DataFrame(PROBS, columns=NAMES).assign(label=TEXTS)
        (folder / "t.csv").write_bytes(content(frame).encode(encoding))
        return str(folder / "t.csv")

    return write


def records(record: Callable[[int], Any], name: str = "t.jsonl") -> Callable[[Path], str]:
    return lambda folder: write_lines(folder / name, [record(i) for i in range(N)])


def tensors(content: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        torch.save(content, folder / "t.pt")
        return str(folder / "t.pt")

    return write


def arrays(**content: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        np.savez(folder / "t.npz", **content)
        return str(folder / "t.npz")

    return write


def safetensors(folder: Path) -> str:
    content = {"y_score": torch.from_numpy(PROBS), "y_true": torch.from_numpy(LABELS)}
    save_file(content, folder / "t.safetensors")
    return str(folder / "t.safetensors")


def labels_apart(folder: Path) -> str:
    frame = pd.DataFrame({"id": range(N), "text": "a film", "label": TEXTS})
    frame.to_csv(folder / "labels.csv", index=False)
    scores = write_lines(folder / "scores.jsonl", [pipeline_row(row) for row in PROBS])
    return f"{scores}:{folder / 'labels.csv'}"


def first_and_rest(values: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(values[rows]) for rows in BATCHES]


PERCENT = [f"{100 * value:.9f} %" for value in CONFIDENCE]
POSITIONS = PROBS.reshape(20, 3, 3)
PAIRS = {"confidence": CONFIDENCE, "correct": RIGHT}
CASES = {
    "lm-evaluation-harness": Case(
        records(lambda i: harness_sample(i, OPTIONS[i], int(LABELS[i]), int(LABELS[i]))),
        ("samples of lm-evaluation-harness: log-likelihoods of 3 options are read as logits",),
    ),
    "pipeline": Case(
        records(lambda i: {"gold": NAMES[LABELS[i]], "text": "a", "output": pipeline_row(PROBS[i])}),
        ("`output` holds the scores of 3 classes", 'labels: field "gold"', "left out: `text`"),
    ),
    "pipeline, labels in another file": Case(
        labels_apart,
        ("each row is a list of labels with scores", "left out beside the labels: `id`, `text`"),
    ),
    "zero-shot": Case(
        records(lambda i: {"sequence": "x", "labels": NAMES, "scores": PROBS[i].tolist(), "truth": NAMES[LABELS[i]]}),
        ("are classes and their scores", 'labels: field "truth"', "left out: `sequence`"),
    ),
    "dictionaries": Case(
        records(lambda i: {"probs": dict(zip(NAMES, PROBS[i].tolist(), strict=True)), "actual": NAMES[LABELS[i]]}),
        ("`probs` holds the scores of 3 classes", 'labels: field "actual"'),
    ),
    "tidymodels": Case(
        table(begins=".pred_", **{".pred_class": PREDICTED}, truth=TEXTS, **{".row": np.arange(1, N + 1)}),
        ('labels: column "truth"', "prefix `.pred_`: classes neg, neu, pos", "left out: `.pred_class`, `.row`"),
    ),
    "mlr3": Case(
        table(row_ids=np.arange(1, N + 1), truth=TEXTS, response=PREDICTED, begins="prob."),
        ('labels: column "truth"', "prefix `prob.`: classes neg, neu, pos", "left out: `row_ids`, `response`"),
    ),
    "caret": Case(
        table(pred=PREDICTED, obs=TEXTS, **dict(zip(NAMES, PROBS.T, strict=True)), rowIndex=np.arange(1, N + 1)),
        ('labels: column "obs"', "left out: `pred`, `rowIndex`"),
    ),
    "H2O": Case(
        table(predict=PROBS.argmax(axis=1), actual=LABELS, p0=PROBS[:, 0], p1=PROBS[:, 1], p2=PROBS[:, 2]),
        ('labels: column "actual"', "prefix `p`: classes 0, 1, 2", "left out: `predict`"),
    ),
    "detector": Case(
        table(conf=CONFIDENCE, tp=RIGHT.astype(int), box=0),
        ('confidence: "conf"', 'hits: "tp"', "left out: `box`"),
        PAIRS,
    ),
    "weight and fold": Case(
        table(begins="prob_", weight=2.5, fold=np.arange(N) % 5, label=TEXTS, id=np.arange(N)),
        ("left out: `weight`, `fold`, `id`",),
    ),
    "percent and yes": Case(
        table(confidence=PERCENT, correct=np.where(RIGHT, "yes", "no")),
        ("percent signs in `confidence`: divided by 100", 'hits: "no" is 0, "yes" is 1'),
        PAIRS,
    ),
    "percent of classes": Case(
        table(**{name: [f"{100 * value:.12f}%" for value in PROBS[:, k]] for k, name in enumerate(NAMES)}, label=TEXTS),
        ("percent signs in `neg`, `neu`, `pos`: divided by 100",),
    ),
    **{
        f"labels called {name}": Case(
            table(begins="prob_", **{name: TEXTS}), (f'labels: column "{name}"',)
        )
        for name in ("truth", "obs", "actual", "Class", "gold")
    },
    "verbalised": Case(
        table(answer=PREDICTED, gold=TEXTS, confidence=PERCENT, question="which?"),
        (
            f"right is where `answer` and `gold` are equal, {RIGHT.sum()} of {N}",
            "percent signs in `confidence`: divided by 100", "left out: `question`",
        ),
        PAIRS,
    ),
    "safetensors": Case(safetensors, ("`y_score` is taken for probs", 'labels: array "y_true"')),
    "batches of pairs": Case(
        tensors(list(zip(first_and_rest(PROBS), first_and_rest(LABELS), strict=True))),
        ("3 batches are joined in their order",),
    ),
    "batches of dictionaries": Case(
        tensors([{"probs": torch.from_numpy(PROBS[rows]), "labels": torch.from_numpy(LABELS[rows])} for rows in BATCHES]),
        ("3 batches are joined in their order",),
    ),
    "lists of batches": Case(
        tensors({"probs": first_and_rest(PROBS), "labels": first_and_rest(LABELS)}),
        ("3 batches are joined in their order",),
    ),
    "positions": Case(
        arrays(probs=POSITIONS, labels=LABELS.reshape(20, 3)),
        ("positions (20, 3) are rows: intervals and limits treat them as independent",),
    ),
    "segmentation": Case(
        arrays(probs=PROBS.reshape(4, 3, 5, 3).transpose(0, 3, 1, 2), labels=LABELS.reshape(4, 3, 5)),
        ("positions (4, 3, 5) are rows",),
    ),
    "Hugging Face": Case(
        arrays(predictions=PROBS, label_ids=LABELS),
        ("`predictions` is taken for probs", 'labels: array "label_ids"'),
    ),
    "P(y = 1)": Case(
        table(p=POSITIVE, y_true=HITS), ('labels: column "y_true"', "P(y = 1)"),
        {"probs": np.stack([1 - POSITIVE, POSITIVE], 1), "labels": HITS},
    ),
    "semicolons and decimal commas": Case(
        text(lambda frame: frame.to_csv(index=False, sep=";", decimal=",")),
        ("read with semicolons between cells and decimal commas",),
    ),
    "UTF-16": Case(
        text(lambda frame: frame.to_csv(index=False, sep="\t"), "utf-16"),
        ("read as UTF-16 and with tabs between cells",),
    ),
}  # fmt: skip


def plain_read(folder: Path, plain: Mapping[str, Any]) -> Any:
    np.savez(folder / "plain.npz", **plain)
    return Reader().read(str(folder / "plain.npz"))


def check_equal(read: Any, plain: Any) -> None:
    """Compare pairs, or probabilities of the same rows, which are NaN of logits."""
    if isinstance(plain, ConfidencePairs):
        np.testing.assert_allclose(read.confidence, plain.confidence, atol=1e-10)
        assert (read.correct == plain.correct).all()
        return
    np.testing.assert_allclose(softmax(read), softmax(plain), atol=1e-6)
    assert (read.target == plain.target).all()


def softmax(predictions: Any) -> np.ndarray:
    exponentials = np.exp(predictions.logits.astype(np.float64))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", CASES)
def test_what_is_guessed_is_said_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    plain = plain_read(tmp_path, case.plain)
    assert capsys.readouterr().err == ""  # nothing of it was guessed
    source = case.write(tmp_path)
    read = Reader().read(source)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{source}: ")
    assert [part for part in case.parts if part not in line] == []
    assert line.count("; ") == len(set(line.split("; "))) - 1  # nothing is said twice
    check_equal(read, plain)


FRAMES = {
    "tidymodels": (
        pd.DataFrame(PROBS, columns=[f".pred_{name}" for name in NAMES]).assign(truth=TEXTS),
        r'labels: column "truth"; prefix `\.pred_`',
    ),
    "weight": (
        pd.DataFrame(PROBS, columns=[f"prob_{name}" for name in NAMES]).assign(weight=1.0, label=TEXTS),
        "left out: `weight`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_what_is_guessed_in_python_is_one_warning(name: str, tmp_path: Path) -> None:
    frame, line = FRAMES[name]
    with pytest.warns(UserWarning, match=line) as warnings_of_frame:
        read = Reader().read(Arrays(frame, None, "x"))
    assert len(warnings_of_frame) == 1
    check_equal(read, plain_read(tmp_path, {"probs": PROBS, "labels": LABELS}))

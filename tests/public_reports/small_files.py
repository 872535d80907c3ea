"""Small predictions with their values by numpy, and writers of files that hold them, for the tests of this folder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.files import Reader
from calibench.runs import Predictions

N, NAMES = 60, ["neg", "neu", "pos"]
RANDOM = np.random.default_rng(0)
PROBS = RANDOM.dirichlet([1, 1, 1], N)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])
NLL = float(-np.log(PROBS[np.arange(N), LABELS]).mean())
POSITIVE = RANDOM.random(N)
HITS = (RANDOM.random(N) < POSITIVE).astype(int)
BINARY_NLL = float(-np.log(np.where(HITS, POSITIVE, 1 - POSITIVE)).mean())
TEXTS = np.array(NAMES)[LABELS]
PREDICTED = np.array(NAMES)[PROBS.argmax(axis=1)]
BY_NAME = dict(zip(NAMES, PROBS.T, strict=True))
SHUFFLED = np.random.default_rng(1).permutation(N)
BATCHES = [slice(0, 25), slice(25, 50), slice(50, N)]
Writer = Callable[[Path], str]


def write_lines(path: Path, rows: list[Any]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return str(path)


def write_table(path: Path, **columns: Any) -> str:
    pd.DataFrame(columns).to_csv(path, index=False)
    return str(path)


def read(source: Any, **options: Any) -> Predictions | ConfidencePairs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Reader(**options).read(source)


def nll_of(source: Any, **options: Any) -> float:
    predictions = read(source, **options)
    assert isinstance(predictions, Predictions)
    logits = predictions.logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return float(-log_probs[np.arange(len(logits)), predictions.target].mean())


def harness_sample(number: int, options: list[float], place: int, target: Any) -> dict[str, Any]:
    """A sample of lm-evaluation-harness, whose log-likelihoods are texts as in its newer versions."""
    return {
        "doc_id": number,
        "target": target,
        "arguments": {
            f"gen_args_{i}": {"arg_0": "Question:", "arg_1": f" option {i}"}
            for i in range(len(options))
        },
        "resps": [[[str(value), "False"]] for value in options],
        "filtered_resps": [[str(value), "False"] for value in options],
        "acc": float(np.argmax(options) == place),
    }


def table(**columns: Any) -> Writer:
    """Write columns as CSV."""
    return lambda folder: write_table(folder / "t.csv", **columns)


def shuffled(**columns: Any) -> Writer:
    """Write columns as CSV, the rows in another order."""
    return table(**{name: np.asarray(cells)[SHUFFLED] for name, cells in columns.items()})


def beside(scores: Writer, labels: Writer) -> Writer:
    """Write scores and labels in two files."""

    def write(folder: Path) -> str:
        (folder / "labels").mkdir()
        return f"{scores(folder)}:{labels(folder / 'labels')}"

    return write


def array(values: Any) -> Writer:
    """Write one array of numpy."""

    def write(folder: Path) -> str:
        np.save(folder / "t.npy", values)
        return str(folder / "t.npy")

    return write


def archive(**arrays: Any) -> Writer:
    """Write named arrays of numpy."""

    def write(folder: Path) -> str:
        np.savez(folder / "t.npz", **arrays)
        return str(folder / "t.npz")

    return write


def torch_file(content: Any) -> Writer:
    """Write what torch saves."""

    def write(folder: Path) -> str:
        torch.save(content, folder / "t.pt")
        return str(folder / "t.pt")

    return write


def text(name: str, content: str) -> Writer:
    """Write a text under a name."""

    def write(folder: Path) -> str:
        (folder / name).write_text(content)
        return str(folder / name)

    return write


def document(content: Any) -> Writer:
    """Write a document of JSON."""
    return text("t.json", json.dumps(content, default=float))


def records(make: Callable[[int], Any]) -> Writer:
    """Write a record of JSON for each example, one a line."""
    rows = json.loads(json.dumps([make(i) for i in range(N)], default=float))
    return lambda folder: write_lines(folder / "t.jsonl", rows)


def pipeline_row(row: np.ndarray) -> list[dict[str, Any]]:
    """All scores of a text classification pipeline, the largest first."""
    return [{"label": NAMES[i], "score": float(row[i])} for i in np.argsort(-row)]


RECORDS = {
    "pipeline": lambda row, k: {"text": "x", "label": NAMES[k], "output": pipeline_row(row)},
    "pipeline, nested": lambda row, k: {"label": NAMES[k], "predictions": [pipeline_row(row)]},
    "dictionary": lambda row, k: {"probs": dict(zip(NAMES, row, strict=True)), "gold": NAMES[k]},
    "zero-shot": lambda row, k: {
        "sequence": "x",
        "labels": [part["label"] for part in pipeline_row(row)],
        "scores": [part["score"] for part in pipeline_row(row)],
        "truth": NAMES[k],
    },
    "columns": lambda row, k: {**dict(zip(NAMES, row, strict=True)), "label": NAMES[k]},
}

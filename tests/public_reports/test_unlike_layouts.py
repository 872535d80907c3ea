"""Files of other programs that were once read wrong: ids under two names, top classes, margins of pairs, texts of lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.cli import main
from tests.public_reports.small_files import (
    BINARY_NLL,
    BY_NAME,
    HITS,
    LABELS,
    NAMES,
    NLL,
    POSITIVE,
    PREDICTED,
    PROBS,
    TEXTS,
    N,
    Writer,
    archive,
    beside,
    document,
    nll_of,
    pipeline_row,
    read,
    records,
    shuffled,
    table,
    text,
    torch_file,
    write_table,
)

IDS = np.array([f"image {i}" for i in range(N)])
REPEATED = np.where(np.arange(N) == 1, IDS[0], IDS)
ORDER = np.argsort(-PROBS, axis=1)
FIVE = np.random.default_rng(2).dirichlet(np.ones(5), N)
LOSSES = -np.log(PROBS[np.arange(N), LABELS])


def text_of_lists(make: Callable[[int], Any]) -> Writer:
    """A table with a column of the texts of objects."""
    return table(output=[make(i) for i in range(N)], label=TEXTS)


def decimal_commas(folder: Path) -> str:
    cells = {
        name: [str(cell).replace(".", ",") for cell in column] for name, column in BY_NAME.items()
    }
    return write_table(folder / "t.csv", **cells, label=TEXTS)


READ = {
    "ids under two names": beside(table(image=IDS, **BY_NAME), shuffled(ID=IDS, label=TEXTS)),
    "names of files in an archive": beside(archive(probs=PROBS, files=IDS), shuffled(image=IDS, label=TEXTS)),
    "labels in LIBSVM's format": beside(
        archive(probs=PROBS), text("train.libsvm", "".join(f"{k} 1:0.5 3:2\n" for k in LABELS))
    ),
    "a matrix in JSON": beside(document(PROBS.tolist()), archive(labels=LABELS)),
    "top classes by number": records(
        lambda i: {"label": ORDER[i].tolist(), "prob": PROBS[i, ORDER[i]].tolist(), "target": int(LABELS[i])}
    ),
    "losses beside scores": torch_file(tuple(map(torch.from_numpy, (PROBS, LABELS, LOSSES)))),
    "the largest probability beside all": table(
        **{f"species_probabilities_{name}": column for name, column in BY_NAME.items()},
        species_probability=PROBS.max(axis=1), label=TEXTS,
    ),
    "decimal commas within quotes": decimal_commas,
    "texts of tensors": table(probs=[f"tensor({row.tolist()}, device='cuda:0')" for row in PROBS], label=LABELS),
    "texts of dictionaries": table(probs=[str(dict(zip(NAMES, row.tolist(), strict=True))) for row in PROBS], label=TEXTS),
    "texts of lists in Python": text_of_lists(lambda i: str(pipeline_row(PROBS[i]))),
    "texts of lists in JSON": text_of_lists(lambda i: json.dumps(pipeline_row(PROBS[i]))),
    "texts of classes beside those of scores": table(
        labels=[str([NAMES[k] for k in order]) for order in ORDER],
        probabilities=[str(PROBS[i, ORDER[i]].tolist()) for i in range(N)],
        predicted_label=PREDICTED, label=TEXTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_unlike_layouts_are_read(name: str, tmp_path: Path) -> None:
    file = READ[name](tmp_path)
    assert nll_of(file) == pytest.approx(NLL, abs=2e-6)


CUMULATIVE = np.cumsum(PROBS, axis=1)
GAPS = np.where(np.arange(N)[:, None] == 3, np.nan, PROBS)
REFUSED = {
    "an id in two rows of the labels": (
        beside(table(id=IDS[2:], **{name: column[2:] for name, column in BY_NAME.items()}), shuffled(id=REPEATED, label=TEXTS)),
        "`id` of the labels has image 0 in 2 rows",
    ),
    "numbers under two names": (
        beside(table(rank=np.arange(N), **BY_NAME), shuffled(id=np.arange(N), label=TEXTS)),
        "`rank` and `id` of the labels have the same values in different orders: give both one name",
    ),
    "logits of top classes alone": (
        archive(logits=-np.sort(-np.log(FIVE), axis=1), labels=LABELS), r'top 5 classes .*`scores="logits"`',
    ),
    "scores of top classes alone": (
        archive(probs=-np.sort(-FIVE, axis=1), labels=LABELS), "as sorted scores of the top 5 classes of each example do",
    ),
    "margins of pairs of classes": (
        archive(decision_function=np.random.default_rng(3).normal(size=(N, 6)), labels=np.arange(N) % 4),
        "may be of pairs of classes, one-vs-one: take `decision_function_shape=\"ovr\"`",
    ),
    "labels before probabilities": (archive(arr_0=np.c_[LABELS, PROBS]), r"its first column seems to be of labels"),
    "cumulative probabilities": (archive(probs=CUMULATIVE, labels=LABELS), r"`np.diff\(p, axis=1, prepend=0\)`"),
    "survival probabilities": (
        archive(predictions=1 - CUMULATIVE[:, :-1], labels=LABELS), r"`-np.diff\(p, axis=1, prepend=1, append=0\)`",
    ),
    "rows of NaN": (archive(probs=GAPS, labels=LABELS), r"`probs` hold NaN in row 3 \(1 of 60 rows\)"),
    "scores of labels in a list": (
        archive(probs=np.stack([np.stack([1 - PROBS, PROBS], -1)[:, k] for k in range(3)]), labels=np.eye(3)[LABELS]),
        r"take `probs\[\.\.\., 1\]\.T`",
    ),
    "flat scores": (archive(preds=PROBS.ravel(), labels=LABELS), r"`.reshape\(60, 3\)` if the 3 scores"),
    "several classes in a cell": (
        table(**BY_NAME, label=np.where(HITS, "neg|pos", "neg")), r"`cells.str.get_dummies\('\|'\).add_prefix\('label_'\)`",
    ),
    "lists of classes beside lists of scores": (
        records(lambda i: {"probs": PROBS[i].tolist(), "labels": NAMES[: i % 3]}), "holds lists of names: several classes",
    ),
    "a table of labels without a header": (
        beside(archive(probs=PROBS), text("t.csv", "".join(f"{k},0.5\n" for k in LABELS))), "write the labels alone, one a line",
    ),
    "rows of annotations": (
        records(lambda i: {"predictions": [{"result": [NAMES[0]], "score": 0.5}], "id": i}), "holds lists or objects, no numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unlike_layouts_are_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    write, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path))
    assert "\n" not in str(caught.value)


def test_one_column_of_fractions_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Azure's columns: the true class, the predicted one and its probability."""
    columns = {"income": HITS, "Scored Labels": POSITIVE > 0.5, "Scored Probabilities": POSITIVE}
    file = str(tmp_path / "t.csv")
    pd.DataFrame(columns).astype({"Scored Labels": int}).to_csv(file, index=False)
    assert main(["evaluate", file]) == 2
    assert "`--keys 'probs=Scored Probabilities' target=income` reads it" in capsys.readouterr().err
    keys = ("probs=Scored Probabilities", "target=income")
    assert nll_of(file, keys=keys) == pytest.approx(BINARY_NLL, abs=2e-6)


def test_sorted_scores_are_read_where_the_user_says_so(tmp_path: Path) -> None:
    values = -np.sort(-FIVE, axis=1)
    right = float(-np.log(values[np.arange(N), LABELS]).mean())
    file = archive(probs=values, labels=LABELS)(tmp_path)
    assert nll_of(file, scores="probs") == pytest.approx(right, abs=2e-6)


def test_texts_of_lists_are_calibrated_as_a_table(tmp_path: Path) -> None:
    file, cal, out = (
        READ["texts of lists in Python"](tmp_path),
        str(tmp_path / "cal.json"),
        str(tmp_path / "out.csv"),
    )
    assert main(["calibrate", "--val", file, "--calibrator", "TemperatureScaling", "-o", cal]) == 0
    assert main(["calibrate", "--apply", cal, "--input", file, "-o", out]) == 0
    assert [*pd.read_csv(out)] == [*(f"prob_{name}" for name in sorted(NAMES)), "label"]
    assert (read(out).target == read(file).target).all()  # type: ignore[union-attr]

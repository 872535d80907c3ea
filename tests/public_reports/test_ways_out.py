"""Layouts of which each was once refused without a way out: read right now, or what is to be typed works."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from calibench.calibrators import VectorScaling
from calibench.cli import main
from calibench.predictions.confidence_pairs import ConfidencePairs
from tests.public_reports.small_files import (
    BY_NAME,
    LABELS,
    NAMES,
    NLL,
    PROBS,
    TEXTS,
    N,
    Writer,
    array,
    beside,
    document,
    nll_of,
    read,
    records,
    table,
    text,
    torch_file,
)

FRAME = pd.DataFrame(BY_NAME).assign(label=TEXTS)
CSV = FRAME.to_csv(index=False)
LOGITS = np.log(PROBS) + np.linspace(-1, 1, N)[:, None]
FIELDS = [(name, "f8") for name in NAMES]


def hdf5(**arrays: Any) -> Writer:
    """Write arrays under their paths in the file."""

    def write(folder: Path) -> str:
        with h5py.File(folder / "t.h5", "w") as file:
            for name, values in arrays.items():
                file[name] = values
        return str(folder / "t.h5")

    return write


def place(write: Writer, group: str) -> Writer:
    return lambda folder: f"{write(folder)}:{group}"


def beside_labels(write: Writer) -> Writer:
    return beside(write, table(label=LABELS))


def fields(*columns: tuple[Any, ...], **values: Any) -> Writer:
    """Write an array of numpy with fields."""
    rows = np.zeros(N, dtype=[*columns])
    for name, cells in values.items():
        rows[name] = cells
    return array(rows)


def saved_text(header: str, sign: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        rows = np.c_[PROBS, LABELS]
        np.savetxt(folder / "t.txt", rows, header=header, delimiter=sign)
        return str(folder / "t.txt")

    return write


def r_table(sign: str) -> str:
    """What `write.table` of R writes: names of the rows, and none for their column."""
    rows = [
        sign.join([f'"{i + 1}"', *map(repr, map(float, PROBS[i])), f'"{TEXTS[i]}"'])
        for i in range(N)
    ]
    return "\n".join([sign.join(f'"{name}"' for name in FRAME.columns), *rows]) + "\n"


ROWS_OF_JSON = [{"probs": PROBS[i].tolist(), "label": int(LABELS[i])} for i in range(N)]


def drawn(rule: str, *, is_closed: bool = True, is_framed: bool = False) -> str:
    """A table drawn with bars and rules, as Markdown, Spark and psql write it."""
    rows = [[*FRAME.columns], *FRAME.astype(str).to_numpy().tolist()]
    ends = "|" * is_closed
    lines = [ends + "|".join(f" {cell} " for cell in row) + ends for row in rows]
    frame = [rule] * is_framed
    return "\n".join([*frame, lines[0], rule, *lines[1:], *frame]) + "\n"


def nested(i: int) -> dict[str, Any]:
    """A record whose scores and labels are one level deeper, beside the predicted class."""
    output = {"probs": PROBS[i].tolist(), "label": int(PROBS[i].argmax())}
    return {"output": output, "doc": {"id": i, "label": int(LABELS[i])}}


def libsvm(folder: Path) -> str:
    """The predicted class, under the name of labels, before the probabilities."""
    rows = [" ".join(map(repr, [int(row.argmax()), *map(float, row)])) for row in PROBS]
    return text("t.out", "\n".join(["labels 0 1 2", *rows]) + "\n")(folder)


ROWS = "\n".join(" ".join(map(repr, map(float, row))) for row in PROBS) + "\n"
READ = {
    "scores under no known suffix beside labels": beside_labels(text("t.csv.out", ROWS)),
    "a table under no known suffix": text("t.predictions", CSV),
    "arrays in a file of HDF5": hdf5(logits=LOGITS, labels=LABELS),
    "arrays of HDF5 with names of classes": hdf5(probs=PROBS, labels=TEXTS.astype("S"), classes=np.array(NAMES, "S")),
    "arrays in a group": place(hdf5(**{"run/logits": LOGITS, "run/labels": LABELS}), "run"),
    "arrays in a group of a group": place(hdf5(**{"run/test/logits": LOGITS, "run/test/labels": LABELS}), "run/test"),
    "scores of HDF5 beside labels": beside_labels(hdf5(probs=PROBS)),
    "comments above the header": text("t.csv", f"# model 3\n# 2026, seed 1\n{CSV}"),
    "comments above scores alone": beside_labels(text("t.txt", f"# of the test set\n{ROWS}")),
    "a header that is a comment": text("t.csv", f"# model 3\n#{CSV}"),
    "a column called #": text("t.csv", FRAME.rename_axis("#").to_csv()),
    "what numpy saves as text": saved_text(" ".join(FRAME.columns), " "),
    "what numpy saves with commas": saved_text(",".join(FRAME.columns), ","),
    "a table of R with spaces": text("t.txt", r_table(" ")),
    "a table of R with commas": text("t.csv", r_table(",")),
    "a frame as text": text("t.txt", FRAME.to_string()),
    "fields of numpy": fields(*FIELDS, ("label", "U3"), **BY_NAME, label=TEXTS),
    "fields of bytes": fields(*FIELDS, ("label", "S3"), **BY_NAME, label=TEXTS.astype("S")),
    "a field of lists": fields(("probs", "f8", 3), ("label", "i8"), probs=PROBS, label=LABELS),
    "a table in percent": table(**{name: 100 * column for name, column in BY_NAME.items()}, label=TEXTS),
    "labels in small letters": table(**{name.title(): column for name, column in BY_NAME.items()}, label=TEXTS),
    "examples of one dictionary each": torch_file(
        [{"logits": torch.from_numpy(LOGITS[i]), "label": int(LABELS[i])} for i in range(N)]
    ),
    "scores of spacy": records(lambda i: {"cats": dict(zip(NAMES, PROBS[i], strict=True)), "label": TEXTS[i]}),
    "log-probabilities of tokens": records(
        lambda i: {"top_logprobs": dict(zip(NAMES, LOGITS[i], strict=True)), "gold": TEXTS[i]}
    ),
    "rows in an object": document({"predictions": ROWS_OF_JSON, "model": "a"}),
    "rows by their ids": document({f"{i}.jpg": row for i, row in enumerate(ROWS_OF_JSON)}),
    "columns beside names of classes": document(
        {"probs": PROBS.tolist(), "labels": LABELS.tolist(), "classes": NAMES}
    ),
    "scores and labels in objects": records(nested),
    "scores of classes in objects": records(
        lambda i: {"output": {"probs": dict(zip(NAMES, PROBS[i], strict=True))}, "label": TEXTS[i]}
    ),
    "columns in an object": document({"results": {"probs": PROBS.tolist(), "labels": LABELS.tolist()}, "model": "a"}),
    "Markdown": text("t.md", drawn("|---|:---:|---:|---|")),
    "a table of Spark": text("t.txt", drawn("+---+---+---+---+", is_framed=True)),
    "a table of psql": text("t.txt", drawn("---+---+---+---", is_closed=False)),
    "what LIBSVM writes beside labels": beside(libsvm, table(y=LABELS)),
    "fields beside labels": beside_labels(fields(*FIELDS, **BY_NAME)),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_layouts_are_read(name: str, tmp_path: Path) -> None:
    assert nll_of(READ[name](tmp_path)) == pytest.approx(NLL, abs=2e-6)


def instance(make: Callable[[str], Any]) -> Writer:
    """Predictions of a model in the cloud, whose instances have the labels alone."""
    return records(lambda i: {
        "instance": make(str(TEXTS[i])), "prediction": {"classes": NAMES, "scores": PROBS[i].tolist()},
    })  # fmt: skip


TWO_MODELS = {f"{model}_{name}": PROBS[:, k] for model in "ab" for k, name in enumerate(NAMES)}
KEYS = {
    "columns of two models": table(**TWO_MODELS, label=TEXTS),
    "columns of two models by their ends": table(
        **{f"{name[2:]}.{name[0]}": column for name, column in TWO_MODELS.items()}, label=TEXTS
    ),
    "sets in one file": hdf5(
        val_logits=-LOGITS, val_labels=LABELS, test_logits=LOGITS, test_labels=LABELS
    ),
    "sets in one dictionary": torch_file(
        {
            split: {"logits": torch.from_numpy(sign * LOGITS), "labels": torch.from_numpy(LABELS)}
            for split, sign in (("val", -1), ("test", 1))
        }
    ),
    "logits and probabilities in objects": records(
        lambda i: {
            "output": {"logits": LOGITS[i].tolist(), "probs": PROBS[i].tolist()},
            "label": int(LABELS[i]),
        }
    ),
    "two labels in objects": records(
        lambda i: {
            "probs": PROBS[i].tolist(),
            "doc": {"label": int(LABELS[i])},
            "old": {"target": 0},
        }
    ),
    "an instance of one text": instance(lambda label: label),
    "an instance of a list of one": instance(lambda label: [label]),
    "an instance of one field": instance(lambda label: {"outcome": label}),
}


@pytest.mark.parametrize("name", KEYS)
def test_what_is_to_be_typed_works(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = KEYS[name](tmp_path)
    assert main(["evaluate", file]) == 2
    message = capsys.readouterr().err
    keys = re.findall(r"`(--keys [^`]*)`", message)[0]
    assert main(["evaluate", file, *shlex.split(keys)]) == 0
    assert re.search(rf"NLL +{NLL:.4f} ", capsys.readouterr().out)


def test_a_group_that_holds_the_arrays_is_named(tmp_path: Path) -> None:
    write = hdf5(**{f"{split}/{name}": values for split in ("val", "test")
                    for name, values in {"logits": LOGITS, "labels": LABELS}.items()})  # fmt: skip
    file = write(tmp_path)
    with pytest.raises(ValueError, match=r"name one, as `.*:test` or `.*:val`") as caught:
        read(file)
    address = re.findall("`([^`]*:test)`", str(caught.value))[0]
    assert nll_of(address) == pytest.approx(NLL, abs=2e-6)


REFUSED = {
    "a title above the table": (text("t.csv", f"Results of model 3\n\n{CSV}"), "begin at line 3"),
    "a sheet": (text("t.xlsx", "PK"), r"`pandas.read_excel\('.*t.xlsx'\).to_csv\('x.csv', index=False\)`"),
    "a packed file": (text("t.csv.bz2", "BZh"), "is packed: unpack it, `bunzip2 -k .*t.csv.bz2`"),
    "a row cut short": (text("t.csv", CSV[:-30]), "row 60: 2 cells, 4 were expected, in the last row: the file looks cut off"),
    "a document cut short": (text("t.json", json.dumps(ROWS_OF_JSON)[:-20]), "it looks cut off"),
    "a line of JSON cut short": (text("t.jsonl", '{"probs": [0.5, 0.5]}\n{"probs": [0.5, 0'), "row 2: .* it looks cut off"),
    "sets in a document": (
        document({name: {"probs": PROBS.tolist(), "labels": LABELS.tolist()} for name in ("val", "test")}),
        "it holds the tables val, test: write each in a file of its own",
    ),
    "bytes of no known kind": (text("t.dat", "a\0b"), "a file .npz, .npy"),
    "a table of pandas": (lambda folder: pandas_table(folder), r"`pandas.read_hdf\('.*t.h5'\).to_csv"),
    "labels behind probabilities": (
        array(np.c_[PROBS, LABELS]), r"last column seems to be of labels, .*`np.savez\('x.npz', probs=a\[:, :-1\]",
    ),
    "a header in the middle": (text("t.csv", CSV + CSV), "row 61: the column `.*` holds `.*`, as the header does"),
    "no such group": (place(hdf5(**{"run/logits": LOGITS}), "runs"), "no `runs`; did you mean run"),
    "fields beside another array": (
        lambda folder: fields_beside_labels(folder), "an array with fields stands beside others, `data`, `labels`",
    ),
}  # fmt: skip


def pandas_table(folder: Path) -> str:
    """What marks the groups of `DataFrame.to_hdf`."""
    with h5py.File(folder / "t.h5", "w") as file:
        file.create_group("frame").attrs["pandas_type"] = "frame"
    return str(folder / "t.h5")


def fields_beside_labels(folder: Path) -> str:
    np.savez(folder / "t.npz", data=np.zeros(3, dtype=FIELDS), labels=np.zeros(3))
    return str(folder / "t.npz")


@pytest.mark.parametrize("name", REFUSED)
def test_layouts_are_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    write, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_column_of_texts_is_no_table_with_a_title(tmp_path: Path) -> None:
    """Texts of which each has a quoted comma, as labels of their own may have, are one column."""
    (tmp_path / "labels.csv").write_text("label\n" + "".join(f'"{text},"\n' for text in TEXTS))
    frame = pd.DataFrame({f"{name},": column for name, column in BY_NAME.items()})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert nll_of(f"{tmp_path / 't.csv'}:{tmp_path / 'labels.csv'}") == pytest.approx(NLL, abs=2e-6)


def test_a_predicted_label_in_an_object_is_no_label(tmp_path: Path) -> None:
    """Beside the scores, or in an object that is called so."""
    scores = [{"probs": row} for row in PROBS.tolist()]
    for make in (
        lambda i: {"sample": {**scores[i], "label": "neg"}},
        lambda i: {"sample": scores[i], "prediction": {"label": "neg"}},
    ):
        assert (read(records(make)(tmp_path)).target == -1).all()  # type: ignore[union-attr]


def test_calibrated_scores_of_an_object_are_read_again(tmp_path: Path) -> None:
    file, cal = records(nested)(tmp_path), str(tmp_path / "cal.json")
    assert main(["calibrate", "--val", file, "--calibrator", "VectorScaling", "-o", cal]) == 0
    right = VectorScaling().fit(np.log(PROBS), LABELS).predict_proba(np.log(PROBS))
    for suffix in (".jsonl", ".csv", ".npz"):
        out = str(tmp_path / f"out{suffix}")
        assert main(["calibrate", "--apply", cal, "--input", file, "-o", out]) == 0
        calibrated = read(out)
        np.testing.assert_allclose(np.exp(calibrated.logits), right, atol=1e-5)  # type: ignore[union-attr]
        assert (calibrated.target == LABELS).all()  # type: ignore[union-attr]


def test_what_libsvm_predicts_is_no_label(tmp_path: Path) -> None:
    file = libsvm(tmp_path)
    assert (read(file).target == -1).all()  # type: ignore[union-attr]
    right = float(-np.log(PROBS.max(axis=1)).mean())
    assert nll_of(file, keys=("target=labels",)) == pytest.approx(right, abs=2e-6)


def test_confidences_up_to_100_are_percent(tmp_path: Path) -> None:
    hits = PROBS.argmax(axis=1) == LABELS
    pairs = read(table(confidence=np.round(100 * PROBS.max(axis=1)), correct=hits)(tmp_path))
    assert isinstance(pairs, ConfidencePairs)
    np.testing.assert_allclose(pairs.confidence, np.round(PROBS.max(axis=1), 2))

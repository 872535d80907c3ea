"""Files as strangers write them: other names, encodings, separators, kinds of numbers; what is guessed is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.cli import main
from calibench.files.text_encoding import guess_encoding
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun, Predictions

from ..evaluation.examples import predictions

MADE = predictions(40, 3)
PROBS = np.exp(MADE.logits) / np.exp(MADE.logits).sum(1, keepdims=True)
NAMES = ["ant", "bee", "cät"]


def same(read: Predictions, tolerance: float = 1e-5) -> None:
    """What was read are the made logits, up to a constant a row."""
    found = np.exp(read.logits) / np.exp(read.logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found, PROBS, atol=tolerance)
    assert (read.target == MADE.target).all()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("logits", "label_ids"), ""),
        (
            ("predictions", "label_ids"),
            '`predictions` is taken for logits (`keys="logits=predictions"` says so)',
        ),
        (("arr_0", "arr_1"), "`arr_0` is taken for logits and `arr_1` is taken for target"),
        (("y_score", "y_true"), "`y_score` is taken for logits"),
    ],
)
def test_logits_under_other_names(
    names: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", **dict(zip(names, (MADE.logits, MADE.target), strict=True)))
    same(Reader()(f"{tmp_path}/x.npz"))
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["y_prob", "y_pred", "predictions", "arr_0"])
def test_probabilities_under_other_names(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{name: PROBS, "y_true": MADE.target})
    same(Reader()(f"{tmp_path}/x.npz"))


def test_the_probability_of_the_second_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y_prob=PROBS[:, 0], y_true=MADE.target == 0)
    read = Reader()(f"{tmp_path}/x.npz")
    assert read.logits.shape == (40, 2)
    np.testing.assert_allclose(np.exp(read.logits[:, 1]), PROBS[:, 0], rtol=1e-5)
    assert (read.target == (MADE.target == 0)).all()


def test_keys_say_what_arrays_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", mine=PROBS, truth=MADE.target)
    same(Reader(keys=("probs=mine", "target=truth"))(f"{tmp_path}/x.npz"))
    with pytest.raises(CorruptRun, match="there is no `min`; did you mean mine"):
        Reader(keys=("probs=min",))(f"{tmp_path}/x.npz")
    command = ["doctor", f"{tmp_path}/x.npz", "--calibrators", "TemperatureScaling", "--jobs", "1"]
    assert main([*command, "--keys", "probs=mine", "target=truth"]) == 0
    assert "numbers: 40 examples, 3 classes" in capsys.readouterr().out
    assert main([*command, "--keys", "mine"]) == 2
    assert "`--keys` takes ROLE=NAME" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {
        "logits": torch.from_numpy(MADE.logits).to(dtype),
        "labels": torch.from_numpy(MADE.target),
    }
    torch.save(tensors, tmp_path / "x.pt")
    same(Reader()(f"{tmp_path}/x.pt"), 0.02)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_encodings_and_separators(
    encoding: str, separator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(PROBS, columns=NAMES).assign(label=[NAMES[k] for k in MADE.target])
    text = frame.to_csv(index=False, sep=separator)
    for name, content in {
        "x.csv": text.encode(encoding),
        "x.csv.gz": gzip.compress(text.encode(encoding)),
    }.items():
        (tmp_path / name).write_bytes(content)
        read = Reader()(f"{tmp_path}/{name}")
        same(read)
        assert read.metadata["class_names"] == NAMES
        said = capsys.readouterr().err
        assert (": read " in said) == (separator != "," or not encoding.startswith("utf-8"))
    assert guess_encoding(text.encode(encoding)) == ("utf-16" if encoding == "utf-16" else encoding)


def test_decimal_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(PROBS, columns=NAMES).assign(label=MADE.target)
    frame.to_csv(tmp_path / "x.csv", index=False, sep=";", decimal=",")
    same(Reader()(f"{tmp_path}/x.csv"))
    assert "with semicolons between cells and decimal commas" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_with_lists(kind: str, tmp_path: Path) -> None:
    rows = [{"probs": p.tolist(), "label": int(y)} for p, y in zip(PROBS, MADE.target, strict=True)]
    path = tmp_path / f"x.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pd.DataFrame(rows).to_parquet(path)
    same(Reader()(str(path)))
    ragged = [*rows[:4], {"probs": [1.0], "label": 0}]
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ragged))
        with pytest.raises(CorruptRun, match="row 5: `probs` has 1 numbers, the first row 3"):
            Reader()(str(path))
        path.write_text('{"probs": [0.5, 0.5]}\n{"probs": [0.5,\n')
        with pytest.raises(CorruptRun, match="row 2: it is not JSON"):
            Reader()(str(path))


def test_labels_that_are_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.array(NAMES)[MADE.target]
    np.savez(tmp_path / "named.npz", probs=PROBS, labels=labels, class_names=NAMES)
    same(Reader()(f"{tmp_path}/named.npz"))
    np.savez(tmp_path / "x.npz", probs=PROBS, labels=labels)
    capsys.readouterr()
    same(Reader()(f"{tmp_path}/x.npz"))
    assert "in their sorted order, ant, bee, cät" in capsys.readouterr().err


def test_pickles_are_refused_with_the_safe_way(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a pickle, which can run code .*np\.savez"):
        Reader()(f"{tmp_path}/x.pkl")
    both = np.empty(2, dtype=object)
    both[:] = [PROBS, MADE.target]
    np.save(tmp_path / "x.npy", both, allow_pickle=True)
    with pytest.raises(
        CorruptRun, match=r"it holds Python objects, which are not read: write `np\.savez"
    ):
        Reader()(f"{tmp_path}/x.npy")

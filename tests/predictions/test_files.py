"""Files of other frameworks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun

from ..evaluation.examples import predictions

MADE = predictions(20, 3)
PROBS = np.exp(MADE.logits) / np.exp(MADE.logits).sum(1, keepdims=True)


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def write_csv(path: Path, table: np.ndarray, header: str = "cat,dog,owl,label") -> str:
    lines = [",".join(f"{value:.8f}" for value in row[:-1]) + f",{int(row[-1])}" for row in table]
    path.write_text("\n".join([header, *lines]) + "\n")
    return str(path)


def test_npz_of_logits_and_of_probabilities(tmp_path: Path) -> None:
    MADE.save(tmp_path / "logits.npz")
    read = Reader()(str(tmp_path / "logits.npz"))
    assert (read.logits == MADE.logits).all()
    assert read.kind == "test"
    np.savez(tmp_path / "probs.npz", probs=PROBS, target=MADE.target)
    np.testing.assert_allclose(
        softmax(Reader()(str(tmp_path / "probs.npz")).logits), PROBS, rtol=1e-5
    )


def test_csv_holds_probabilities_unless_said_otherwise(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", np.c_[PROBS, MADE.target])
    read = Reader()(path)
    np.testing.assert_allclose(softmax(read.logits), PROBS, atol=1e-7)
    assert (read.target == MADE.target).all()
    assert read.metadata["class_names"] == ["cat", "dog", "owl"]
    other = write_csv(tmp_path / "b.csv", np.c_[MADE.logits, MADE.target])
    np.testing.assert_allclose(Reader(scores="logits")(other).logits, MADE.logits, atol=1e-6)
    with pytest.raises(CorruptRun, match="numbers >= 0"):  # never guessed
        Reader()(other)
    moved = write_csv(tmp_path / "c.csv", np.c_[PROBS, MADE.target], header="cat,dog,owl,LABEL")
    assert (Reader()(moved).target == MADE.target).all()


def test_npy_pairs(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", MADE.logits)
    np.save(tmp_path / "p.npy", PROBS)
    np.save(tmp_path / "y.npy", MADE.target)
    labels = tmp_path / "y.npy"
    read = Reader()(f"{tmp_path / 'z.npy'}:{labels}")
    assert (read.logits == MADE.logits).all()
    assert (read.target == MADE.target).all()
    assert (Reader()(str(tmp_path / "z.npy")).target == -1).all()
    probs = Reader(scores="probs")(f"{tmp_path / 'p.npy'}:{labels}")
    np.testing.assert_allclose(softmax(probs.logits), PROBS, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])  # 1e-6 is coarse in float16, 1e-12 is 0
def test_an_exact_zero_stays_unless_it_is_clipped(dtype: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", probs=np.array([[1.0, 0.0]], dtype), target=np.array([0]))
    assert Reader()(str(tmp_path / "p.npz")).logits.tolist() == [[0, -np.inf]]
    clipped = Reader(clip=1e-12)(str(tmp_path / "p.npz"))
    assert clipped.logits[0, 1] == pytest.approx(np.log(1e-12))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.text",
            "",
            r"a file \.npz, \.npy, \.pt, \.pth, \.safetensors, \.h5, \.hdf5, \.csv, .* or \.parquet",
        ),
        ("a.csv", "x,label\nb,c\n", "a.csv: "),
        ("a.csv", "x,y,label\n0.5,0.3,0\n", r"must sum to 1, 1 of 1 do not: row 0 \(0\.8\)"),
        ("a.csv", "x,y,label\n0.5,0.5,0.5\n", "class indices"),
        ("a.csv", "x,y,y,z,label\n0.5,0.2,0.2,0.1,y\n", "more than one class is called `y`"),
        ("a.csv", "x, x ,label\n0.5,0.5,0\n", "more than one class is called `x`"),
        ("a.csv", "x,x,label:x\n0.5,0.5,0\n", "more than one class is called `x`"),
        ("a.csv", "label,y,target\n0,0.5,0\n", "more than one column"),
        (
            "a.csv",
            "x,y,label\n0.5,0.5,z\n",
            r"got 'z', none of the columns x, y, in row 0 \(1 of 1\): leave these rows out",
        ),
        ("a.csv", "x,y,label\n0.5,0.5,1\n0.5,0.5,2\n", "indices start at 0, so subtract 1"),
        (
            "a.csv",
            "cat,dog,labelling\n0.5,0.5,0\n0.5,0.5,1\n",
            '`labelling` looks like the labels: rename it, or say `keys="target=labelling"`',
        ),
        ("a.csv", "x,y,label\n0.5,0.5,0\n0.4,O.6,1\n", "row 2: the column `y` holds `O.6`"),
        ("a.npz", "no archive", "a.npz"),
        ("a.npy", "no array", "a.npy"),
    ],
)
def test_what_is_no_such_file_is_named(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        Reader()(str(tmp_path / name))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        Reader()("nowhere.csv")


@pytest.mark.parametrize("name", ["target", "labels", "y", "Label"])
@pytest.mark.parametrize("scores", ["logits", "probs", "Probabilities"])
def test_arrays_under_the_names_that_people_give_them(
    tmp_path: Path, scores: str, name: str
) -> None:
    values = MADE.logits if scores == "logits" else PROBS
    np.savez(tmp_path / "a.npz", **{scores: values, name: MADE.target[:, None].astype(float)})
    torch.save({scores: torch.tensor(values), name: torch.tensor(MADE.target)}, tmp_path / "a.pt")
    for file in ("a.npz", "a.pt"):
        read = Reader()(str(tmp_path / file))
        np.testing.assert_allclose(softmax(read.logits), PROBS, rtol=1e-5)
        assert (read.target == MADE.target).all()


def test_pairs_of_tensors(tmp_path: Path) -> None:
    logits, target = torch.tensor(MADE.logits), torch.tensor(MADE.target)
    torch.save((logits, target), tmp_path / "both.pt")
    torch.save(logits, tmp_path / "z.pt")
    torch.save(target, tmp_path / "y.pt")
    for text in ("both.pt", f"z.pt:{tmp_path / 'y.pt'}"):
        read = Reader()(str(tmp_path / text))
        assert (read.logits == MADE.logits).all()
        assert (read.target == MADE.target).all()
    assert (Reader()(str(tmp_path / "z.pt")).target == -1).all()


@pytest.mark.parametrize(
    ("header", "scores"),
    [("logit_0,logit_1,logit_2", "logits"), ("prob_2,prob_0,prob_1", "probs"), ("2,0,1", "probs")],
)
def test_columns_are_of_the_classes_that_they_name(
    tmp_path: Path, header: str, scores: str
) -> None:
    rows = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]] if scores == "probs" else [[2, 0, 1], [-1, 3, 0]]
    order = [int(name.rpartition("_")[2]) for name in header.split(",")]
    lines = [",".join(str(row[column]) for column in order) for row in rows]
    text = f"{header},label\n{lines[0]},0\n{lines[1]},1\n"
    (tmp_path / "p.csv").write_text(text)
    found = calibench.load(tmp_path / "p.csv")
    expected = rows if scores == "logits" else np.log(rows)
    np.testing.assert_allclose(found.logits, expected, rtol=1e-6)
    assert found.target.tolist() == [0, 1]


def test_tables_with_names_as_labels_and_a_column_of_row_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(PROBS, columns=["cat", "dog", "owl"])
    frame["label"] = frame.columns[MADE.target]
    frame.to_csv(tmp_path / "a.csv")  # with row numbers, pandas' default
    frame.to_parquet(tmp_path / "a.parquet")
    for file in ("a.csv", "a.parquet"):
        read = Reader()(str(tmp_path / file))
        assert (read.target == MADE.target).all()
        assert read.metadata["class_names"] == ["cat", "dog", "owl"]
        np.testing.assert_allclose(softmax(read.logits), PROBS, rtol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": MADE.logits}, "`logits` or `probs` .* are expected, and it holds `a`"),
        ({"logits": np.array([[np.inf, 0.0]])}, "got inf in row 0"),
        ({"logits": np.array([[np.nan, 0.0]])}, "must not contain NaN"),
        ({"logits": MADE.logits, "target": np.eye(3)[MADE.target]}, "every row .* has one 1: say"),
        (
            {"logits": MADE.logits, "target": MADE.target, "y": MADE.target},
            "more than one `target`",
        ),
        ({"logits": MADE.logits, "target": MADE.target + 0.5}, "class indices 0, 1, ..., got"),
        ({"logits": MADE.logits[0]}, r"must be numbers \(N, K\), got float32 of shape \(3,\)"),
        ({"logits": np.array([["a", "b"]])}, "must be numbers"),
    ],
)
def test_arrays_that_are_something_else(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(CorruptRun, match=message):
        Reader()(str(tmp_path / "a.npz"))


def test_class_names_of_an_array_file_are_each_one_class(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    names = np.array(["a", "b", "b", "c"])
    np.savez(path, logits=5 * np.eye(4), target=np.array(["a", "b", "b", "c"]), class_names=names)
    with pytest.raises(CorruptRun, match=r"t\.npz: more than one class is called `b`"):
        Reader()(str(path))


def test_labels_that_are_bytes_are_names_like_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, logits=5 * np.eye(3), target=np.array([b"b", b"a", b"c"]))
    read = Reader()(str(path))
    assert re.search(r"t\.npz: labels are names.* order, a, b, c ", capsys.readouterr().err)
    assert (read.target.tolist(), read.metadata["class_names"]) == ([1, 0, 2], ["a", "b", "c"])


def test_logits_that_are_probabilities_are_refused(tmp_path: Path) -> None:
    """Never read as logits below a warning: the line names both readings."""
    np.savez(tmp_path / "a.npz", logits=PROBS, target=MADE.target)
    with pytest.raises(CorruptRun, match=r"a\.npz: `logits` are called logits and lie in \[0, 1\]"):
        Reader()(str(tmp_path / "a.npz"))
    read = Reader(scores="probs")(str(tmp_path / "a.npz"))
    np.testing.assert_allclose(softmax(read.logits), PROBS, rtol=1e-5)


def test_a_pickle_runs_no_code(tmp_path: Path) -> None:
    torch.save({"logits": torch.zeros(2, 2), "x": Path}, tmp_path / "a.pt")
    with pytest.raises(CorruptRun):
        Reader()(str(tmp_path / "a.pt"))

"""Orders that a file does not say: of the classes, of scores within rows, of rows beside labels; read right or refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.stats
import torch

import calibench
from calibench.predictions.files import Arrays
from calibench.predictions.label_fit import rank_columns
from tests.draws import draw_calibrated
from tests.public_reports.small_files import (
    Writer,
    archive,
    beside,
    nll_of,
    read,
    records,
    table,
    torch_file,
    write_table,
)

N, NAMES = 240, ["neg", "neu", "pos"]
RANDOM = np.random.default_rng(0)
LOGITS, PROBS, LABELS = draw_calibrated(RANDOM, N)
TEXTS = np.array(NAMES)[LABELS]
POSITIVE = RANDOM.random(N)
HITS = (RANDOM.random(N) < POSITIVE).astype(int)
NLL = float(-np.log(PROBS[np.arange(N), LABELS]).mean())
BINARY_NLL = float(-np.log(np.where(HITS, POSITIVE, 1 - POSITIVE)).mean())
BY_NAME = dict(zip(NAMES, PROBS.T, strict=True))
ORDER = [1, 2, 0]
DISTANCES = np.exp(-LOGITS)
TOP = np.argsort(-PROBS, axis=1)
SORTED = np.take_along_axis(PROBS, TOP, axis=1)
IMAGES = np.array([f"image_{i}.png" for i in range(N)])
SHUFFLED = np.random.default_rng(1).permutation(N)
ODDS = PROBS / (1 - PROBS)


REFUSED: dict[str, tuple[Writer, str]] = {
    "columns in another order than labels": (
        archive(logits=LOGITS[:, ORDER], labels=LABELS), r"in another order .* `classes=\['1', '2', '0'\]` for that order",
    ),
    "two of three columns swapped": (
        archive(probs=PROBS[:, [1, 0, 2]], labels=LABELS), r"`classes=\['1', '0', '2'\]` for that order",
    ),
    "columns in another order than names": (
        archive(probs=PROBS[:, ORDER], labels=TEXTS), r"`classes=\['neu', 'pos', 'neg'\]` for that order",
    ),
    "numbers of classes in another order": (
        table(**BY_NAME, label=np.array([2, 0, 1])[LABELS]), r"`classes=\['neu', 'pos', 'neg'\]` for that order",
    ),
    "distances": (archive(scores=DISTANCES, labels=LABELS), r"the least of a row of `scores` is that of its label in"),
    "energies": (archive(logits=-LOGITS, labels=LABELS), r'give -x if they are .* or say `scores="logits"`'),
    "probabilities of the first class": (
        archive(probs=1 - POSITIVE, labels=HITS), r"`classes=\['1', '0'\]` if they are of 0",
    ),
    "margins of the first class": (
        archive(decision_function=np.log(1 / POSITIVE - 1), labels=HITS), r"say `classes=\['0', '1'\]` if they are right",
    ),
    "odds": (archive(scores=ODDS, labels=LABELS), r"odds, x / \(1 \+ x\) of each row sums to 1: divide"),
    "log-odds": (archive(logits=np.log(ODDS), labels=LABELS), r"log-odds of each class, 1 / \(1 \+ exp\(-x\)\)"),
    "top classes beside their scores": (archive(probs=SORTED, indices=TOP, labels=LABELS), "`indices` may be the classes"),
    "top classes in torch": (
        torch_file({"values": torch.from_numpy(SORTED), "topk": torch.from_numpy(TOP), "labels": torch.from_numpy(LABELS)}),
        "`topk` may be the classes",
    ),
    "columns of top classes": (
        table(**{f"index_{k}": TOP[:, k] for k in range(3)}, **{f"prob_{k}": SORTED[:, k] for k in range(3)}, label=LABELS),
        r"the columns `index_0`, ... may be the classes",
    ),
    "columns of names of top classes": (
        table(
            **{f"top{k}": np.array(NAMES)[TOP[:, k]] for k in range(3)}, **{f"prob_{k}": SORTED[:, k] for k in range(3)},
            label=TEXTS,
        ),
        r"the columns `top0`, ... may be the classes",
    ),
    "sorted scores of three classes": (archive(probs=SORTED, labels=LABELS), "sorted scores of the top 3 classes"),
    "sorted scores of two classes": (
        archive(probs=np.sort(np.c_[POSITIVE, 1 - POSITIVE], axis=1)[:, ::-1], labels=HITS), "sorted scores of the top 2",
    ),
    "probabilities that are not those of the logits": (
        archive(logits=3 * LOGITS, probs=PROBS, labels=LABELS), r'say `keys="logits=logits"` or `keys="probs=probs"`',
    ),
    "views of each image": (
        table(image=np.repeat(IMAGES[:80], 3), view=np.tile(range(3), 80), label=np.repeat(TEXTS[:80], 3), **BY_NAME),
        r'the rows of one `image` are its scores by each `view` .*, or separate examples \(say `keys="probs=neg,neu,pos"`',
    ),
    "images three times": (
        table(image=np.repeat(IMAGES[:80], 3), label=np.repeat(TEXTS[:80], 3), **BY_NAME),
        r"the rows of one `image` are 3 predictions \(keep one, or average them\)",
    ),
    "ids three times in an archive": (
        archive(probs=PROBS, ids=np.repeat(IMAGES[:80], 3), labels=np.repeat(LABELS[:80], 3)), r'say `keys="probs=probs"`',
    ),
    "checkpoints of each image as lists": (
        records(
            lambda i: {"probs": PROBS[i].tolist(), "label": int(LABELS[i % 30]), "image": i % 30, "checkpoint": i // 30}
        ),
        "its scores by each `checkpoint`",
    ),
    "views of each image beside a label of each": (
        beside(
            table(id=np.repeat(IMAGES[:80], 3), **BY_NAME), table(id=IMAGES[:80][::-1], label=TEXTS[:80]),
        ),
        "each `id` of the scores stands in 3 rows, image_0.png the first: keep one or average them",
    ),
    "rows of two sets": (
        table(split=np.tile(["val", "test"], N // 2), label=TEXTS, **BY_NAME), r"`split` says that rows are of test and val",
    ),
    "rows of two sets in an archive": (
        archive(probs=PROBS, labels=LABELS, part=np.tile(["train", "test"], N // 2)), "`part` says that rows are of",
    ),
    "one of several one-hot labels": (
        beside(
            table(id=IMAGES, **BY_NAME), table(id=IMAGES, **{name: (name == TEXTS).astype(int) for name in NAMES}),
        ),
        "leave `keys=\"target=neg\"` out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_hidden_orders_are_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    write, message = REFUSED[name]
    options = {"keys": ("target=neg",)} if "one-hot" in name else {}
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path), **options)
    assert "\n" not in str(caught.value)


WAYS_OUT: dict[str, tuple[Writer, dict[str, Any], float]] = {
    "the other order": (archive(logits=LOGITS[:, ORDER], labels=LABELS), {"keys": ("classes=1,2,0",)}, NLL),
    "the other order of names": (archive(probs=PROBS[:, ORDER], labels=TEXTS), {"keys": ("classes=neu,pos,neg",)}, NLL),
    "the other order of numbers": (
        table(**BY_NAME, label=np.array([2, 0, 1])[LABELS]), {"keys": ("classes=neu,pos,neg",)}, NLL,
    ),
    "the first class": (archive(probs=1 - POSITIVE, labels=HITS), {"keys": ("classes=1,0",)}, BINARY_NLL),
    "the second class all the same": (
        archive(probs=1 - POSITIVE, labels=1 - HITS), {"keys": ("classes=0,1",)}, BINARY_NLL,
    ),
    "the probabilities beside logits": (
        archive(logits=3 * LOGITS, probs=PROBS, labels=LABELS), {"keys": ("probs=probs",)}, NLL,
    ),
    "probabilities beside their logits": (archive(logits=LOGITS, probs=PROBS, labels=LABELS), {}, NLL),
    "all rows of both sets": (
        table(split=np.tile(["val", "test"], N // 2), label=TEXTS, **BY_NAME), {"keys": ("probs=neg,neu,pos",)}, NLL,
    ),
    "visits of patients": (
        table(patient=np.arange(N) // 2, visit=np.arange(N) % 2, label=TEXTS, **BY_NAME), {}, NLL,
    ),
    "labels of two columns of ids": (
        beside(
            table(patient=np.arange(N) // 3, scan=np.arange(N) % 3, **BY_NAME),
            table(patient=SHUFFLED // 3, scan=SHUFFLED % 3, label=TEXTS[SHUFFLED]),
        ),
        {}, NLL,
    ),
    "names of files with and without folders": (
        beside(
            table(file=[f"/data/{name}" for name in IMAGES], **BY_NAME),
            table(image=[name.removesuffix(".png") for name in IMAGES[SHUFFLED]], label=TEXTS[SHUFFLED]),
        ),
        {}, NLL,
    ),
    "one-hot labels in a file of their own": (
        beside(
            table(id=IMAGES, **BY_NAME),
            table(id=IMAGES[SHUFFLED], **{name: (name == TEXTS)[SHUFFLED].astype(int) for name in NAMES}, Usage="Private"),
        ),
        {}, NLL,
    ),
    "vectors of Spark": (
        records(lambda i: {
            "label": float(LABELS[i % N]), "probability": {"type": 1, "values": PROBS[i].tolist()} if i % 2 else
            {"type": 0, "size": 3, "indices": [0, 1, 2], "values": PROBS[i].tolist()},
        }),
        {}, float(-np.log(PROBS[np.arange(60), LABELS[:60]]).mean()),
    ),
    "sparse vectors as text": (
        table(probability=[f"(3,[0,1,2],{row.tolist()})".replace(" ", "") for row in PROBS], label=LABELS), {}, NLL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS_OUT)
def test_what_refusals_of_orders_say_works(name: str, tmp_path: Path) -> None:
    write, options, right = WAYS_OUT[name]
    assert nll_of(write(tmp_path), **options) == pytest.approx(right, abs=2e-6)


def test_columns_of_classes_are_made_of_top_classes_as_the_refusal_says(tmp_path: Path) -> None:
    columns = np.zeros((N, 3))
    np.put_along_axis(columns, TOP, SORTED, 1)
    assert nll_of(archive(probs=columns, labels=LABELS)(tmp_path)) == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_poor_models_are_no_other_order(k: int) -> None:
    """Models that prefer some classes and know little are all read."""
    for seed in range(100):
        random = np.random.default_rng(1000 * k + seed)
        n, strength = random.integers(40, 400), 0.3 + random.random()
        target = random.choice(k, size=n, p=random.dirichlet(np.full(k, 2)))
        logits = random.choice([0.5, 1, 2]) * random.normal(size=(n, k)) + random.normal(size=k)
        logits[np.arange(n), target] += strength
        assert (read(Arrays(logits, target, "x")).target == target).all()  # type: ignore[union-attr]


def test_labels_that_fit_are_read_without_scipy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its modules took a quarter of the time of `evaluate` of a file."""
    for module in ("scipy.stats", "scipy.optimize"):
        monkeypatch.setitem(sys.modules, module, None)
    assert nll_of(archive(logits=LOGITS, labels=LABELS)(tmp_path)) == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_ranks_within_columns_are_those_of_scipy(n: int) -> None:
    random = np.random.default_rng(n)
    values = np.concatenate([random.normal(size=(n, 3)), random.integers(3, size=(n, 3))], axis=1)
    values[1:2, 1] = np.nan
    expected = scipy.stats.rankdata(values, axis=0)
    np.testing.assert_array_equal(rank_columns(values), expected)


def test_roles_of_columns_are_taken_in_python() -> None:
    frame = pd.DataFrame({"split": np.tile(["val", "test"], N // 2), "label": TEXTS, **BY_NAME})
    with pytest.raises(ValueError, match="`split` says"):
        calibench.evaluate(frame, bootstrap=0)
    report = calibench.evaluate(frame, bootstrap=0, keys=["probs=neg,neu,pos"])
    assert report.value("NLL") == pytest.approx(NLL, abs=1e-6)


def test_labels_that_share_most_names_of_rows_are_refused_in_another_order() -> None:
    scores = pd.DataFrame(BY_NAME, index=IMAGES)
    labels = pd.Series(TEXTS, index=["other", *IMAGES[1:]])
    assert calibench.evaluate(scores, labels, bootstrap=0).value("NLL") == pytest.approx(NLL)
    with pytest.raises(ValueError, match=r"share 239 of 240 names of rows"):
        calibench.evaluate(scores, labels.iloc[SHUFFLED])
    numbers = pd.Series(TEXTS, index=SHUFFLED)  # as train_test_split leaves them
    assert calibench.evaluate(pd.DataFrame(BY_NAME), TEXTS).value("NLL") == pytest.approx(NLL)
    with pytest.raises(ValueError, match="the same index in different orders"):
        calibench.evaluate(pd.DataFrame(BY_NAME), numbers)


def test_missing_labels_of_nullable_columns_are_left_out() -> None:
    expected = float(-np.log(PROBS[np.arange(1, N), LABELS[1:]]).mean())
    for labels in (pd.Series(TEXTS, dtype="string"), pd.Series(LABELS, dtype="Int64").array):
        labels = labels.copy()
        labels[0] = pd.NA
        with pytest.warns(UserWarning, match="1 of 240 examples are left out"):
            report = calibench.evaluate(pd.DataFrame(BY_NAME), labels, bootstrap=0)
        assert report.value("NLL") == pytest.approx(expected, abs=1e-6)


def test_rows_of_a_list_are_a_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({**BY_NAME, "label": TEXTS}).to_dict("records")
    assert calibench.evaluate(rows, bootstrap=0).value("NLL") == pytest.approx(NLL, abs=1e-6)
    file = write_table(tmp_path / "t.csv", **BY_NAME, label=TEXTS)
    assert calibench.evaluate(file, bootstrap=0).value("NLL") == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize("axes", ["MNK", "NMK", "NKM", "MKN", "KNM", "KMN"])
def test_what_makes_rows_of_members_works(axes: str, tmp_path: Path) -> None:
    logits = LOGITS + np.random.default_rng(5).normal(size=(4, N, 3))
    members = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    right = float(-np.log(members.mean(0)[np.arange(N), LABELS]).mean())
    probs = members.transpose(["MNK".index(axis) for axis in axes])
    with pytest.raises(ValueError, match="average their probabilities") as caught:
        read(archive(probs=probs, labels=LABELS)(tmp_path))
    words = str(caught.value).split("`")
    averaged = eval(words[-2], {"probs": probs})  # as the user types it
    file = archive(probs=averaged, labels=LABELS)(tmp_path)
    assert nll_of(file) == pytest.approx(right, abs=1e-6)


def test_arrays_of_matlab_are_turned(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"have a row for each class.*`probs\.T`"):
        read(archive(probs=PROBS.T, labels=LABELS[None])(tmp_path))
    file = archive(probs=PROBS, labels=LABELS[None])(tmp_path)
    assert nll_of(file) == pytest.approx(NLL, abs=1e-6)
    one_hot = archive(probs=PROBS, labels=np.eye(3, dtype=bool)[LABELS])(tmp_path)
    assert nll_of(one_hot, task="multiclass") == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize(("version", "reader"), [(5, "scipy.io.loadmat"), (7, "h5py.File")])
def test_either_file_of_matlab_is_converted_by_what_reads_it(
    version: int, reader: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.mat"
    if version == 5:
        scipy.io.savemat(file, {"probs": PROBS, "labels": LABELS})
    else:
        with h5py.File(file, "w", userblock_size=512) as arrays:
            arrays["probs"], arrays["labels"] = PROBS.T, LABELS[None]
    with pytest.raises(ValueError, match=reader) as caught:
        read(str(file))
    code = str(caught.value).split("`")[3].replace("x.npz", str(tmp_path / "x.npz"))
    exec(code, {"np": np, "scipy": scipy, "h5py": h5py})
    assert nll_of(str(tmp_path / "x.npz")) == pytest.approx(NLL, abs=1e-6)


def test_names_of_numbered_columns_are_said_as_the_refusal_has_them(tmp_path: Path) -> None:
    file = table(**{f"prob_{k}": PROBS[:, k] for k in range(3)}, label=TEXTS)(tmp_path)
    with pytest.raises(ValueError, match=r"columns are numbered, 0, 1, 2: say `classes=\['neg',"):
        read(file)
    assert nll_of(file, keys=("classes=neg,neu,pos",)) == pytest.approx(NLL, abs=1e-6)


def test_names_of_classes_in_each_record_are_its_order(tmp_path: Path) -> None:
    def record(i: int) -> dict[str, Any]:
        return {
            "probs": PROBS[i, ORDER].tolist(),
            "class_names": [NAMES[k] for k in ORDER],
            "label": TEXTS[i],
        }

    right = float(-np.log(PROBS[np.arange(60), LABELS[:60]]).mean())
    assert nll_of(records(record)(tmp_path)) == pytest.approx(right, abs=1e-6)


def test_probabilities_just_below_0_say_how_they_are_clipped(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"below 0 by no more than 1e-09, .*`probs\.clip\(0\)`"):
        read(archive(probs=np.where(PROBS < 1e-3, -1e-9, PROBS), labels=LABELS)(tmp_path))

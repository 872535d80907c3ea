"""Training data that may mean something else: labels that are none, parts in a column, copies, classes in classes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from calibench.data import (
    DataError,
    ImageFolderDataModule,
    ImageLabelsDataModule,
    TableDataModule,
    TextFileDataModule,
)

N = 40
VALUES = np.random.default_rng(0).normal(size=N)
LABELS = np.where(VALUES > 0, "yes", "no")
NINTH = np.arange(N) % 9 == 0


def table(folder: Path, test: bool | str = False, **columns: Any) -> TableDataModule:
    """A data module of a table with numbers and labels, tested on itself or another one, or split."""
    file = folder / "t.csv"
    pd.DataFrame({"a": VALUES, "label": LABELS, **columns}).to_csv(file, index=False)
    test_file = str(folder / test if isinstance(test, str) else file) if test else None
    data = TableDataModule(train_file=str(file), test_file=test_file)
    data.prepare_data()
    data.setup()
    return data


def texts(folder: Path, **columns: Any) -> TextFileDataModule:
    words = [f"text {i} of {label}" for i, label in enumerate(LABELS)]
    pd.DataFrame({"text": words, "label": LABELS, **columns}).to_csv(folder / "t.csv", index=False)
    return TextFileDataModule(train_file=str(folder / "t.csv"), root=str(folder))


@pytest.mark.parametrize("read", [table, texts])
@pytest.mark.parametrize(
    ("missing", "others"), [("nan", LABELS), ("NaN", LABELS), ("NA", (VALUES > 0).astype(float))]
)
def test_labels_that_are_none_are_refused(
    read: Any, missing: str, others: np.ndarray, tmp_path: Path
) -> None:
    labels = np.where(NINTH, missing, others.astype(str))
    with pytest.raises(DataError, match=rf"label.* is `{missing}` \(rename it if it is a class\)"):
        read(tmp_path, label=labels)


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        (np.where(NINTH, "NA", LABELS), "a class is called NA: are these rows without a label?"),
        (np.where(NINTH, "YES", LABELS), "classes differ by capitals alone: YES, yes"),
        (np.where(NINTH, "yes|no", LABELS), "the class `yes|no` joins others: examples of several labels?"),
    ],
)  # fmt: skip
def test_doubtful_classes_are_named(labels: np.ndarray, line: str, tmp_path: Path) -> None:
    assert line in table(tmp_path, label=labels).caveats


@pytest.mark.parametrize("read", [table, texts])
def test_a_column_of_parts_is_refused(read: Any, tmp_path: Path) -> None:
    split = np.where(NINTH, "test", "train")
    with pytest.raises(DataError, match="`split` says that rows are of test and train: write each"):
        read(tmp_path, split=split)
    read(tmp_path, split=np.full(N, "train"))
    for part in ("train", "test"):  # as the refusal says
        rows = pd.read_csv(tmp_path / "t.csv").assign(split=split)
        rows[rows["split"] == part].to_csv(tmp_path / f"{part}.csv", index=False)
    (tmp_path / "t.csv").unlink()
    module = TableDataModule if read is table else TextFileDataModule
    assert module(train_file=str(tmp_path)).class_names == ["no", "yes"]


def test_rows_of_training_among_test_rows_are_counted(tmp_path: Path) -> None:
    line = "test rows are training rows too (the same inputs and label)"
    with pytest.raises(DataError, match=r"label\): the test part needs other examples"):
        table(tmp_path, test=True)
    other = pd.DataFrame({"a": np.append(VALUES[:10], VALUES[10:] + 9), "label": LABELS})
    other.to_csv(tmp_path / "other.csv", index=False)
    assert any(line in caveat for caveat in table(tmp_path, test="other.csv").caveats)
    assert not any(line in caveat for caveat in table(tmp_path).caveats)
    few = table(tmp_path, test=True, a=np.arange(N) % 3, label=np.where(NINTH, "yes", "no"))
    assert not any(line in caveat for caveat in few.caveats)  # equal by chance


def pictures(folder: Path, *classes: str, seed: int = 0) -> Path:
    """Eight pictures of each class, all different."""
    random = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(8):
            pixels = random.integers(0, 255, (6, 6)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def images(folder: Path) -> ImageFolderDataModule:
    data = ImageFolderDataModule(folder=str(folder), side=6, ood=[])
    data.prepare_data()
    data.setup()
    return data


def test_copies_of_training_images_are_counted(tmp_path: Path) -> None:
    train = pictures(tmp_path / "train", "a", "b")
    assert images(tmp_path).caveats == []
    shutil.copytree(train / "a", tmp_path / "test" / "a")
    pictures(tmp_path / "test", "b", seed=1)
    caveats = images(tmp_path).caveats
    assert any("of 16 test images are training images too" in line for line in caveats)
    shutil.copy(train / "a" / "0.png", train / "b" / "x.png")
    assert any("images have copies in another class" in line for line in images(tmp_path).caveats)


def test_classes_in_classes_are_named(tmp_path: Path) -> None:
    pictures(tmp_path, "animals/cat", "animals/dog", "cars/suv")
    line = "folders in classes count as these (animals: cat, dog; cars: suv)"
    assert any(line in note for note in images(tmp_path).inventory)


def test_a_link_without_a_file_is_one_line(tmp_path: Path) -> None:
    pictures(tmp_path, "a", "b")
    os.symlink(tmp_path / "missing.png", tmp_path / "a" / "link.png")
    with pytest.raises(DataError, match=r"link\.png cannot be read: No such file"):
        images(tmp_path)


def labelled(folder: Path, rows: str) -> ImageLabelsDataModule:
    (folder / "t.csv").write_text("path,cat,dog,split\n" + rows)
    data = ImageLabelsDataModule(file=str(folder / "t.csv"), side=6, split_column="split")
    data.setup()
    return data


def test_images_with_several_labels_are_read_right_or_refused(tmp_path: Path) -> None:
    pictures(tmp_path, "a")
    parts = ["train"] * 4 + ["val"] * 2 + ["test"] * 2
    rows = [f"a/{i}.png,{i % 2},{(i + 1) % 2},{part}\n" for i, part in enumerate(parts)]
    assert labelled(tmp_path, "".join(rows)).caveats == []
    again = "a/0.png,0,1,test\n"
    (line,) = labelled(tmp_path, "".join(rows) + again).caveats
    assert line == "1 of 3 test images are training images too (the same pixels)"
    signs = [
        f"a/{i}.png,{2 * (i % 2) - 1},{1 - 2 * (i % 2)},{part}\n" for i, part in enumerate(parts)
    ]
    with pytest.raises(
        DataError, match="-1 and empty cells are unknown: write 0 for what is absent"
    ):
        labelled(tmp_path, "".join(signs))

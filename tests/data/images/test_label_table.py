"""Own images with several labels, from a CSV table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calibench.data import DataError, ImageLabelsDataModule
from tests.data import fakes

HEADER = "path,cat,dog,patient,split"


def fill(folder: Path, header: str = HEADER, n: int = 30) -> list[str]:
    lines = [header]
    for i in range(n):
        fakes.image(folder / f"{i}.png", (200 * (i % 2), 0, 100), 20)
        split = ("train", "train", "val", "test")[i // 2 % 4]
        lines.append(f"{i}.png,{i % 2},{('1', '0', '', '-1')[i % 4]},{i // 2},{split}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return lines


def images(folder: Path, **options: object) -> ImageLabelsDataModule:
    names = {"labels": ["cat", "dog"], "side": 16}
    data = ImageLabelsDataModule(file=str(folder / "labels.csv"), **(names | options))
    data.setup()
    return data


def test_labels_are_present_absent_or_unknown(tmp_path: Path) -> None:
    fill(tmp_path)
    data = images(tmp_path, split_column="split")
    assert [len(part.target) for part in data.splits] == [16, 8, 6]
    assert data.splits.train.target.tolist()[:4] == [[0, 1], [1, 0], [0, -1], [1, -1]]
    red = data.splits.train.inputs[:, 0].amax((1, 2)) == 200
    assert (red == (data.splits.train.target[:, 0] == 1)).all()
    assert (data.num_classes, data.num_outputs, data.task.names) == (2, 2, ["cat", "dog"])
    assert data.class_counts.tolist() == [[8, 8], [4, 4]]


def test_all_other_columns_are_labels_and_groups_stay_together(tmp_path: Path) -> None:
    fill(tmp_path)
    data = images(tmp_path, labels=None, group_column="patient", split_column="split")
    assert data.task.names == ["cat", "dog"]
    parts = images(tmp_path, group_column="patient").read(1)
    patients = [{int(file.stem) // 2 for file in part.files} for part in parts.values()]
    assert [len(own) for own in patients] == [10, 2, 3]
    assert len(set.union(*patients)) == 15


def test_tables_without_quoting_and_with_other_separators(tmp_path: Path) -> None:
    lines = fill(tmp_path)
    fakes.image(tmp_path / '"0.png', (9, 9, 9), 20)
    bars = [
        line.replace(",", "|").replace("0.png", '"0.png', line.startswith("0")) for line in lines
    ]
    (tmp_path / "labels.csv").write_text("\n".join(bars))
    with pytest.raises(DataError, match=r"a quote opens and never closes.*`quotes=False`"):
        images(tmp_path, split_column="split", separator="|")
    data = images(tmp_path, split_column="split", separator="|", quotes=False)
    assert data.inventory == [
        "train 16 images, 2 labels; validation 8 (column split); test 6 (column split)"
    ]
    assert (data.splits.train.inputs[0] == 9).all()


def test_scans_have_the_white_that_is_named(tmp_path: Path) -> None:
    lines = fill(tmp_path)
    for number in range(30):
        values = np.full((16, 16), 100 * number, np.uint16)
        Image.fromarray(values).save(tmp_path / f"{number}.png")
    data = images(tmp_path, split_column="split", white=4000)
    shown = data.splits.train.inputs[:, 0, 0, 0].tolist()
    rows = [number for number, line in enumerate(lines[1:]) if line.endswith("train")]
    assert shown == [round(100 * number * 255 / 4000) for number in rows]
    assert "16-bit images are scaled from 0 to 4,000 (as `white` says)" in data.caveats
    with pytest.raises(DataError, match="`white` 2,000 is below 2,"):
        images(tmp_path, split_column="split", white=2000)


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ("3.png,1", "3.png,2", {}, r"labels.csv, row 4: label `cat` holds `2`; 1 \(present\)"),
        ("", "", {"labels": ["cat", "dgo"]}, r"has no column `dgo`.*dog"),
        ("5.png", "gone.png", {}, r"row 6: the image .*gone.png is missing"),
        (",3,test", ",2,test", {"group_column": "patient", "split_column": "split"}, r"patient 2 is in val and in test"),
        (",train", ",trian", {"split_column": "split"}, r"row 1: column `split` must be one of train, val, test, got `trian`"),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_place(
    tmp_path: Path, old: str, new: str, options: dict[str, object], message: str
) -> None:
    lines = "\n".join(fill(tmp_path))
    (tmp_path / "labels.csv").write_text(lines.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        images(tmp_path, **options)


def test_a_label_that_is_known_of_no_image_is_named(tmp_path: Path) -> None:
    lines = [line.replace("cat,dog", "dog,cat") for line in fill(tmp_path)]
    rows = [f"{line.split(',')[0]},{line.split(',')[1]},-1,0,train" for line in lines[1:]]
    (tmp_path / "labels.csv").write_text("\n".join([lines[0], *rows]))
    with pytest.raises(DataError, match="the label `cat` is known of no image"):
        images(tmp_path)

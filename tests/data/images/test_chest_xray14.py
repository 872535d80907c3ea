"""ChestX-ray14: the official format, patient-wise splits, ten crops, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import TenCrop

from calibench.cli import main
from calibench.data import ChestXray14DataModule, DataError
from calibench.data.fakes import SQUARE, FakeXrays, finding_corner, write_chest_xrays
from calibench.data.images.augment import ten_crops
from calibench.data.images.chest_xray14 import (
    FINDINGS,
    NO_FINDING,
    XRAY_COLUMNS,
    XRAY_FOLDER,
    read_entries,
)
from calibench.data.splits import hold_out_share_of_groups
from tests.data.fakes import incomplete_chest_xrays

EXAMPLES = {
    "ChestXray14DataModule": (
        write_chest_xrays,
        {"skip_missing": True, "side": 32, "ten_crops": 40},
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FakeXrays]:
    root = tmp_path_factory.mktemp("x-rays")
    return root, incomplete_chest_xrays(root)


def images(root: Path, **options: object) -> ChestXray14DataModule:
    data = ChestXray14DataModule(
        root=str(root), **({"side": 64, "ten_crops": None, "skip_missing": True} | options)
    )
    data.setup()
    return data


def names_of(data: ChestXray14DataModule) -> dict[str, list[str]]:
    return {
        name: [file.name for file in part.files if file.is_file()]
        for name, part in data.read(1).items()
    }


def test_what_is_made_up_lacks_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fake", "chestxray14", str(tmp_path / "fake")]) == 0
    assert f"`--data.root {tmp_path / 'fake'}`" in capsys.readouterr().out
    data = images(tmp_path / "fake", skip_missing=False)
    assert data.caveats == ["ChestX-ray14: made up by `calibench data fake`, no real data"]
    made = {path.name for path in (tmp_path / "fake").rglob("*.png")}
    assert {name for names in names_of(data).values() for name in names} == made


@pytest.mark.parametrize("memory_limit", [8.0, 0.0])
@pytest.mark.parametrize("split", ["official", "chexnet"])
def test_labels_and_pixels_are_the_generators(
    made: tuple[Path, FakeXrays], split: str, memory_limit: float
) -> None:
    root, fake = made
    data = images(root, split=split, memory_limit=memory_limit)
    target = dict(zip(fake.names, fake.target, strict=True))
    loaders = [data.val_dataloader(), data.test_dataloader()[0]]
    for names, part, loader in zip(
        list(names_of(data).values())[1:], data.splits[1:], loaders, strict=True
    ):
        assert part.target.numpy().tolist() == [target[name].tolist() for name in names]
        pixels = torch.cat([batch.inputs for batch in loader])
        assert pixels.shape == (len(names), 3, 64, 64)
        for image, findings in zip(pixels, part.target, strict=True):
            assert [_bright(image, finding) for finding in range(14)] == findings.bool().tolist()
    assert data.class_counts.shape == (14, 2)
    assert int(data.class_counts[:, 1].sum()) == int((data.splits.train.target == 1).sum())
    assert data.num_outputs == 14
    assert data.caveats == [
        f"1 of {len(data.splits.train.target) + 1} images are missing, {fake.names[1]} the first"
    ]


def _bright(image: Tensor, finding: int) -> bool:
    top, left = finding_corner(finding)
    square = image[0, top : top + SQUARE, left : left + SQUARE]
    return bool(square.mean() > image[0, :, 40:].mean() + 1)


def test_no_patient_is_in_two_splits_and_the_seed_chooses(made: tuple[Path, FakeXrays]) -> None:
    root, _ = made
    chosen = []
    for seed in (1, 2):
        names = {
            name: [file.name for file in part.files]
            for name, part in images(root).read(seed).items()
        }
        patients = {name: {one[:8] for one in own} for name, own in names.items()}
        assert not patients["train"] & patients["val"]
        assert not (patients["train"] | patients["val"]) & patients["test"]
        chosen.append(patients["val"])
    assert len(chosen[0]) == round(0.1 * 28)
    assert chosen[0] != chosen[1]


def test_groups_are_held_out_whole() -> None:
    groups = np.random.default_rng(0).integers(50, size=400)
    rest, held = hold_out_share_of_groups(groups, 0.2, 3)
    assert len(set(groups[held])) == 10
    assert not set(groups[held]) & set(groups[rest])
    assert sorted([*rest, *held]) == list(range(400))


@pytest.mark.parametrize(("height", "width"), [(256, 256), (257, 231), (40, 32)])
def test_ten_crops_are_torchvisions(height: int, width: int) -> None:
    side = min(height, width) - 8
    batch = torch.arange(2 * 3 * height * width, dtype=torch.float32).view(2, 3, height, width)
    expected = torch.stack([torch.stack(TenCrop(side)(image)) for image in batch])
    assert torch.equal(ten_crops(batch, side).view(2, 10, 3, side, side), expected)


def test_evaluation_has_ten_rows_for_an_image_and_training_one(
    made: tuple[Path, FakeXrays],
) -> None:
    data = images(made[0], side=48, ten_crops=64, batch_size=4)
    (batch, *_) = data.val_dataloader()
    assert (batch.inputs.shape, batch.target.shape) == ((40, 3, 48, 48), (4, 14))
    (batch, *_) = data.train_dataloader()
    assert (batch.inputs.shape, batch.target.shape) == ((4, 3, 48, 48), (4, 14))


def _changed(root: Path, file: str, old: str, new: str) -> None:
    path = root / XRAY_FOLDER / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "options", "message"),
    [
        ("Data_Entry_2017.csv", "Infiltration", "Infiltrate", {}, r"row \d+: there is no finding `Infiltrate`.*Infiltration"),
        ("Data_Entry_2017.csv", "Finding Labels", "Findings", {}, r"must begin with the columns Image Index,Finding Labels"),
        ("train_val_list.txt", "00000003", "00000099", {}, r"train_val_list.txt, line \d+: the image `00000099_000.png` is not in"),
        ("test_list.txt", "00000030_000.png", "00000003_000.png", {}, r"the patient 3 is in train_val_list.txt and in test_list.txt"),
        ("labels/val_list.txt", "00000025", "00000003", {"split": "chexnet"}, r"the patient 3 is in train and in val"),
        ("labels/val_list.txt", " 0 ", " 2 ", {"split": "chexnet"}, r"val_list.txt, line 1: a name and 14 zeros or ones"),
        ("test_list.txt", "", "", {"skip_missing": False}, r"00000001_001.png is missing, 1 of .*skip_missing=True"),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_place(
    tmp_path: Path, file: str, old: str, new: str, options: dict[str, object], message: str
) -> None:
    incomplete_chest_xrays(tmp_path)
    _changed(tmp_path, file, old, new)
    with pytest.raises(DataError, match=message):
        images(tmp_path, **options)


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    fake = incomplete_chest_xrays(tmp_path)
    (tmp_path / XRAY_FOLDER / "images" / fake.names[0]).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"00000001_000\.png \(.*, line 1\): not a readable image"):
        images(tmp_path)


def test_a_colour_image_is_read_as_grey(made: tuple[Path, FakeXrays]) -> None:
    root, fake = made
    with Image.open(root / XRAY_FOLDER / "images" / fake.names[2]) as image:
        assert image.mode == "RGBA"
    assert images(root).splits.train.inputs.shape[1] == 1


@pytest.mark.parametrize("comma", ["", ","])
def test_the_table_is_read_with_or_without_a_last_comma(tmp_path: Path, comma: str) -> None:
    rows = 1_000
    header = f"{','.join(XRAY_COLUMNS)},OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]{comma}"
    texts = [NO_FINDING, "Mass|Nodule", "Hernia", "Edema|Effusion|Pleural_Thickening"]
    lines = [
        f"{i // 4:08d}_{i % 4:03d}.png,{texts[i % 4]},{i % 4},{i // 4},58,M,PA,2682,2749,0.143,0.143{comma}"
        for i in range(rows)
    ]
    (tmp_path / "Data_Entry_2017_v2020.csv").write_text("\n".join([header, *lines]))
    entries = read_entries(tmp_path)
    assert (entries.names[5], entries.patients[5]) == ("00000001_001.png", 1)
    assert np.flatnonzero(entries.target[1]).tolist() == [
        FINDINGS.index("Mass"),
        FINDINGS.index("Nodule"),
    ]
    assert entries.target.sum() == rows // 4 * 6

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from calibench.data import DataError, ImageFolderDataModule
from tests.data import fakes

COLOURS = {"cat": (200, 0, 0), "dog": (0, 200, 0)}


def fill(folder: Path, n: int = 20, names=("cat", "dog")) -> None:
    for name in names:
        for i in range(n):
            fakes.image(folder / name / f"{i}.png", COLOURS[name], 40)


def images(folder: Path, **options) -> ImageFolderDataModule:
    data = ImageFolderDataModule(folder=str(folder), **options)
    data.prepare_data()
    data.setup()
    return data


def test_a_folder_per_class_is_split_and_stratified(tmp_path: Path) -> None:
    fill(tmp_path)
    data = images(tmp_path)
    assert (data.num_classes, data.class_names) == (2, ["cat", "dog"])
    counts = [torch.bincount(part.target).tolist() for part in data.splits]
    assert counts == [[14, 14], [2, 2], [4, 4]]
    for part in data.splits:
        assert part.inputs.shape[1:] == (3, 32, 32)
        assert torch.equal(part.inputs[:, 1].amax((1, 2)) == 200, part.target == 1)
    assert data.test_names == ["test", "noise"]


def test_given_folders_are_used_as_they_are(tmp_path: Path) -> None:
    for part, n in (("train", 10), ("val", 3), ("test", 4)):
        fill(tmp_path / part, n)
    data = images(tmp_path)
    assert [len(part.target) for part in data.splits] == [20, 6, 8]


def test_a_missing_val_folder_is_split_off(tmp_path: Path) -> None:
    for part, n in (("train", 20), ("test", 4)):
        fill(tmp_path / part, n)
    data = images(tmp_path, val_fraction=0.1)
    assert [len(part.target) for part in data.splits] == [36, 4, 8]


def test_other_shapes_are_resized_and_cropped_in_the_middle(tmp_path: Path) -> None:
    fill(tmp_path)
    wide = Image.new("RGB", (160, 80), (255, 255, 255))
    wide.paste((10, 20, 30), (40, 0, 120, 80))
    wide.save(tmp_path / "cat" / "wide.png")
    data = images(tmp_path, side=16)
    pixels = torch.cat([part.inputs for part in data.splits])
    found = pixels[(pixels[:, :, 8, 8] == torch.tensor([10, 20, 30])).all(1)]
    assert len(found) == 1
    assert (found[0, 0, 2:-2, 2:-2] == 10).all()


def test_new_images_are_noticed(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    before = images(tmp_path)
    fakes.image(tmp_path / "cat" / "another.png", (1, 2, 3), 40)
    after = images(tmp_path)
    assert sum(len(part.target) for part in after.splits) == 21
    assert after.fingerprint != before.fingerprint


def test_images_beyond_memory_stream_to_the_same_batches(tmp_path: Path) -> None:
    for part, n in (("train", 12), ("test", 5)):
        for name in COLOURS:
            for i in range(n):
                pixels = fakes.pixels(1, seed=n * i, side=40)[0]
                path = tmp_path / part / name / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(path)
    resident = images(tmp_path, batch_size=5)
    streamed = images(tmp_path, batch_size=5, memory_limit=1e-6)
    assert streamed.splits.train.inputs.dtype == torch.int64
    pairs = [(resident.train_dataloader(), streamed.train_dataloader())]
    pairs += zip(resident.predict_dataloader(), streamed.predict_dataloader(), strict=True)
    for whole, parts in pairs:
        for a, b in zip(whole, parts, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(a[:3], b[:3], strict=True))


def test_a_streaming_epoch_resumes(tmp_path: Path) -> None:
    fill(tmp_path)
    data = images(tmp_path, batch_size=5, memory_limit=0.0)
    whole = [batch.index.tolist() for batch in data.train_dataloader()]
    begun, resumed = data.train_dataloader(), data.train_dataloader()
    first = iter(begun)
    next(first), next(first)
    resumed.load_state_dict(begun.state_dict())
    assert [batch.index.tolist() for batch in resumed] == whole[2:]
    first.close()


def test_bad_folders_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere is missing: a folder of images per class"):
        images(tmp_path / "nowhere")
    fill(tmp_path, names=("cat",))
    with pytest.raises(DataError, match="holds 1 class folders; at least 2 are expected"):
        images(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match="at least 2 are expected; empty: dog"):
        images(tmp_path)
    (tmp_path / "dog" / "boxes.txt").touch()
    with pytest.raises(DataError, match=r"dog holds no images but 1 \.txt"):
        images(tmp_path)
    (tmp_path / "dog" / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"dog.broken\.jpg: not a readable image"):
        images(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": 0}, "`side` must be a positive integer, got 0"),
        ({"val_fraction": 0.9, "test_fraction": 0.2}, "leave a rest to train on"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, options, message) -> None:
    fill(tmp_path, n=1)
    with pytest.raises(ValueError, match=message):
        ImageFolderDataModule(folder=str(tmp_path), **options)

"""Sets of images and labels by the `datasets` library, from a local folder as from the hub's cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from calibench.data import CIFAR10DataModule, DataError, HubDataModule
from calibench.data.images.hub_files import HubImages, HubName
from tests.data import fakes
from tests.data.wide_images import png, tiff

datasets = pytest.importorskip("datasets")

COMMIT = "0b2714987fa478483af9968de7c934580d0bb9a2"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library's cache lies in the folder of the test, and nothing is asked of the network."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def written(
    folder: Path, sizes: dict[str, int], *, classes: int = 2, image: str = "image", side: int = 20
) -> Path:
    """A parquet file of random images for each split; class k in turn."""
    features = datasets.Features(
        {
            image: datasets.Image(),
            "label": datasets.ClassLabel(names=[f"c{k}" for k in range(classes)]),
        }
    )
    folder.mkdir()
    for seed, (split, n) in enumerate(sizes.items()):
        images = [Pillow.fromarray(array) for array in fakes.pixels(n, seed=seed, side=side)]
        rows = {image: images, "label": [number % classes for number in range(n)]}
        path = folder / f"{split}.parquet"
        datasets.Dataset.from_dict(rows, features=features).to_parquet(str(path))
    return folder


def ready(**options: object) -> HubDataModule:
    data = HubDataModule(**options)
    data.prepare_data()
    data.setup()
    return data


def test_parquet_with_splits(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", {"train": 40, "validation": 10, "test": 12})
    data = ready(name=str(folder), side=20, root=str(tmp_path))
    assert data.class_names == ["c0", "c1"]
    assert [len(part.target) for part in data.splits] == [40, 10, 12]
    np.testing.assert_array_equal(
        data.splits.train.inputs.permute(0, 2, 3, 1).numpy(), fakes.pixels(40, seed=0, side=20)
    )
    assert data.splits.test.target.tolist() == [0, 1] * 6
    assert data.caveats == [f"{folder} of the hub, no revision is known"]


def test_splits_that_are_missing_are_held_out(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", {"train": 40, "valid": 8})
    data = ready(name=str(folder), root=str(tmp_path))
    assert [len(part.target) for part in data.splits] == [32, 8, 8]
    assert data.splits.train.inputs.shape[1:] == (3, 32, 32)
    data = ready(name=str(folder), root=str(tmp_path), test_split="validation")
    assert [len(part.target) for part in data.splits] == [36, 4, 8]


@pytest.mark.parametrize("write", [png, tiff])
@pytest.mark.parametrize("channels", [1, 3])
def test_twelve_bits_are_scaled_by_the_training_images(
    tmp_path: Path, write: Any, channels: int
) -> None:
    """Scans of 12 bits in 16; the `datasets` library by itself gives the upper bytes of colours."""
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    draw, values = np.random.default_rng(0), dict[str, np.ndarray]()
    options = {"photometric": 1} if write is tiff and channels == 1 else {}
    for split, (n, high) in {"train": (20, 4095), "test": (8, 900)}.items():
        values[split] = draw.integers(0, high + 1, (n, 8, 8, channels))
        values[split][:, 0, 0] = high
        files = [{"bytes": write(image, **options), "path": None} for image in values[split]]
        rows = {"image": files, "label": [number % 2 for number in range(n)]}
        (tmp_path / "set").mkdir(exist_ok=True)
        path = tmp_path / "set" / f"{split}.parquet"
        datasets.Dataset.from_dict(rows, features=features).to_parquet(str(path))
    data = ready(name=str(tmp_path / "set"), side=8, root=str(tmp_path))
    levels = np.rint(values["test"] * (255 / 4095)).astype(np.uint8)
    expected = torch.from_numpy(levels).permute(0, 3, 1, 2).expand(-1, 3, -1, -1)
    assert torch.equal(data.splits.test.inputs, expected)
    assert any(line.startswith("16-bit images are scaled from 0 to 4,095") for line in data.caveats)


def test_an_image_folder(tmp_path: Path) -> None:
    for name, colour in {"cat": (200, 0, 0), "dog": (0, 200, 0)}.items():
        for number in range(10):
            fakes.image(tmp_path / "pets" / name / f"{number}.png", colour, 24)
    data = ready(name=str(tmp_path / "pets"), root=str(tmp_path))
    assert data.class_names == ["cat", "dog"]
    for part in data.splits:
        assert torch.equal(part.inputs[:, 1].amax((1, 2)) == 200, part.target == 1)


def test_cifar_10_takes_the_hubs_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "c", {"train": 60, "test": 20}, classes=10, image="img", side=32)
    monkeypatch.setattr(CIFAR10DataModule, "hub", HubName(str(folder), image="img"))
    data = CIFAR10DataModule(corpus="hub", root=str(tmp_path), val_size=10, ood=())
    data.prepare_data()
    data.setup()
    assert [len(part.target) for part in data.splits] == [50, 10, 20]
    assert data.caveats == [f"{folder} of the hub, no revision is known"]
    monkeypatch.setattr(CIFAR10DataModule, "hub", HubName(str(written(tmp_path / "two", {"train": 4, "test": 4}))))  # fmt: skip
    with pytest.raises(DataError, match="has 2 classes, 10 are expected"):
        CIFAR10DataModule(corpus="hub", root=str(tmp_path), ood=()).prepare_data()


def test_the_revision_is_that_of_the_files(tmp_path: Path) -> None:
    images = HubImages(HubName(str(written(tmp_path / "set", {"train": 4}))))
    (rows,) = images.splits.values()
    assert images.revision == ""
    rows.info.download_checksums = {f"hf://datasets/uoft-cs/cifar10@{COMMIT}/a.parquet": {}}
    assert images.revision == COMMIT
    assert images.described.endswith(f"of the hub, revision {COMMIT}")
    decoded = images.examples("train", side=8, cache=tmp_path)
    (cache,) = (tmp_path / ".calibench").glob("hub-*-train-8.npz")
    changed = cache.stat().st_mtime_ns
    again = images.examples("train", side=8, cache=tmp_path)
    assert torch.equal(decoded.inputs, again.inputs)
    assert cache.stat().st_mtime_ns == changed
    in_cache = SimpleNamespace(
        info=SimpleNamespace(download_checksums=None),
        cache_files=[{"filename": f"/cache/uoft-cs___cifar10/plain_text/0.0.0/{COMMIT}/x.arrow"}],
    )
    images.splits = {"train": in_cache}
    assert images.revision == COMMIT


def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "set", {"train": 4})
    with pytest.raises(DataError, match="there is no column picture; it has image, label"):
        HubDataModule(name=str(folder), image="picture")
    with pytest.raises(DataError, match="has no split `dev`; it has train"):
        ready(name=str(folder), test_split="dev", root=str(tmp_path))
    with pytest.raises(DataError, match="cannot be had from the Hugging Face hub"):
        HubDataModule(name=str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="needs the `datasets` library"):
        HubDataModule(name="any/set")

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.data import DataError
from calibench.data.images.sets import read_batches, read_pickle
from tests.data import fakes


def test_images_and_labels_in_order(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path, per_batch=7)
    paths = [tmp_path / "cifar-10-batches-py" / f"data_batch_{i}" for i in (1, 2)]
    images, target, _ = read_batches(paths, "labels")
    expected = np.concatenate([fakes.pixels(7, seed=1), fakes.pixels(7, seed=2)])
    assert torch.equal(images.permute(0, 2, 3, 1), torch.from_numpy(expected))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert target.tolist() == [*range(7), *range(7)]


def test_torchvision_reads_the_same_from_the_fake(tmp_path: Path, monkeypatch) -> None:
    from torchvision.datasets import CIFAR100

    fakes.cifar100(tmp_path, train=10)
    monkeypatch.setattr(CIFAR100, "train_list", [["train", None]])  # no checksum
    monkeypatch.setattr(CIFAR100, "test_list", [])
    monkeypatch.setitem(CIFAR100.meta, "md5", None)
    theirs = CIFAR100(tmp_path)
    images, target, _ = read_batches([tmp_path / "cifar-100-python" / "train"], "fine_labels")
    assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert target.tolist() == theirs.targets


def write(path: Path, content: object) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=2))
    return path


BAD = {
    "shape": ({b"data": np.zeros((2, 99), np.uint8), b"labels": [0, 1]}, r"shape \(2, 99\)"),
    "type": ({b"data": np.zeros((2, 3072)), b"labels": [0, 1]}, r"float64.*of uint8 is expected"),
    "count": ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}, r"and 1 labels"),
    "no labels": ({b"data": np.zeros((2, 3072), np.uint8)}, "has no `data` and `labels`"),
    "list": ([1, 2], "is not a CIFAR batch"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_wrong_content_names_the_file(tmp_path: Path, content, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_batches([write(tmp_path / "data_batch_3", content)], "labels")
    assert "data_batch_3" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_truncated_file(tmp_path: Path) -> None:
    path = write(tmp_path / "test", {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]})
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match="is not a CIFAR batch"):
        read_pickle(path)


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self):
            return (Path(tmp_path / "harmed").touch, ())

    with pytest.raises(DataError, match="it names"):
        read_pickle(write(tmp_path / "batch", {b"data": Attack()}))
    assert not (tmp_path / "harmed").exists()

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from calibench.data import DataError, SVHNDataModule
from tests.data import fakes

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {"SVHNDataModule": (fakes.svhn, {"checksum": "off", "val_size": 10})}


def svhn(root: Path, **options) -> SVHNDataModule:
    data = SVHNDataModule(root=str(root), checksum="off", ood=(), val_size=10, **options)
    data.setup()
    return data


def test_splits_and_labels(tmp_path: Path) -> None:
    fakes.svhn(tmp_path)
    data = svhn(tmp_path)
    assert [len(part.target) for part in data.splits] == [50, 10, 20]
    # the file's labels are 1, 2, ..., 10 and 10 is the digit 0
    assert data.splits.test.target.tolist() == [(i % 10 + 1) % 10 for i in range(20)]
    images = data.splits.test.inputs.permute(0, 2, 3, 1).numpy()
    assert np.array_equal(images, fakes.pixels(20, seed=20))
    assert svhn(tmp_path).fingerprint == data.fingerprint  # the second time from the cache


def test_digits_are_not_mirrored(tmp_path: Path) -> None:
    fakes.svhn(tmp_path)
    draws = svhn(tmp_path).augmentation.draw(500, torch.Generator())
    assert draws[:, 2].sum() == 0
    assert draws[:, 0].max() == 8


def test_wrong_content_is_named(tmp_path: Path) -> None:
    (tmp_path / "svhn").mkdir()
    for name in ("train", "test"):
        content = {"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.ones((4, 1))}
        savemat(tmp_path / "svhn" / f"{name}_32x32.mat", content)
    with pytest.raises(DataError, match=r"train_32x32\.mat holds images of shape"):
        svhn(tmp_path)

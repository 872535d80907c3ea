"""What a new image set has to say, and what it gets from the classes it descends from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser

from calibench.data import ClassificationDataModule, DataError, Examples
from calibench.data.images.base import OfficialImageDataModule
from calibench.data.source import Source, official_sources
from tests.data import fakes


class BlocksDataModule(OfficialImageDataModule):
    """Random blocks of 32x32 in 3 classes (this test)."""

    dataset, names = "blocks", ("red", "green", "blue")

    def read(self) -> tuple[Examples, Examples]:
        """All of them."""
        self.caveats += self.source.require(self.root, checksum=self.checksum)
        images = torch.from_numpy(np.load(self.source.path(self.root, "images.npy")))
        examples = Examples(images.permute(0, 3, 1, 2), torch.arange(len(images)) % 3)
        return examples.take(torch.arange(20)), examples.take(torch.arange(20, len(images)))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"images.npy": "0" * 32}
    monkeypatch.setitem(
        official_sources(), "blocks", Source("blocks", "Blocks", "blocks", files, "nowhere")
    )
    (tmp_path / "blocks").mkdir()
    np.save(tmp_path / "blocks" / "images.npy", fakes.pixels(30))
    return tmp_path


def test_a_new_image_set_says_only_what_differs(root: Path) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ClassificationDataModule, "data")
    given = {"val_size": 5, "root": str(root), "checksum": "off", "split_seed": "run"}
    block = {"class_path": "BlocksDataModule", "init_args": given}
    data = parser.instantiate_classes(parser.parse_object({"data": block})).data
    data.setup()
    assert [len(part.target) for part in data.splits] == [15, 5, 10]
    assert (data.num_classes, data.class_names) == (3, ["red", "green", "blue"])
    assert data.evaluation_sets["noise"].examples.inputs.shape == (10, 3, 32, 32)
    batch = next(iter(data.train_dataloader()))
    assert batch.inputs.shape == (15, 3, 32, 32)
    assert batch.inputs.dtype == torch.float32


def test_it_is_checked_fetched_and_refused_like_the_others(root: Path) -> None:
    with pytest.raises(DataError, match=r"images\.npy is not the official file"):
        BlocksDataModule(root=str(root)).setup()
    with pytest.warns(UserWarning, match="differ from the official"):
        (data := BlocksDataModule(root=str(root), checksum="warn", val_size=5)).setup()
    assert data.caveats == ["blocks: images.npy differ from the official files (md5)"]
    with pytest.raises(ValueError, match="no evaluation set `blocks`"):
        BlocksDataModule(ood=("blocks",))
    with pytest.raises(DataError, match="cannot be fetched for you"):
        BlocksDataModule(root=str(root / "empty"), download=True).prepare_data()
    assert BlocksDataModule(augment=False).augmentation is None
    assert BlocksDataModule.augmentation is not None

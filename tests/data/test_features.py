"""Frozen features as data: standardised, mapped from their files, and refused where they are not what is meant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.data import DataError, FeaturesDataModule
from calibench.data.features import FEATURE_NOTES
from tests.data import fake_features as fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fake.features(tmp_path / "probes")
    return tmp_path / "probes"


def ready(folder: Path, digest: str = fake.DIGEST) -> FeaturesDataModule:
    module = FeaturesDataModule(root=str(folder), digest=digest, ood=["far"], batch_size=64)
    module.setup()
    return module


def test_features_are_mapped_and_standardised_by_the_training_set(folder: Path) -> None:
    module = ready(folder)
    assert module.title() == "features of noise"
    values, target = fake.arrays()["test"]
    (batch,) = module.test_dataloader()[0]
    train = fake.arrays()["train"][0]
    np.testing.assert_allclose(batch.inputs, (values - train.mean(0)) / train.std(0), rtol=1e-5)
    assert batch.target.tolist() == target.tolist()
    (whole,) = module.plain_batches("train")
    assert whole.inputs.mean(0).abs().max() < 1e-6
    assert torch.allclose(whole.inputs.std(0, correction=0), torch.ones(fake.WIDTH), atol=1e-5)
    assert (list(module.evaluation_sets), module.near_ood) == (["far"], ["far"])
    stored = np.load(folder / "train.npy")
    module.splits.train.inputs[0] = 7.0  # the file stays as it is
    assert (np.load(folder / "train.npy") == stored).all()


def test_features_of_another_network_are_refused(folder: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds other features \(.*, of noise\) than .* meant \(abc\)"
    ):
        ready(folder, "abc")
    values = np.load(folder / "val.npy")
    np.save(folder / "val.npy", values + 1)
    with pytest.raises(DataError, match="does not hold what was written: damaged, or edited"):
        ready(folder)


def test_a_file_cut_short_and_one_that_does_not_fit_are_named(folder: Path) -> None:
    content = (folder / "val.npy").read_bytes()
    (folder / "val.npy").write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"val\.npy and its labels cannot be read"):
        ready(folder)
    np.save(folder / "val.npy", np.zeros((3, fake.WIDTH), "f4"))
    with pytest.raises(DataError, match=r"val\.npy .*float32 \(3, 5\) for 12 labels"):
        ready(folder)
    (folder / "val.npy").unlink()
    with pytest.raises(DataError, match=r"the features of .* cannot be read"):
        ready(folder)
    (folder / FEATURE_NOTES).write_text("{}")
    with pytest.raises(DataError, match="says neither of what network nor of which sets"):
        ready(folder)


def test_classes_that_do_not_match_are_named(folder: Path) -> None:
    with np.load(folder / "test.npz") as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays["metadata"])) | {"class_names": ["dog", "cat", "eel"]}
    np.savez(folder / "test.npz", **{**arrays, "metadata": np.array(json.dumps(metadata))})
    with pytest.raises(DataError, match="`test` has other classes than `train`"):
        ready(folder)

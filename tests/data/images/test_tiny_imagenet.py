from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from calibench.data import DataError, TinyImageNetDataModule
from calibench.data.images import decode
from tests.data import fakes

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {"TinyImageNetDataModule": (fakes.tiny_imagenet, {"val_per_class": 1})}

CLASSES = 8


class FewClasses(TinyImageNetDataModule):
    """The 200 classes are as good as 8, and take 25 times as long (this test)."""

    names = TinyImageNetDataModule.names[:CLASSES]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    fakes.tiny_imagenet(root, per_class=2, classes=CLASSES)
    return root


def tiny(root: Path, **options) -> TinyImageNetDataModule:
    data = FewClasses(root=str(root), **{"val_per_class": 1, "ood": (), **options})
    data.prepare_data()
    data.setup()
    return data


def test_validation_is_taken_from_training_and_official_validation_is_the_test(fake) -> None:
    data = tiny(fake)
    assert [len(part.target) for part in data.splits] == [CLASSES] * 3
    assert torch.bincount(data.splits.val.target).tolist() == [1] * CLASSES
    assert len(TinyImageNetDataModule().class_names) == 200
    assert data.class_names[:2] == ["n00000000", "n00000001"]
    for part, green in zip(data.splits, (100, 100, 200), strict=True):
        centre = part.inputs[:, :, 32, 32].float()
        assert (centre[:, 0] - part.target).abs().max() < 4  # JPEG; the fake's red is its class
        assert (centre[:, 1] - green).abs().max() < 4
    assert data.caveats == []


def test_tuning_on_the_test_set_is_marked(fake) -> None:
    data = tiny(fake, tune_on_test=True)
    assert torch.equal(data.splits.val.inputs, data.splits.test.inputs)
    assert len(data.splits.train.target) == 2 * CLASSES
    assert data.caveats == ["tiny_imagenet: validated on the test set"]


def test_images_are_decoded_once(fake, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(fake)

    def fail(*args, **kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr(decode, "decode_images", fail)
    tiny(fake)


def test_augmentation_is_fresh_every_epoch(fake) -> None:
    loader = tiny(fake, batch_size=200).train_dataloader()
    seen = []
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        batch = next(iter(loader))
        seen.append(batch.inputs[batch.index.argsort()])
    assert not torch.equal(*seen)


def test_damaged_layouts_are_named(fake, tmp_path: Path) -> None:
    folder = tmp_path / "tiny-imagenet-200"
    shutil.copytree(fake / "tiny-imagenet-200", folder)
    (folder / "val" / "images" / "val_7.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_7\.JPEG is missing, but val_annotations\.txt names"):
        tiny(tmp_path)
    (folder / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn9\n")
    with pytest.raises(DataError, match=r"val_annotations\.txt, line 1: .* a known class"):
        tiny(tmp_path)
    shutil.rmtree(folder / "train" / "n00000003" / "images")
    with pytest.raises(DataError, match=r"n00000003 holds no images"):
        tiny(tmp_path)
    (folder / "wnids.txt").write_text("n1\nn2\n")
    with pytest.raises(DataError, match=r"wnids\.txt names 2 classes, not 8"):
        tiny(tmp_path)
    (folder / "wnids.txt").unlink()
    with pytest.raises(DataError, match=r"wnids\.txt is missing: .* get it from http"):
        tiny(tmp_path)


@pytest.fixture(scope="module")
def corrupted(fake: Path) -> Path:
    fakes.tiny_imagenet_c(fake, ["fog"], classes=CLASSES)
    return fake


def test_severities_are_folders_of_the_archive(corrupted: Path) -> None:
    data = tiny(corrupted, ood=["fog-1", "fog-5", "snow-5"])
    for severity in (1, 5):
        found = data.evaluation_sets[f"fog-{severity}"]
        assert (found.kind, found.examples.inputs.shape) == ("shift", (CLASSES, 3, 64, 64))
        assert torch.equal(found.examples.target, torch.arange(CLASSES))
        centre = found.examples.inputs[:, :, 32, 32].float()
        assert (centre[:, 0] - found.examples.target).abs().max() < 4
        assert (centre[:, 1] - 10 * severity).abs().max() < 4
    assert list(data.unavailable) == ["snow-5"]
    assert "Tiny-ImageNet-C/snow is missing" in data.unavailable["snow-5"]
    assert "get it from https://zenodo.org/record/2536630." in data.unavailable["snow-5"]


def test_corrupted_images_are_decoded_once(
    corrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(corrupted, ood=["fog-2"])

    def fail(*args, **kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr(decode, "decode_images", fail)
    tiny(corrupted, ood=["fog-2"])


def test_noise_is_generated_with_the_constants_of_tiny_imagenet(fake: Path) -> None:
    data = tiny(fake, ood=["gaussian_noise-5"])
    found = data.evaluation_sets["gaussian_noise-5-generated"].examples
    change = found.inputs.float() - data.splits.test.inputs.float()
    inside = (data.splits.test.inputs > 100) & (data.splits.test.inputs < 150)  # blue: 128
    assert float(change[inside].std()) == pytest.approx(0.18 * 255, rel=0.02)


def test_an_incomplete_archive_is_named(fake: Path, tmp_path: Path) -> None:
    shutil.copytree(fake / "tiny-imagenet-200", tmp_path / "tiny-imagenet-200")
    fakes.tiny_imagenet_c(tmp_path, ["fog"], classes=CLASSES)
    shutil.rmtree(tmp_path / "Tiny-ImageNet-C" / "fog" / "3" / "n00000007")
    data = tiny(tmp_path, ood=["fog-3"])
    assert "fog/3/n00000007 holds no images" in data.unavailable["fog-3"]
    file = tmp_path / "Tiny-ImageNet-C" / "fog" / "4" / "n00000007" / "val_7.JPEG"
    file.write_bytes(file.read_bytes()[:100])
    data = tiny(tmp_path, ood=["fog-4"])
    assert "val_7.JPEG: not a readable image" in data.unavailable["fog-4"]

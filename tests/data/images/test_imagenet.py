"""ImageNet from made-up files in torchvision's layout and the hub's, its evaluation sets, and torchvision's crops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, RandomResizedCrop, Resize
from torchvision.transforms.functional import hflip, resized_crop

from calibench.cli import main
from calibench.configuration.building import merge_files
from calibench.data import DataError, ImageFolderDataModule, ImageNetDataModule
from calibench.data.fakes import write_imagenet
from calibench.data.images import augment
from calibench.data.images.hub_files import HubName
from calibench.data.images.imagenet import imagenet_classes
from calibench.runs import Predictions, Run, read_json, run_folders
from tests.data import fakes
from tests.data.images.test_hub import own_cache, written  # noqa: F401


def few(root: Path) -> None:
    """The 200 classes of ImageNet-R."""
    write_imagenet(root, subset=True)


FEW = {"classes": "imagenet200", "val_per_class": 1, "side": 32, "resize": 36}
EXAMPLES = {"ImageNetDataModule": (few, FEW)}
SETS = ["imagenet_*", "gaussian_noise-5"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imagenet")
    few(folder)
    return folder


def ready(root: Path, **options: Any) -> ImageNetDataModule:
    module = ImageNetDataModule(root=str(root), **FEW, **options)
    module.setup()
    return module


def test_classes_are_torchvisions_in_its_order() -> None:
    classes = imagenet_classes()
    wnids = [one.wnid for one in classes]
    assert len(set(wnids)) == len({one.name for one in classes}) == 1000
    assert wnids == sorted(wnids)
    assert [sum(letter in one.sets for one in classes) for letter in "ra"] == [200, 200]
    assert [classes[number].name for number in (0, 1, 999)] == [
        "tench",
        "goldfish",
        "toilet tissue",
    ]
    assert not merge_files(["imagenet"])["data"]["init_args"].get("classes")


def test_validation_images_are_cut_in_two_by_class(root: Path) -> None:
    data = ready(root)
    assert [len(part.target) for part in data.splits] == [400, 200, 200]
    for part in data.splits[1:]:
        assert torch.equal(torch.bincount(part.target), torch.ones(200, dtype=torch.int64))
    held = {int(number) for part in data.splits[1:] for number in part.inputs}
    assert len(held) == 400  # none is in both
    assert ready(root, split_seed=2).fingerprint != data.fingerprint


def test_evaluation_sets_have_the_classes_of_the_training(root: Path) -> None:
    data = ready(root, ood=SETS)
    assert not data.unavailable
    sizes = {name: len(part.examples.target) for name, part in data.evaluation_sets.items()}
    both = [number for number, one in enumerate(data.classes) if "a" in one.sets]
    assert sizes == {
        "imagenet_v2": 200,
        "imagenet_r": 200,
        "imagenet_a": len(both),
        "gaussian_noise-5": 200,
    }
    lacking = data.evaluation_sets["imagenet_a"].classes
    assert lacking is not None
    assert lacking.nonzero()[:, 0].tolist() == both
    assert data.evaluation_sets["imagenet_r"].classes is None
    clean, noisy = (list(data.test_dataloader()[place]) for place in (0, -1))
    assert torch.equal(clean[0].target, noisy[0].target)
    label = int(data.splits.test.target[0])
    assert int(data.evaluation_sets["gaussian_noise-5"].examples.target[0]) == label
    # a class is a colour, which every set has alike
    colour = ready(root, ood=SETS).test_dataloader()
    means = [next(iter(loader)).inputs[:5].mean((2, 3)) for loader in colour[:3]]
    assert (means[0] - means[1]).abs().max() < 0.5
    assert (means[0] - means[2]).abs().max() < 0.5


def test_what_does_not_match_is_one_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="`val_per_class` of imagenet: class 0 has 2 examples, 9 were"
    ):
        ImageNetDataModule(root=str(root), **{**FEW, "val_per_class": 9}).setup()
    with pytest.raises(DataError, match="`val_per_class` leaves no official validation images"):
        ImageNetDataModule(root=str(root), **{**FEW, "val_per_class": 2}).setup()
    with pytest.raises(ValueError, match="`resize` must be at least `side` 32, got 20"):
        ImageNetDataModule(root=str(root), **{**FEW, "resize": 20})
    (tmp_path / "imagenet").symlink_to(root / "imagenet")
    fakes.image(tmp_path / "imagenet-a" / "n00000000" / "0.jpg", (0, 0, 0), 40)
    data = ready(tmp_path, ood=SETS)
    assert "imagenet-a/n00000000 is no class of imagenet_a" in data.unavailable["imagenet_a"]
    assert "imagenet-r is missing" in data.unavailable["imagenet_r"]
    assert "(200 of 200 images): get ImageNet-C" in data.unavailable["gaussian_noise-5"]


def test_validation_images_are_enough_to_evaluate(root: Path, tmp_path: Path) -> None:
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "val").symlink_to(root / "imagenet" / "val")
    data = ready(tmp_path)
    assert len(data.splits.test.target) == 200
    assert "no training images" in data.caveats[0]
    with pytest.raises(DataError, match="imagenet/train is missing"):
        data.train_dataloader()


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_the_hubs_copy_gives_the_same_images(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"train": 1000, "validation": 2000}
    folder = written(tmp_path / "set", sizes, classes=1000, side=8)
    monkeypatch.setattr(ImageNetDataModule, "hub", HubName(str(folder)))
    data = ready(tmp_path, corpus="hub")
    assert [len(part.target) for part in data.splits] == [200, 200, 200]
    assert "of the hub" in data.caveats[0]
    assert len(next(iter(data.train_dataloader())).target) == 128
    monkeypatch.setattr(
        ImageNetDataModule, "hub", HubName(str(written(tmp_path / "two", {"train": 4})))
    )
    with pytest.raises(DataError, match="has 2 classes, 1,000 are expected"):
        ready(tmp_path, corpus="hub")


def command(root: Path, *more: str) -> list[str]:
    """A command line on the made-up files with a network that is trained already."""
    few = [f"--data.{name}={value}" for name, value in FEW.items()]
    network = ["--model.backbone=tests.own_classes.trained_network", *more]
    quiet = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]
    return ["--data", "imagenet200", f"--data.root={root}", *few, *network, *quiet]


WEIGHTS = "--model.backbone.weights=DEFAULT"


@pytest.mark.slow
def test_a_trained_network_is_a_row_without_training(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", *command(root, WEIGHTS)]) == 0
    alone = Predictions.load(tmp_path / "predictions" / "imagenet_a.npz")
    both = np.array(["a" in one.sets for one in imagenet_classes() if "r" in one.sets])
    assert np.isneginf(alone.logits[:, ~both]).all()
    assert np.isfinite(alone.logits[:, both]).all()
    assert main(["predict", *command(root)]) == 2
    assert "where all of its weights are pretrained" in capsys.readouterr().err
    assert main(["fit", *command(root, WEIGHTS), "--trainer.max_epochs=0"]) == 0
    run = Run(Path(*run_folders(tmp_path / "results")))
    assert run.done
    loaded = Predictions.load(run.predictions("imagenet_a"))
    assert np.array_equal(loaded.target, alone.target)
    (error,) = (
        row["value"]
        for row in read_json(run.folder / "metrics.json")["rows"]
        if (row["metric"], row["split"], row["calibrator"]) == ("error", "imagenet_a", "raw")
    )
    assert error == pytest.approx((loaded.logits.argmax(1) != loaded.target).mean())
    assert any("86 of 200 classes" in line for line in loaded.metadata["caveats"])


@pytest.mark.parametrize(
    "names", [["imagenet"], ["imagenet200"], ["imagenet", "protocols/imagenet"]]
)
def test_the_recipe_is_torchvisions(names: list[str]) -> None:
    merged = merge_files(names)
    model, options = merged["model"], merged["data"]["init_args"]
    assert model["optimizer"]["init_args"] == {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
    assert model["lr_scheduler"]["init_args"] == {"step_size": 30, "gamma": 0.1}
    assert (model["loss_scale"], merged["trainer"]["max_epochs"]) == ("mean", 90)
    assert (options["batch_size"], options.get("side", 224)) == (256, 224)


def photo(width: int = 61, height: int = 47) -> Image.Image:
    pixels = np.random.default_rng(0).integers(256, size=(height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_the_middle_is_that_of_torchvision() -> None:
    for size in ((61, 47), (40, 90), (36, 36)):
        theirs = Compose([Resize(36), CenterCrop(32)])(photo(*size))
        assert np.array_equal(
            np.asarray(augment.centre_crop(36, 32)(photo(*size), 32)), np.asarray(theirs)
        )


def test_random_parts_are_distributed_as_torchvisions() -> None:
    ours, n = augment.RandomResizedCrop(), 4000
    boxes = np.array([[*box, flip] for box, flip in (ours.part(61, 47, seed) for seed in range(n))])
    torch.manual_seed(0)
    image = photo()
    theirs = np.array(
        [RandomResizedCrop.get_params(image, ours.scale, ours.ratio) for _ in range(n)]
    )
    spread = 5 * theirs.std(0) / np.sqrt(n / 2)
    assert (np.abs(boxes[:, :4].mean(0) - theirs.mean(0)) < spread).all()
    assert (np.abs(boxes[:, :4].std(0) - theirs.std(0)) < spread).all()
    assert abs(boxes[:, 4].mean() - 0.5) < 5 * 0.5 / np.sqrt(n)


def test_parts_of_files_and_of_tensors_follow_from_the_draws() -> None:
    ours = augment.RandomResizedCrop()
    draws = ours.draw(20, torch.Generator().manual_seed(3))
    image = photo(32, 32)
    for draw, crop in zip(draws[:, 0].tolist(), ours.crops(draws), strict=True):
        box, flipped = ours.part(32, 32, draw)
        part = resized_crop(image, *box, [32, 32])
        assert np.array_equal(
            np.asarray(crop(image, 32)), np.asarray(hflip(part) if flipped else part)
        )
    stored = torch.from_numpy(np.array(image)).permute(2, 0, 1).expand(20, -1, -1, -1)
    tensors = ours(stored, torch.arange(20), draws).float()
    files = np.stack([np.asarray(crop(image, 32)) for crop in ours.crops(draws)]).transpose(
        0, 3, 1, 2
    )
    assert (
        tensors - torch.from_numpy(files.astype(np.float32))
    ).abs().mean() < 2  # they round otherwise
    with pytest.raises(ValueError, match="`scale` must be positive and rising"):
        augment.RandomResizedCrop(scale=(0.5, 0.1))


def test_any_folder_of_images_takes_the_same_crops(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        for number in range(10):
            (tmp_path / name).mkdir(exist_ok=True)
            photo(61 + number, 47).save(tmp_path / name / f"{number}.png")
    options: dict[str, Any] = {"folder": str(tmp_path), "side": 32, "resize": 36, "batch_size": 5}
    kept = ImageFolderDataModule(**options)
    streamed = ImageFolderDataModule(**options, augment=augment.RandomResizedCrop())
    for data in (kept, streamed):
        data.prepare_data()
        data.setup()
    ours, theirs = (
        torch.cat([b.inputs for b in data.val_dataloader()]) for data in (kept, streamed)
    )
    assert torch.equal(ours, theirs)
    loader = streamed.train_dataloader()
    epochs = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        epochs.append(torch.cat([batch.inputs[batch.index.argsort()] for batch in loader]))
    assert torch.equal(epochs[0], epochs[2])
    assert not torch.equal(epochs[0], epochs[1])

"""AugMix: its changes are Pillow's, its mixtures and its term the paper's, and its batches those of any number of processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from scipy.ndimage import minimum_filter

import calibench.data.in_memory_loader as resident
from calibench.cli import main
from calibench.data import ImageFolderDataModule
from calibench.data.batch import Examples
from calibench.data.images import augmix as image_changes
from calibench.data.images.augment import RandomCropFlip, RandomResizedCrop
from calibench.data.images.augmix import AugMix, ThreeViews, jensen_shannon, mix_chains
from calibench.data.images.decode import StreamedImages
from calibench.data.in_memory_loader import ShuffledLoader

SIDE = 32


def smooth_images(n: int) -> np.ndarray:
    """Images (n, side, side, 3) uint8 with edges and flat parts."""
    draws = np.random.default_rng(0)
    small = draws.integers(0, 200, (n, 6, 6, 3)).astype(np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((SIDE, SIDE))) for one in small])


def pillows(name: str, image: Image.Image, level: float, sign: int) -> Image.Image:
    """What the authors' code calls."""
    size, way, bilinear = image.size, Image.Transform.AFFINE, Image.Resampling.BILINEAR
    third, shear = sign * int(level * (SIDE / 3) / 10), sign * level * 0.3 / 10
    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 4 - int(level * 4 / 10)),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
        "rotate": lambda: image.rotate(sign * int(level * 30 / 10), resample=bilinear),
        "shear_x": lambda: image.transform(size, way, (1, shear, 0, 0, 1, 0), resample=bilinear),
        "shear_y": lambda: image.transform(size, way, (1, 0, 0, shear, 1, 0), resample=bilinear),
        "translate_x": lambda: image.transform(
            size, way, (1, 0, third, 0, 1, 0), resample=bilinear
        ),
        "translate_y": lambda: image.transform(
            size, way, (1, 0, 0, 0, 1, third), resample=bilinear
        ),
    }[name]()


def inside(name: str, level: float, sign: int) -> np.ndarray:
    """Pixels (side, side) whose neighbours all were in the image that Pillow moved."""
    white = Image.new("L", (SIDE, SIDE), 255)
    moves = name.startswith(("rotate", "shear", "translate"))
    covered = np.asarray(pillows(name, white, level, sign) if moves else white) == 255
    return minimum_filter(covered, size=3, mode="constant", cval=False)


@pytest.mark.parametrize("change", image_changes.OPERATIONS, ids=lambda change: change.__name__)
def test_changes_are_pillows(change: image_changes.Change) -> None:
    """But for a last bit; and at the rim of what is black, where torchvision fades and Pillow ends at once."""
    images, levels, signs = smooth_images(6), [0.1, 1.4, 3.0, 7.5, 9.9, 2.2], [1, -1, 1, -1, 1, -1]
    for image, level, sign in zip(images, levels, signs, strict=True):
        ours = change(torch.from_numpy(image).permute(2, 0, 1), level, sign).permute(1, 2, 0)
        theirs = np.asarray(pillows(change.__name__, Image.fromarray(image), level, sign))
        there = inside(change.__name__, level, sign)
        assert there.mean() > 0.5
        assert np.abs(ours.numpy().astype(int) - theirs)[there].max() <= 1


def test_one_colour_stays_as_it_is() -> None:
    flat = torch.full((1, 4, 4), 77, dtype=torch.uint8)
    for change in (image_changes.autocontrast, image_changes.equalize):
        assert torch.equal(change(flat, 1.0, 1), flat)


def test_a_mixture_is_its_formula() -> None:
    """Chains of one step each, all of them the third change: weights add up to 1, so it is the mean with that image."""
    images = torch.from_numpy(smooth_images(5)).permute(0, 3, 1, 2).float()
    numbers = torch.rand(5, 34, generator=torch.Generator().manual_seed(0))
    chains = numbers[:, 1:].view(5, 3, 11)
    chains[:, :, 1] = 0.2
    chains[:, :, 2] = 2.5 / 9
    share = numbers[:, 0, None, None, None]
    bands = image_changes.posterize(images.to(torch.uint8), 2.0, 1).float()
    torch.testing.assert_close(
        mix_chains(images, numbers, 2.0), (1 - share) * images + share * bands, rtol=1e-5, atol=1e-3
    )
    other = chains.clone()
    other[:, :, 1] = 0.9  # three steps
    other[:, :, 5::3] = 0.5 / 9
    longer = torch.cat([numbers[:, :1], other.flatten(1)], dim=1)
    assert not torch.equal(mix_chains(images, longer, 2.0), mix_chains(images, numbers, 2.0))


def test_the_term_is_the_divergence_of_three_distributions() -> None:
    views = torch.randn(7, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probs = views.softmax(2)
    mean = probs.mean(1, keepdim=True).log()
    theirs = sum(
        torch.nn.functional.kl_div(mean[:, 0], probs[:, n], reduction="batchmean") / 3
        for n in range(3)
    )
    torch.testing.assert_close(AugMix().term(views), 12 * theirs)
    assert jensen_shannon(views).shape == (7,)
    torch.testing.assert_close(
        AugMix().term(views[:, :1].expand(-1, 3, -1)), torch.zeros((), dtype=torch.float64)
    )


def loader(*, plain: bool = False) -> ShuffledLoader:
    """Batches of 5 of 13 images of 4 classes."""
    images = torch.from_numpy(smooth_images(13)).permute(0, 3, 1, 2)
    made = ShuffledLoader(
        Examples(images, torch.arange(13) % 4), seed=1, batch_size=5, augmentation=RandomCropFlip(2),
        mixing=[] if plain else [AugMix()], num_classes=4,
    )  # fmt: skip
    made.set_epoch(1)
    return made


@pytest.mark.parametrize("processes", [2, 8])
def test_views_are_of_the_example_whatever_the_process(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, plain, parts = list(loader()), list(loader(plain=True)), []
    for rank in range(processes):
        monkeypatch.setattr(resident, "world_size_and_rank", lambda rank=rank: (processes, rank))
        parts.append(list(loader()))
    for batch, alone, *slices in zip(whole, plain, *parts, strict=True):
        assert batch.views == 3
        assert torch.equal(
            batch.inputs[::3], alone.inputs.float()
        )  # the first view is the plain run's
        assert torch.equal(batch.target, alone.target)
        assert not torch.equal(batch.inputs[1::3], batch.inputs[2::3])
        together = torch.cat([piece.inputs for piece in slices])
        torch.testing.assert_close(together, batch.inputs, rtol=0, atol=1e-3)


def files_in(folder: Path) -> list[Path]:
    """Image files of two classes, a folder each."""
    files = [folder / f"class {n % 2}" / f"{n:02}.png" for n in range(13)]
    for file, image in zip(files, smooth_images(13), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    return files


@pytest.mark.parametrize("processes", [1, 3])
def test_mixtures_are_of_crops_that_were_taken_as_images_were_read(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = StreamedImages()
    examples = Examples(images.add(files_in(tmp_path), 16), torch.arange(13) % 2)

    def read(*mixing: AugMix) -> ShuffledLoader:
        return ShuffledLoader(
            examples, seed=1, batch_size=5, augmentation=RandomResizedCrop(), decode=images, mixing=mixing
        )  # fmt: skip

    for rank in range(processes):
        monkeypatch.setattr(resident, "world_size_and_rank", lambda rank=rank: (processes, rank))
        ours = read(AugMix())
        for batch, alone in zip(ours, read(), strict=True):
            draws = ours._draws[batch.index][:, -2 * ThreeViews.numbers :]
            every = torch.arange(len(alone.inputs))
            assert torch.equal(batch.inputs, ThreeViews(None, 3.0)(alone.inputs, every, draws))
            assert torch.equal(batch.inputs[::3], alone.inputs.float())
    assert len({tuple(draw) for draw in ours._draws[:, :1].tolist()}) == 13


def test_a_folder_of_large_images_takes_augmix_on_top_of_its_crops(tmp_path: Path) -> None:
    files_in(tmp_path)
    data = ImageFolderDataModule(
        folder=str(tmp_path), side=16, batch_size=4, augment=RandomResizedCrop(), mixing=AugMix(), ood=[]
    )  # fmt: skip
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert (batch.views, batch.inputs.shape) == (3, (12, 3, 16, 16))
    logits = torch.randn(4, 3, 2)
    assert torch.equal(data.views_term(logits), AugMix().term(logits))


@pytest.mark.slow
def test_what_cannot_be_changed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bytes_ = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    AugMix().check(bytes_.float(), bytes_)
    for stored in (torch.zeros(1, 7), torch.full((1, 3, 4, 4), 2.0), torch.zeros(1, 7).long()):
        with pytest.raises(ValueError, match="AugMix changes images"):
            AugMix().check(stored, stored)
    with pytest.raises(ValueError, match="`severity`"):
        AugMix(severity=11)
    command = [
        "fit",
        "--config",
        "digits",
        "--config",
        "protocols/augmix",
        "--config",
        "protocols/mixup",
    ]
    assert main([*command, "--trainer.default_root_dir", str(tmp_path)]) != 0
    said = capsys.readouterr().err.splitlines()
    assert "AugMix and Mixup change the inputs of a batch: choose one of them" in said[-1]
    assert not any("Traceback" in line for line in said)

from __future__ import annotations

import pytest
import torch
from torchvision.transforms import functional as tv

from calibench.data.images.augment import Normalize, RandomCropFlip


def images(n: int, channels: int = 3, side: int = 8) -> torch.Tensor:
    return torch.randint(256, (n, channels, side, side), dtype=torch.uint8)


def crop(augmentation: RandomCropFlip, stored: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    return augmentation(augmentation.prepare(stored), torch.arange(len(stored)), draws)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_offset_equals_torchvisions_crop_and_flip(channels: int) -> None:
    draws = torch.cartesian_prod(torch.arange(9), torch.arange(9), torch.arange(2))
    stored = images(len(draws), channels)
    ours = crop(RandomCropFlip(padding=4), stored, draws)
    for image, (top, left, flip), changed in zip(stored, draws.tolist(), ours, strict=True):
        theirs = tv.crop(tv.pad(image, [4]), top, left, 8, 8)
        assert torch.equal(changed, tv.hflip(theirs) if flip else theirs)


def test_stored_layout_does_not_matter_and_the_result_is_channels_last() -> None:
    stored, draws = images(6), RandomCropFlip().draw(6, torch.Generator().manual_seed(0))
    last = stored.contiguous(memory_format=torch.channels_last)
    ours = crop(RandomCropFlip(), last, draws)
    assert torch.equal(ours, crop(RandomCropFlip(), stored, draws))
    assert ours.is_contiguous(memory_format=torch.channels_last)


def test_rectangular_images_keep_their_size() -> None:
    stored = torch.arange(2 * 4 * 6).view(2, 1, 4, 6)
    kept = crop(RandomCropFlip(padding=1), stored, torch.tensor([[1, 1, 0], [1, 1, 1]]))
    assert torch.equal(kept, torch.stack([stored[0], stored[1].flip(2)]))


def test_draws_are_uniform_over_the_offsets_and_flip_half() -> None:
    n = 81 * 2 * 200
    draws = RandomCropFlip(padding=4).draw(n, torch.Generator().manual_seed(0))
    cell = (draws[:, 0] * 9 + draws[:, 1]) * 2 + draws[:, 2]
    counts = torch.bincount(cell, minlength=162).double()
    assert len(counts) == 162
    chi_square = ((counts - 200) ** 2 / 200).sum()
    assert 161 - 5 * (2 * 161) ** 0.5 < chi_square < 161 + 5 * (2 * 161) ** 0.5


def test_without_padding_and_flip_nothing_changes() -> None:
    still = RandomCropFlip(padding=0, flip=False)
    stored = images(5)
    assert torch.equal(crop(still, stored, still.draw(5, torch.Generator())), stored)


def test_rows_are_read_by_index() -> None:
    augmentation, stored = RandomCropFlip(), images(6)
    prepared = augmentation.prepare(stored)
    draws = augmentation.draw(6, torch.Generator().manual_seed(0))
    index = torch.tensor([4, 0, 4])
    whole = augmentation(prepared, torch.arange(6), draws)
    assert torch.equal(augmentation(prepared, index, draws[index]), whole[index])
    assert augmentation(prepared, index[:0], draws[:0]).shape == (0, 3, 8, 8)


def test_padding_is_checked() -> None:
    with pytest.raises(ValueError, match="`padding` must be an integer >= 0, got -1"):
        RandomCropFlip(padding=-1)


def test_normalize_equals_torchvision() -> None:
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    stored = images(7)
    theirs = tv.normalize(stored.float() / 255, mean, std)
    normalize = Normalize(mean, std)
    torch.testing.assert_close(normalize(stored), theirs, rtol=0, atol=2e-6)
    last = stored.contiguous(memory_format=torch.channels_last)
    assert torch.equal(normalize(last), normalize(stored))
    assert normalize(stored).is_contiguous(memory_format=torch.channels_last)
    assert normalize(stored[:0]).shape == (0, 3, 8, 8)


def test_normalize_leaves_what_is_stored_alone() -> None:
    stored = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    before = stored.clone()
    Normalize((0.5,) * 3, (0.1,) * 3, white=1.0)(stored)
    assert torch.equal(stored, before)


def test_normalize_scales_by_the_stored_white() -> None:
    grey = torch.full((1, 1, 2, 2), 8.0)
    torch.testing.assert_close(
        Normalize((0.25,), (0.5,), white=16.0)(grey), torch.full((1, 1, 2, 2), 0.5)
    )


def test_normalisation_is_its_formula() -> None:
    images = torch.randint(0, 256, (5, 3, 8, 6), dtype=torch.uint8)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.1)
    of_channels = (torch.tensor(part)[:, None, None] for part in (mean, std))
    middle, width = of_channels
    torch.testing.assert_close(Normalize(mean, std)(images), (images / 255 - middle) / width)


def reflected(image: torch.Tensor, top: int, left: int, padding: int) -> torch.Tensor:
    """A crop of a reflected image, pixel by pixel."""
    _, height, width = image.shape
    changed = torch.empty_like(image)
    for row in range(height):
        for column in range(width):
            i, j = row + top - padding, column + left - padding
            i, j = abs(i), abs(j)
            i, j = min(i, 2 * (height - 1) - i), min(j, 2 * (width - 1) - j)
            changed[:, row, column] = image[:, i, j]
    return changed


def test_a_reflected_shift_is_that_of_every_pixel() -> None:
    draws = torch.cartesian_prod(torch.arange(5), torch.arange(5), torch.arange(2))
    stored = torch.randint(256, (len(draws), 3, 6, 8), dtype=torch.uint8)
    ours = crop(RandomCropFlip(padding=2, border="reflect"), stored, draws)
    for image, (top, left, flip), changed in zip(stored, draws.tolist(), ours, strict=True):
        shifted = reflected(image, top, left, 2)
        assert torch.equal(changed, shifted.flip(2) if flip else shifted)


def test_alternating_flips_show_both_sides_of_each_image_in_two_epochs() -> None:
    augmentation = RandomCropFlip(padding=2, flip="alternating")

    def flips(seed: int, epoch: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(97 * seed + epoch)
        return augmentation.draw(1000, generator, seed=seed, epoch=epoch)[:, 2]

    first = flips(1, 0)
    assert 400 < first.sum() < 600
    for epoch in range(1, 5):  # of the epoch and the seed alone: so exact when a run is resumed
        assert torch.equal(flips(1, epoch), (first + epoch) % 2)
    assert not torch.equal(flips(2, 0), first)


def test_alternating_flips_leave_the_shifts_as_they_are() -> None:
    draws = [
        RandomCropFlip(flip=flip).draw(50, torch.Generator().manual_seed(3), seed=1, epoch=2)
        for flip in (True, "alternating")
    ]
    assert torch.equal(draws[0][:, :2], draws[1][:, :2])


def test_an_image_smaller_than_its_reflection_is_refused() -> None:
    with pytest.raises(ValueError, match="`padding` must be below the side of the images 4"):
        RandomCropFlip(padding=4, border="reflect").prepare(images(1, side=4))
    with pytest.raises(ValueError, match="`border` must be one of 'zeros', 'reflect', got 'wrap'"):
        RandomCropFlip(border="wrap")  # type: ignore[arg-type]

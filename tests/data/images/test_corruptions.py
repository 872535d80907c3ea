from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torch import Tensor

from calibench.data.images.generated_corruptions import (
    GAUSSIAN_NOISE_STD,
    add_noise,
    defocus_blur,
    disk_kernel,
    draw_plasma,
    fog,
    gaussian_noise,
    jpeg_compression,
)

SEVERITIES = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def images() -> Tensor:
    """Smooth random images of the whole range."""
    noise = np.random.default_rng(0).normal(size=(40, 3, 32, 32))
    smooth = ndimage.gaussian_filter(noise, (0, 0, 2, 2), mode="wrap")
    smooth -= smooth.min(axis=(1, 2, 3), keepdims=True)
    scaled = 255 * smooth / smooth.max(axis=(1, 2, 3), keepdims=True)
    return torch.from_numpy(scaled.astype(np.uint8))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_noise_has_the_standard_deviation_of_its_severity(severity: int) -> None:
    noisy = gaussian_noise(torch.full((100_000,), 0.5), severity=severity, seed=0)
    assert abs(float(noisy.std()) / GAUSSIAN_NOISE_STD[severity - 1] - 1) < 0.01
    assert abs(float(noisy.mean()) - 0.5) < 0.002


def test_gaussian_noise_is_clipped_and_seeded() -> None:
    black = torch.zeros(1000)
    noisy = gaussian_noise(black, severity=5, seed=1)
    assert noisy.min() == 0
    assert torch.equal(noisy, gaussian_noise(black, severity=5, seed=1))
    assert not torch.equal(noisy, gaussian_noise(black, severity=5, seed=2))


@pytest.mark.parametrize("corrupt", [add_noise, defocus_blur, fog, jpeg_compression])
def test_a_corruption_keeps_the_type_repeats_itself_and_worsens(
    corrupt: Callable[[Tensor, int], Tensor], images: Tensor
) -> None:
    errors = []
    for severity in SEVERITIES:
        corrupted = corrupt(images, severity)
        assert corrupted.dtype == torch.uint8
        assert corrupted.shape == images.shape
        assert torch.equal(corrupted, corrupt(images, severity))
        errors.append(float((corrupted.float() - images.float()).square().mean()))
    assert errors == sorted(errors)
    assert errors[0] > 0
    with pytest.raises(ValueError, match="`severity` must be 1 to 5, got 6"):
        corrupt(images, 6)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_blur_is_scipys_correlation_with_a_mirrored_border(
    severity: int, images: Tensor
) -> None:
    radius, edge = [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)][severity - 1]
    steps = np.arange(-8, 9)
    flat = (steps[:, None] ** 2 + steps**2 <= radius**2).astype(float)
    soft = ndimage.gaussian_filter(flat / flat.sum(), edge, radius=1, mode="constant")
    clean = images.numpy() / 255
    expected = ndimage.correlate(clean, soft[None, None], mode="mirror") * 255
    got = defocus_blur(images, severity).numpy().astype(float)
    # truncation may fall to either side of a whole number that rounding has moved
    assert np.abs(got - np.floor(expected + 1e-9)).max() <= 1
    assert np.abs(got - expected).max() < 1 + 1e-6


def test_the_disks_of_the_lower_severities_are_one_pixel_softened() -> None:
    assert disk_kernel(0.5, 0.6).count_nonzero() == 9
    assert float(disk_kernel(1.5, 0.1)[2, 2]) == pytest.approx(1 / 9)
    assert all(float(disk_kernel(r, 0.3).sum()) == pytest.approx(1) for r in (0.3, 1, 1.5))


def cloud_by_loops(decay: float, generator: torch.Generator) -> np.ndarray:
    """Diamond-square on a torus, point by point, with the same draws in the same order."""
    height, step, amplitude = np.zeros((32, 32)), 32, 100.0
    while step >= 2:
        half = step // 2
        for down, right, reach in ((half, half, "corners"), (0, half, "cross"), (half, 0, "cross")):
            rows, columns = range(down, 32, step), range(right, 32, step)
            draws = torch.rand(
                (1, len(rows), len(columns)), generator=generator, dtype=torch.float64
            )
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    around = (
                        [(-half, -half), (-half, half), (half, -half), (half, half)]
                        if reach == "corners"
                        else [(-half, 0), (half, 0), (0, -half), (0, half)]
                    )
                    mean = sum(height[(row + a) % 32, (column + b) % 32] for a, b in around) / 4
                    height[row, column] = mean + amplitude**2 * (2 * float(draws[0, i, j]) - 1)
        step, amplitude = half, amplitude / decay
    height -= height.min()
    return height / height.max()


@pytest.mark.parametrize("decay", [3.0, 1.75])
def test_clouds_are_those_of_the_diamond_square_algorithm(decay: float) -> None:
    cloud = draw_plasma(1, decay, torch.Generator().manual_seed(3))[0]
    expected = cloud_by_loops(decay, torch.Generator().manual_seed(3))
    np.testing.assert_allclose(cloud.numpy(), expected, atol=1e-12)


def test_fog_never_brightens_beyond_the_image_and_lessens_its_contrast(images: Tensor) -> None:
    foggy = fog(images, 5)
    assert (foggy.amax(dim=(1, 2, 3)) <= images.amax(dim=(1, 2, 3))).all()
    assert foggy.float().std() < images.float().std()
    black = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    assert fog(black, 3).max() == 0  # scaled by the image's own maximum
    with pytest.raises(ValueError, match="up to 32 pixels, got 64x64"):
        fog(torch.zeros(1, 3, 64, 64, dtype=torch.uint8), 1)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_compression_has_the_quality_of_its_severity(severity: int, images: Tensor) -> None:
    quality = (80, 65, 58, 50, 40)[severity - 1]
    file = io.BytesIO()
    Image.fromarray(images[7].permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
    expected = np.asarray(Image.open(file))
    assert np.array_equal(jpeg_compression(images, severity)[7].permute(1, 2, 0).numpy(), expected)

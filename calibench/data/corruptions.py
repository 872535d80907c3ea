"""CIFAR-10-C and CIFAR-100-C, and Gaussian noise generated with their constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.source import DataError

GAUSSIAN_NOISE_STD = (0.04, 0.06, 0.08, 0.09, 0.10)  # severities 1 to 5, on the [0, 1] scale
SEVERITIES = (1, 2, 3, 4, 5)
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise",
    "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur",
    "snow", "frost", "fog", "brightness", "spatter",
    "contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate",
)  # fmt: skip
_URLS = {
    "CIFAR-10-C": "https://zenodo.org/record/2535967",
    "CIFAR-100-C": "https://zenodo.org/record/3555552",
}


def gaussian_noise(images: Tensor, *, severity: int, seed: int) -> Tensor:
    """Add clipped Gaussian noise (Hendrycks and Dietterich 2019).

    The official archive draws from an unseeded generator, so its pixels cannot be repeated; its
    distribution can.

    Args:
        images: Values in [0, 1], any shape.
        severity: 1 to 5.
        seed: What the noise is drawn from.

    Raises:
        ValueError: `severity` is not one of 1 to 5.
    """
    if severity not in SEVERITIES:
        raise ValueError(f"`severity` must be 1 to 5, got {severity}.")
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator) * GAUSSIAN_NOISE_STD[severity - 1]
    return (images + noise).clamp(0, 1)


def load_corruption(folder: Path, corruption: str, severity: int, test: Examples) -> EvaluationSet:
    """A shifted test set, from the official archive where it is there.

    Severity s is rows (s - 1) n to s n of `<corruption>.npy`, in the order of the test set.
    Gaussian noise is generated when the archive is absent, and then named
    `gaussian_noise-<s>-generated`.

    Args:
        folder: The unpacked archive.
        corruption: One of `CORRUPTIONS`.
        severity: 1 to 5.
        test: The clean test split, uint8.

    Raises:
        DataError: A file is missing or of another shape.
    """
    name = f"{corruption}-{severity}"
    if corruption == "gaussian_noise" and not (folder / f"{corruption}.npy").exists():
        noisy = gaussian_noise(test.inputs.float() / 255, severity=severity, seed=severity)
        pixels = (noisy * 255).to(torch.uint8)  # the archive truncates as well (np.uint8)
        return EvaluationSet(f"{name}-generated", "shift", Examples(pixels, test.target))
    n = len(test.target)
    rows = slice((severity - 1) * n, severity * n)
    target = _open(folder, "labels", (5 * n,))[rows]
    if not np.array_equal(target, test.target.numpy()):
        raise DataError(f"{folder / 'labels.npy'} has other labels than the test set.")
    images = _open(folder, corruption, (5 * n, 32, 32, 3))[rows]
    pixels = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
    return EvaluationSet(name, "shift", Examples(pixels, test.target))


def _open(folder: Path, name: str, shape: tuple[int, ...]) -> np.ndarray:
    path = folder / f"{name}.npy"
    if not path.exists():
        url = _URLS.get(folder.name, "its authors")
        raise DataError(f"{path} is missing: {folder.name} is expected there; get it from {url}.")
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable .npy file ({error}).") from None
    if array.shape != shape:
        raise DataError(f"{path} has shape {array.shape}; {shape} is expected.")
    return array

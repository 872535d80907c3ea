"""Human labels of CIFAR: CIFAR-N for the training images, CIFAR-10H for the test images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.data.images.corruptions import read_array
from calibench.data.source import DataError, sources

# our name -> (file stem, key in it)
_NOISY = {
    ("cifar10", "aggregate"): ("cifar10n", "aggre_label"),
    ("cifar10", "random1"): ("cifar10n", "random_label1"),
    ("cifar10", "worst"): ("cifar10n", "worse_label"),
    ("cifar100", "noisy"): ("cifar100n", "noisy_label"),
}
CIFAR10H = "CIFAR-10H, the labels of about 50 people an image (Peterson et al. 2019)"
_OFFICIAL_NAMES = {"cifar10n": "CIFAR-10_human.pt", "cifar100n": "CIFAR-100_human.pt"}


def load_noisy_labels(root: Path, dataset: str, labels: str, clean: Tensor) -> Tensor:
    """CIFAR-N's human labels of the training images (Wei et al. 2022).

    Read from `cifar-n/<dataset>n.npz`, or from the authors' .pt file beside it.

    Args:
        root: The data root.
        dataset: "cifar10" or "cifar100".
        labels: "aggregate", "random1", "worst" or "noisy".
        clean: The official labels (50000,), which the file repeats.

    Raises:
        DataError: The file is missing, damaged, or made for other clean labels.
    """
    stem, key = _NOISY[dataset, labels]
    path, content = _read(root / "cifar-n", stem)
    if key not in content or "clean_label" not in content:
        raise DataError(f"{path} has no `{key}` and `clean_label`; get it anew.")
    if not np.array_equal(np.asarray(content["clean_label"]), clean.numpy()):
        raise DataError(f"{path} was made for other clean labels than those of {dataset}.")
    noisy = np.asarray(content[key], dtype=np.int64)
    if noisy.shape != tuple(clean.shape):
        raise DataError(f"{path} holds {len(noisy)} labels; {len(clean)} are expected.")
    return torch.from_numpy(noisy)


def load_human_probabilities(root: Path, n: int = 10_000) -> Tensor | None:
    """CIFAR-10H: how people label the 10,000 test images (Peterson et al. 2019).

    Args:
        root: The data root.
        n: Number of test images.

    Returns:
        Distributions (n, 10) float32, rows in the order of the test set; None without
        `cifar-10h/cifar10h-probs.npy` below the root.

    Raises:
        DataError: The file is damaged or of another shape.
    """
    path = root / "cifar-10h" / "cifar10h-probs.npy"
    if not path.exists():
        return None
    probabilities = np.array(read_array(path, (n, 10)))
    if not (np.abs(probabilities.sum(1) - 1) <= 1e-3).all() or not (probabilities >= 0).all():
        raise DataError(f"{path} does not hold probabilities; get it anew.")
    return torch.from_numpy(probabilities).float()


def _read(folder: Path, stem: str) -> tuple[Path, dict[str, Any]]:
    archive, tensors = folder / f"{stem}.npz", folder / _OFFICIAL_NAMES[stem]
    if archive.exists():
        try:
            with np.load(archive, allow_pickle=False) as file:
                return archive, {name: file[name] for name in file.files}
        except Exception as error:  # zipfile and numpy raise many kinds
            raise DataError(f"{archive} is not a readable .npz file ({error}).") from None
    if tensors.exists():
        return tensors, _read_tensors(tensors)
    url = sources()["cifar_n"].url
    raise DataError(f"{tensors} is missing: CIFAR-N is expected there; get it from {url}.")


def _read_tensors(path: Path) -> dict[str, Any]:
    # The authors' file is a dictionary of numpy arrays: torch must be told that those are harmless.
    reconstruct = np.empty(0).__reduce__()[0]
    kinds = [type(np.dtype(kind)) for kind in ("int8", "int32", "int64")]
    allowed: list[Any] = [reconstruct, np.ndarray, np.dtype, *kinds]
    try:
        with torch.serialization.safe_globals(allowed):
            content: dict[str, Any] = torch.load(path, weights_only=True)
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise DataError(f"{path} is not a readable label file ({error}).") from None
    return content

"""The MATLAB files of Street View House Numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from calibench.data.batch import Examples
from calibench.data.cache import Arrays, cached
from calibench.data.source import Checksum, DataError, sources

Half = Literal["train", "test"]


def read_svhn(root: Path, half: Half, checksum: Checksum) -> tuple[Examples, list[str]]:
    """Read the cropped digits of the training or test half, and caveats; the label 10 of the file means 0.

    Raises:
        DataError: The file is missing or damaged.
    """
    source, file = sources()["svhn"], f"{half}_32x32.mat"
    caveats = source.require(root, checksum=checksum, files=[file])
    path = source.path(root, file)
    arrays = cached(root / ".calibench" / f"svhn-{half}.npz", [path], lambda: _decode(path))
    pixels = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
    return Examples(pixels, torch.from_numpy(arrays["target"])), caveats


def _decode(path: Path) -> Arrays:
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["X", "y"])
        images, target = content["X"], content["y"].astype(np.int64).reshape(-1)
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise DataError(f"{path} is not SVHN's .mat file ({error}); get it anew.") from None
    if images.shape != (32, 32, 3, len(target)):
        raise DataError(
            f"{path} holds images of shape {images.shape}; (32, 32, 3, {len(target)}) is expected."
        )
    return {"pixels": np.ascontiguousarray(images.transpose(3, 0, 1, 2)), "target": target % 10}

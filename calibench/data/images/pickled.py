"""The pickled batches of CIFAR-10 and CIFAR-100, read without running what a pickle may contain."""

from __future__ import annotations

import codecs
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibench.data.batch import Examples
from calibench.data.source import DataError

_EMPTY_ARRAY = np.empty(0).__reduce__()[0]  # what makes the array that a pickle then fills
_ALLOWED = {  # what numpy arrays and byte strings need, under the names that numpy 1 and 2 write
    ("numpy.core.multiarray", "_reconstruct"): _EMPTY_ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _EMPTY_ARRAY,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,
    ("__builtin__", "bytes"): bytes,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> dict[str, Any]:
    """A dictionary of arrays, lists and strings.

    Raises:
        DataError: The file is not readable, is cut short, or holds something else.
    """
    try:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file, encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else key: content[key] for key in content}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise DataError(f"{path} is not a CIFAR batch ({error}); get it anew.") from None


def read_batches(paths: Sequence[Path], labels: str) -> Examples:
    """The images and labels of batch files, one after the other.

    Args:
        paths: The files.
        labels: The key of the labels, "labels" or "fine_labels".

    Returns:
        Images (N, 3, 32, 32) uint8, channels_last in memory, and labels (N,) int64.

    Raises:
        DataError: A file is damaged or of another shape.
    """
    parts = [_read_batch(path, labels) for path in paths]
    pixels = torch.from_numpy(np.concatenate([data for data, _ in parts])).view(-1, 3, 32, 32)
    target = torch.from_numpy(np.concatenate([target for _, target in parts]))
    return Examples(pixels.contiguous(memory_format=torch.channels_last), target)


def _read_batch(path: Path, labels: str) -> tuple[np.ndarray, np.ndarray]:
    batch = read_pickle(path)
    try:
        data, target = np.asarray(batch["data"]), np.asarray(batch[labels], dtype=np.int64)
    except (KeyError, ValueError, TypeError):
        raise DataError(f"{path} has no `data` and `{labels}`; get it anew.") from None
    if data.dtype != np.uint8 or data.shape != (len(target), 3072):
        raise DataError(
            f"{path} holds images of shape {data.shape} ({data.dtype}) and {len(target)} labels; "
            f"({len(target)}, 3072) of uint8 is expected."
        )
    return data, target

"""The files of CIFAR and SVHN, and named sets of images that any image module is evaluated on beside its test set."""

import codecs
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.cache import Arrays, load_or_decode
from calibench.data.images.decode import cached_images, find_class_images
from calibench.data.images.generated_corruptions import (
    add_noise,
    defocus_blur,
    fog,
    jpeg_compression,
)
from calibench.data.source import Checksum, DataError, official_sources

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


def read_pickle(path: Path) -> dict[str, object]:
    """A dictionary of arrays, lists and strings; a DataError if the file is cut short, or holds something else."""
    try:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file, encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else key: content[key] for key in content}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise DataError(f"{path} is not a CIFAR batch ({error}); get it anew.") from None


def read_batches(paths: Sequence[Path], labels: str) -> Examples:
    """The images of batch files (N, 3, 32, 32) uint8, channels_last in memory, and their labels under a key, (N,)."""
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


def read_svhn(root: Path, half: str, checksum: Checksum) -> tuple[Examples, list[str]]:
    """The cropped digits of a half, whose 10 means 0, and caveats; raises a DataError for a missing or damaged file."""
    source, file = official_sources()["svhn"], f"{half}_32x32.mat"
    caveats = source.require(root, checksum=checksum, files=[file])
    path = source.path(root, file)
    arrays = load_or_decode(
        root / ".calibench" / f"svhn-{half}.npz", [path], lambda: _read_mat(path)
    )
    pixels = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
    return Examples(pixels, torch.from_numpy(arrays["target"])), caveats


def _read_mat(path: Path) -> Arrays:
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


@dataclass(frozen=True)
class EvaluationContext:
    """The dataset whose test set, uint8 of a `side`, an evaluation set is put beside, and where files lie."""

    root: Path
    checksum: Checksum
    dataset: str
    side: int
    test: Examples
    classes: Sequence[str]


_CIFAR_GENERATORS = {
    "gaussian_noise": add_noise,
    "defocus_blur": defocus_blur,
    "fog": fog,
    "jpeg_compression": jpeg_compression,
}
GENERATORS: Mapping[str, Mapping[str, Callable[[Tensor, int], Tensor]]] = {
    "cifar10": _CIFAR_GENERATORS,
    "cifar100": _CIFAR_GENERATORS,
    "tiny_imagenet": {"gaussian_noise": partial(add_noise, std=(0.04, 0.08, 0.12, 0.15, 0.18))},
}
"""What makes a corruption of a severity (1 to 5) from clean uint8 images, for each image set that has an archive."""
_FOLDER_ARCHIVES = ("tiny_imagenet",)  # whose archives are folders of images, not arrays


def _load_corruption(name: str, context: EvaluationContext) -> EvaluationSet:
    """A test set under a corruption, `<corruption>-<severity>` (Hendrycks and Dietterich 2019).

    Of CIFAR there are arrays, one `<corruption>.npy` whose rows (s - 1) n to s n are severity s, in the order of the
    test set, and `labels.npy`; of Tiny-ImageNet folders, `<corruption>/<severity>/<class>/<image>.JPEG`. What has a
    generator is generated where the archive is absent, and named `<corruption>-<severity>-generated`.
    """
    corruption, _, last = name.rpartition("-")
    severity, root, archive = int(last), context.root, f"{context.dataset}_c"
    source, make = official_sources()[archive], GENERATORS[context.dataset].get(corruption)
    in_folders = context.dataset in _FOLDER_ARCHIVES
    files = [corruption] if in_folders else [f"{corruption}.npy", "labels.npy"]
    if make is not None and source.missing(root, files[:1]):
        corrupted = Examples(make(context.test.inputs, severity), context.test.target)
        return EvaluationSet(f"{name}-generated", "shift", corrupted)
    caveats = source.require(root, checksum=context.checksum, files=files)
    paths = [source.path(root, file) for file in files]
    if in_folders:
        cache = root / ".calibench" / archive / f"{corruption}-{severity}.npz"
        examples = _read_corruption_folders(paths[0] / last, context, cache)
    else:
        examples = _read_corruption_arrays(paths[0], paths[1], severity, context.test.target)
    return EvaluationSet(name, "shift", examples, tuple(caveats))


def _read_corruption_arrays(images: Path, labels: Path, severity: int, target: Tensor) -> Examples:
    """The rows of a severity, whose labels must be those of the test set."""
    n = len(target)
    rows = slice((severity - 1) * n, severity * n)
    if not np.array_equal(read_array(labels, (5 * n,))[rows], target.numpy()):
        raise DataError(f"{labels} has other labels than the test set.")
    pixels = np.array(read_array(images, (5 * n, 32, 32, 3))[rows])
    return Examples(torch.from_numpy(pixels).permute(0, 3, 1, 2), target)


def _read_corruption_folders(folder: Path, context: EvaluationContext, cache: Path) -> Examples:
    """The images of every class, class by class, decoded once; as many as the test set has."""
    files, expected = find_class_images(folder, context.classes), len(context.test.target)
    if len(files) != expected:
        raise DataError(
            f"{folder} holds {len(files)} images of the classes; {expected} are expected."
        )
    return cached_images(cache, files, side=context.test.inputs.shape[-1])


def read_array(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The array of an .npy file, mapped into memory; raises a DataError if it is damaged or of another shape."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable .npy file ({error}).") from None
    if array.shape != shape:
        raise DataError(f"{path} has shape {array.shape}; {shape} is expected.")
    return array


ImagesAndCaveats = tuple[Tensor, list[str]]
"""Images (N, 3, H, W) uint8, and caveats."""


def _read_cifar_images(
    context: EvaluationContext, *, name: str, labels: str, file: str
) -> ImagesAndCaveats:
    source = official_sources()[name]
    caveats = source.require(context.root, checksum=context.checksum, files=[file])
    return read_batches([source.path(context.root, file)], labels).inputs, caveats


def _read_svhn_images(context: EvaluationContext) -> ImagesAndCaveats:
    examples, caveats = read_svhn(context.root, "test", context.checksum)
    return examples.inputs, caveats


def _read_mnist_images(context: EvaluationContext) -> ImagesAndCaveats:
    from torchvision.datasets.mnist import read_image_file

    source, file = official_sources()["mnist"], "t10k-images-idx3-ubyte"
    caveats = source.require(context.root, checksum=context.checksum, files=[file])
    path = source.path(context.root, file)
    try:
        digits: Tensor = read_image_file(str(path))
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        raise DataError(f"{path} is not an idx file of images ({error}).") from None
    return F.pad(digits, [2, 2, 2, 2]).unsqueeze(1).expand(-1, 3, -1, -1), caveats


def _read_tiny_imagenet_images(context: EvaluationContext) -> ImagesAndCaveats:
    source = official_sources()["tiny_imagenet_32"]
    caveats = source.require(context.root, checksum=context.checksum)
    files = dict.fromkeys(sorted(source.path(context.root, "").glob("*/*.JPEG")), -1)
    cache = context.root / ".calibench" / "tiny-imagenet-32x32.npz"
    return cached_images(cache, files, side=32).inputs, caveats


def _draw_noise_images(context: EvaluationContext) -> ImagesAndCaveats:
    """Pixels from N(0.5, 1), clipped to [0, 1] (Liang et al. 2018, ODIN)."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(context.test.target), 3, context.side, context.side)
    values = (torch.randn(shape, generator=generator) + 0.5).clamp(0, 1)
    return values.mul(255).round().to(torch.uint8), []


_OOD: dict[str, Callable[[EvaluationContext], ImagesAndCaveats]] = {
    "svhn": _read_svhn_images,
    "cifar10": partial(_read_cifar_images, name="cifar10", labels="labels", file="test_batch"),
    "cifar100": partial(_read_cifar_images, name="cifar100", labels="fine_labels", file="test"),
    "mnist": _read_mnist_images,
    "tiny_imagenet": _read_tiny_imagenet_images,
    "noise": _draw_noise_images,
}


def load_named_set(name: str, context: EvaluationContext) -> EvaluationSet:
    """Read or make a named set; raises a DataError if its files are missing or damaged."""
    if name in _OOD:
        pixels, caveats = _OOD[name](context)
        stored = _resize(pixels, context.side).contiguous(memory_format=torch.channels_last)
        examples = Examples(stored, torch.full((len(stored),), -1))
        return EvaluationSet(name, "ood", examples, tuple(caveats))
    return _load_corruption(
        name, context
    )  # `names.of_images` offers corruptions only with an archive


def _resize(pixels: Tensor, side: int) -> Tensor:
    if pixels.shape[-1] == side:
        return pixels
    parts = [
        F.interpolate(part.float(), (side, side), mode="bilinear", antialias=True)
        for part in torch.split(pixels, 1000)
    ]
    return torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in parts])

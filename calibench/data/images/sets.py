"""Named sets of colour images that any image data module can be evaluated on beside its test set.

Out of distribution: `svhn`, `cifar10`, `cifar100`, `mnist`, `tiny_imagenet`, `noise`. Shifted, for CIFAR
and Tiny-ImageNet: `<corruption>-<severity>` such as `gaussian_noise-5`; patterns work (`*-5`,
`gaussian_noise-*`). Each set is resized to the data module's images where it must be, and
normalised like the in-distribution data.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.images.corruptions import ARCHIVES, EvaluationContext
from calibench.data.images.decode import cached_images
from calibench.data.images.matlab import read_svhn
from calibench.data.images.pickled import read_batches
from calibench.data.source import DataError, sources

Found = tuple[Tensor, list[str]]
"""Images (N, 3, H, W) uint8, and caveats."""


def _cifar(name: str, labels: str, file: str) -> Callable[[EvaluationContext], Found]:
    def load(context: EvaluationContext) -> Found:
        source = sources()[name]
        caveats = source.require(context.root, checksum=context.checksum, files=[file])
        return read_batches([source.path(context.root, file)], labels).inputs, caveats

    return load


def _svhn(context: EvaluationContext) -> Found:
    examples, caveats = read_svhn(context.root, "test", context.checksum)
    return examples.inputs, caveats


def _mnist(context: EvaluationContext) -> Found:
    from torchvision.datasets.mnist import read_image_file

    source, file = sources()["mnist"], "t10k-images-idx3-ubyte"
    caveats = source.require(context.root, checksum=context.checksum, files=[file])
    path = source.path(context.root, file)
    try:
        digits: Tensor = read_image_file(str(path))
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        raise DataError(f"{path} is not an idx file of images ({error}).") from None
    return F.pad(digits, [2, 2, 2, 2]).unsqueeze(1).expand(-1, 3, -1, -1), caveats


def _tiny_imagenet(context: EvaluationContext) -> Found:
    source = sources()["tiny_imagenet_32"]
    caveats = source.require(context.root, checksum=context.checksum)
    files = sorted(source.path(context.root, "").glob("*/*.JPEG"))
    cache = context.root / ".calibench" / "tiny-imagenet-32x32.npz"
    return cached_images(cache, files, side=32), caveats


def _noise(context: EvaluationContext) -> Found:
    """Pixels from N(0.5, 1), clipped to [0, 1] (Liang et al. 2018, ODIN)."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(context.test.target), 3, context.side, context.side)
    values = (torch.randn(shape, generator=generator) + 0.5).clamp(0, 1)
    return values.mul(255).round().to(torch.uint8), []


_OOD: dict[str, Callable[[EvaluationContext], Found]] = {
    "svhn": _svhn,
    "cifar10": _cifar("cifar10", "labels", "test_batch"),
    "cifar100": _cifar("cifar100", "fine_labels", "test"),
    "mnist": _mnist,
    "tiny_imagenet": _tiny_imagenet,
    "noise": _noise,
}


def load(name: str, context: EvaluationContext) -> EvaluationSet:
    """Read or make a named set.

    Raises:
        DataError: Its files are missing or damaged.
    """
    if name in _OOD:
        pixels, caveats = _OOD[name](context)
        stored = _resize(pixels, context.side).contiguous(memory_format=torch.channels_last)
        examples = Examples(stored, torch.full((len(stored),), -1))
        return EvaluationSet(name, "ood", examples, tuple(caveats))
    # `evaluation_sets.of_images` offers corruptions only with an archive
    return ARCHIVES[context.dataset].load(name, context)


def _resize(pixels: Tensor, side: int) -> Tensor:
    if pixels.shape[-1] == side:
        return pixels
    parts = [
        F.interpolate(part.float(), (side, side), mode="bilinear", antialias=True)
        for part in torch.split(pixels, 1000)
    ]
    return torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in parts])

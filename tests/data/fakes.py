"""Tiny datasets in the official layouts on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from calibench.data import fakes as of_the_package
from calibench.data.fakes import (
    FakeXrays,
    write_batch,
    write_chest_xrays,
    write_cifar10,
    write_cifar100,
    write_image,
    write_mnist,
    write_svhn,
    write_tiny_imagenet,
    write_tiny_imagenet_32,
)
from calibench.data.fakes import (
    dump_python2_pickle as dump_python2_pickle,
)
from calibench.data.images import imagenet
from calibench.data.images.chest_xray14 import XRAY_FOLDER


def pixels(n: int, *, seed: int = 0, side: int = 32) -> np.ndarray:
    """Random images (n, side, side, 3) uint8."""
    return np.random.default_rng(seed).integers(256, size=(n, side, side, 3), dtype=np.uint8)


def drawn(labels: Sequence[int], seed: int) -> np.ndarray:
    """Random images, whatever the labels are."""
    return pixels(len(labels), seed=seed)


batch, image = write_batch, write_image
cifar10 = partial(write_cifar10, per_batch=40, test=20, draw=drawn)
cifar100 = partial(write_cifar100, train=600, test=100, draw=drawn)
svhn = partial(write_svhn, train=60, test=20, draw=drawn)
mnist = partial(write_mnist, n=20)
tiny_imagenet = partial(write_tiny_imagenet, per_class=2)
tiny_imagenet_32 = partial(write_tiny_imagenet_32, n=6)


@contextmanager
def eight_classes_of_imagenet() -> Iterator[None]:
    """ImageNet has eight of its classes, inside: as good as 200, and their files take a 25th of the time."""
    few = [one for one in imagenet.imagenet_classes() if "r" in one.sets][:8]
    with pytest.MonkeyPatch.context() as patch:
        for module in (imagenet, of_the_package):
            patch.setattr(module, "imagenet_classes", lambda: few)
        yield


def cifar_c(
    root: Path, corruptions: Sequence[str], *, labels: Sequence[int], folder: str = "CIFAR-10-C"
) -> None:
    """CIFAR-10-C: (5 n, 32, 32, 3) uint8 by corruption; every pixel of severity s is 10 s."""
    target = root / folder
    target.mkdir(parents=True, exist_ok=True)
    n = len(labels)
    severity = np.repeat(np.arange(1, 6, dtype=np.uint8), n) * 10
    stack = np.broadcast_to(severity[:, None, None, None], (5 * n, 32, 32, 3))
    for corruption in corruptions:
        np.save(target / f"{corruption}.npy", stack)
    np.save(target / "labels.npy", np.tile(np.array(labels, dtype=np.uint8), 5))


def tiny_imagenet_c(root: Path, corruptions: Sequence[str], *, classes: int) -> None:
    """Tiny-ImageNet-C: <corruption>/<severity>/<class>/<image>.JPEG; an image's colour is (class, 10 severity, 0)."""
    for corruption in corruptions:
        for severity in range(1, 6):
            for label in range(classes):
                folder = root / "Tiny-ImageNet-C" / corruption / str(severity) / f"n{label:08d}"
                image(folder / f"val_{label}.JPEG", (label, 10 * severity, 0), 64)


def cifar10n(root: Path, clean: Sequence[int]) -> dict[str, np.ndarray]:
    """cifar-n/cifar10n.npz with the official keys."""
    labels = {"clean_label": np.array(clean, dtype=np.int8)}
    for shift, key in enumerate(("aggre_label", "random_label1", "worse_label"), start=1):
        labels[key] = (labels["clean_label"] + shift) % 10
    (root / "cifar-n").mkdir(parents=True, exist_ok=True)
    np.savez(root / "cifar-n" / "cifar10n.npz", **labels)
    return labels


def incomplete_chest_xrays(root: Path) -> FakeXrays:
    """ChestX-ray14 whose second image has no file."""
    fake = write_chest_xrays(root)
    (root / XRAY_FOLDER / "images" / fake.names[1]).unlink()
    return fake

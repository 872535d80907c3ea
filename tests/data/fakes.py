"""Tiny datasets in the official layouts on disk."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image


def pixels(n: int, *, seed: int = 0, side: int = 32) -> np.ndarray:
    """Random images (n, side, side, 3) uint8."""
    return np.random.default_rng(seed).integers(256, size=(n, side, side, 3), dtype=np.uint8)


def batch(path: Path, images: np.ndarray, labels: dict[str, Sequence[int]]) -> None:
    """One file of pickled images and labels."""
    flat = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(python2_pickle({"batch_label": "b", **labels, "data": flat}))


def python2_pickle(content: dict[str, object]) -> bytes:
    """A dictionary as Python 2 pickled it, and so the official files: its keys are byte strings."""
    parts = [b"\x80\x02}"]
    for key, value in content.items():
        parts.append(b"U" + bytes([len(key)]) + key.encode())
        parts.append(pickle.dumps(value, protocol=2)[2:-1])  # without its header and stop
        parts.append(b"s")
    return b"".join([*parts, b"."])


def cifar10(root: Path, *, per_batch: int = 40, test: int = 20) -> None:
    """cifar-10-batches-py: five training batches and a test batch of pickled dictionaries."""
    folder = root / "cifar-10-batches-py"
    for number in range(1, 6):
        labels = [i % 10 for i in range(per_batch)]
        batch(folder / f"data_batch_{number}", pixels(per_batch, seed=number), {"labels": labels})
    labels = [i % 10 for i in range(test)]
    batch(folder / "test_batch", pixels(test, seed=9), {"labels": labels})
    names = [f"class {k}" for k in range(10)]
    (folder / "batches.meta").write_bytes(python2_pickle({"label_names": names}))


def cifar100(root: Path, *, train: int = 600, test: int = 100) -> None:
    """cifar-100-python: `train`, `test` and `meta` with fine and coarse labels."""
    folder = root / "cifar-100-python"
    for name, n in (("train", train), ("test", test)):
        fine = [i % 100 for i in range(n)]
        labels = {"fine_labels": fine, "coarse_labels": [label // 5 for label in fine]}
        batch(folder / name, pixels(n, seed=n), labels)
    names = [f"class {k}" for k in range(100)]
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": names}))


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


def svhn(root: Path, *, train: int = 60, test: int = 20) -> None:
    """svhn: .mat files with X (32, 32, 3, n) and y (n, 1) in 1..10."""
    from scipy.io import savemat

    (root / "svhn").mkdir(parents=True, exist_ok=True)
    for name, n in (("train", train), ("test", test)):
        y = (np.arange(n) % 10 + 1).astype(np.uint8)[:, None]
        content = {"X": pixels(n, seed=n).transpose(1, 2, 3, 0), "y": y}
        savemat(root / "svhn" / f"{name}_32x32.mat", content, do_compression=True)


def mnist(root: Path, *, n: int = 20) -> None:
    """MNIST/raw: the test half's idx files; digit i is grey i in its first row, 255 elsewhere."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    images = np.full((n, 28, 28), 255, dtype=np.uint8)
    images[:, 0] = np.arange(n, dtype=np.uint8)[:, None]
    header = struct.pack(">IIII", 0x00000803, n, 28, 28)
    (folder / "t10k-images-idx3-ubyte").write_bytes(header + images.tobytes())
    labels = struct.pack(">II", 0x00000801, n) + bytes(i % 10 for i in range(n))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)


def image(path: Path, colour: tuple[int, int, int], side: int) -> None:
    """An image file of one colour; its name chooses the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_encoded(colour, side, "PNG" if path.suffix == ".png" else "JPEG"))


@cache
def _encoded(colour: tuple[int, int, int], side: int, format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(file, format=format)
    return file.getvalue()


def tiny_imagenet(root: Path, *, per_class: int = 2, classes: int = 200) -> None:
    """tiny-imagenet-200: class folders, an annotated flat validation folder, wnids.txt unsorted; red is class % 25."""
    folder = root / "tiny-imagenet-200"
    names = [f"n{number:08d}" for number in range(classes)]
    lines = []
    for label, name in enumerate(names):
        for i in range(per_class):
            file = folder / "train" / name / "images" / f"{name}_{i}.JPEG"
            image(file, (label % 25, 100, 50 * i), 64)
        image(folder / "val" / "images" / f"val_{label}.JPEG", (label % 25, 200, 128), 64)
        lines.append(f"val_{label}.JPEG\t{name}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(reversed(lines)))
    (folder / "wnids.txt").write_text("\n".join(reversed(names)) + "\n")


def tiny_imagenet_c(root: Path, corruptions: Sequence[str], *, classes: int) -> None:
    """Tiny-ImageNet-C: <corruption>/<severity>/<class>/<image>.JPEG; an image's colour is (class, 10 severity, 0)."""
    for corruption in corruptions:
        for severity in range(1, 6):
            for label in range(classes):
                folder = root / "Tiny-ImageNet-C" / corruption / str(severity) / f"n{label:08d}"
                image(folder / f"val_{label}.JPEG", (label, 10 * severity, 0), 64)


def tiny_imagenet_32(root: Path, *, n: int = 6) -> None:
    """tiny-imagenet-32x32: a folder per class of 32x32 JPEG files."""
    for i in range(n):
        image(root / "tiny-imagenet-32x32" / f"n{i % 3}" / f"val_{i}.JPEG", (40 * i, 0, 0), 32)


def cifar10n(root: Path, clean: Sequence[int]) -> dict[str, np.ndarray]:
    """cifar-n/cifar10n.npz with the official keys."""
    labels = {"clean_label": np.array(clean, dtype=np.int8)}
    for shift, key in enumerate(("aggre_label", "random_label1", "worse_label"), start=1):
        labels[key] = (labels["clean_label"] + shift) % 10
    (root / "cifar-n").mkdir(parents=True, exist_ok=True)
    np.savez(root / "cifar-n" / "cifar10n.npz", **labels)
    return labels

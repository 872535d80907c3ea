"""Made-up files in the official formats of public sets of images and texts: a class has its colour, or its words."""

import csv
import io
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]
Draw = Callable[[Sequence[int], int], Pixels]
"""Images (n, 32, 32, 3) of labels, by a seed."""


def coloured(labels: Sequence[int], seed: int = 0, side: int = 32) -> Pixels:
    """Noise about the colour of each image's class (n, side, side, 3)."""
    colours = np.random.default_rng(0).integers(60, 196, (max(labels) + 1, 1, 1, 3))
    noise = np.random.default_rng(seed).integers(-60, 60, (len(labels), side, side, 3))
    return (colours[list(labels)] + noise).astype(np.uint8)


def _labels(n: int, classes: int) -> list[int]:
    return [number % classes for number in range(n)]


def python2_pickle(content: Mapping[str, object]) -> bytes:
    """A dictionary as Python 2 pickled it, and so the official files: its keys are byte strings."""
    parts = [b"\x80\x02}"]
    for key, value in content.items():
        parts.append(b"U" + bytes([len(key)]) + key.encode())
        parts.append(pickle.dumps(value, protocol=2)[2:-1])  # without its header and stop
        parts.append(b"s")
    return b"".join([*parts, b"."])


def write_batch(path: Path, images: Pixels, labels: Mapping[str, Sequence[int]]) -> None:
    """Write one of CIFAR's files of pickled images (n, 32, 32, 3) and labels."""
    flat = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(python2_pickle({"batch_label": "b", **labels, "data": flat}))


def write_cifar10(
    root: Path, *, per_batch: int = 1200, test: int = 500, draw: Draw = coloured
) -> None:
    """Write `cifar-10-batches-py`: five training batches and a test batch of pickled dictionaries."""
    folder = root / "cifar-10-batches-py"
    for number in range(1, 6):
        labels = _labels(per_batch, 10)
        write_batch(folder / f"data_batch_{number}", draw(labels, number), {"labels": labels})
    labels = _labels(test, 10)
    write_batch(folder / "test_batch", draw(labels, 9), {"labels": labels})
    names = [f"class {k}" for k in range(10)]
    (folder / "batches.meta").write_bytes(python2_pickle({"label_names": names}))


def write_cifar100(
    root: Path, *, train: int = 10_000, test: int = 500, draw: Draw = coloured
) -> None:
    """Write `cifar-100-python`: `train`, `test` and `meta` with fine and coarse labels."""
    folder = root / "cifar-100-python"
    for name, n in (("train", train), ("test", test)):
        fine = _labels(n, 100)
        labels = {"fine_labels": fine, "coarse_labels": [label // 5 for label in fine]}
        write_batch(folder / name, draw(fine, n), labels)
    names = [f"class {k}" for k in range(100)]
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": names}))


def write_svhn(root: Path, *, train: int = 6000, test: int = 500, draw: Draw = coloured) -> None:
    """Write `svhn`: .mat files with X (32, 32, 3, n) and y (n, 1) in 1..10."""
    from scipy.io import savemat

    (root / "svhn").mkdir(parents=True, exist_ok=True)
    for name, n in (("train", train), ("test", test)):
        labels = _labels(n, 10)
        images = draw(labels, n).transpose(1, 2, 3, 0)
        y = np.array(labels, np.uint8)[:, None] + np.uint8(1)
        path = root / "svhn" / f"{name}_32x32.mat"
        savemat(path, {"X": images, "y": y}, do_compression=True)


def write_mnist(root: Path, *, n: int = 500) -> None:
    """Write `MNIST/raw`, the test half's idx files; digit i is grey i in its first row, 255 elsewhere."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    images = np.full((n, 28, 28), 255, dtype=np.uint8)
    images[:, 0] = (np.arange(n) % 256).astype(np.uint8)[:, None]
    header = struct.pack(">IIII", 0x00000803, n, 28, 28)
    (folder / "t10k-images-idx3-ubyte").write_bytes(header + images.tobytes())
    labels = struct.pack(">II", 0x00000801, n) + bytes(_labels(n, 10))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)


def write_image(path: Path, colour: tuple[int, int, int], side: int) -> None:
    """Write an image file of one colour; its name chooses the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_encoded(colour, side, "PNG" if path.suffix == ".png" else "JPEG"))


@cache
def _encoded(colour: tuple[int, int, int], side: int, format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(file, format=format)
    return file.getvalue()


def write_tiny_imagenet(root: Path, *, per_class: int = 52, classes: int = 200) -> None:
    """Write `tiny-imagenet-200`: class folders, an annotated flat validation folder, wnids.txt unsorted.

    Red is class % 25 in training images, so that few of the 200 classes can be told apart.
    """
    folder = root / "tiny-imagenet-200"
    names = [f"n{number:08d}" for number in range(classes)]
    lines = []
    for label, name in enumerate(names):
        for i in range(per_class):
            file = folder / "train" / name / "images" / f"{name}_{i}.JPEG"
            write_image(file, (label % 25, 100, 50 * i % 256), 64)
        write_image(folder / "val" / "images" / f"val_{label}.JPEG", (label % 25, 200, 128), 64)
        lines.append(f"val_{label}.JPEG\t{name}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(reversed(lines)))
    (folder / "wnids.txt").write_text("\n".join(reversed(names)) + "\n")


def write_tiny_imagenet_32(root: Path, *, n: int = 500) -> None:
    """Write `tiny-imagenet-32x32`: a folder per class of 32x32 JPEG files."""
    for i in range(n):
        path = root / "tiny-imagenet-32x32" / f"n{i % 3}" / f"val_{i}.JPEG"
        write_image(path, (40 * i % 256, 0, 0), 32)


_COMMON = "the a of and to in year said about from with more people news this that was after"


def _texts(words: Sequence[str], n: int, seed: int) -> Iterator[str]:
    """Texts of thirty common words, three of them the topic's; each ninth is of another seed's words only."""
    random = np.random.default_rng(seed)
    for number in range(n):
        text = list(random.choice(_COMMON.split(), 30))
        for place in random.choice(30, 3, replace=False) if number % 9 else ():
            text[place] = str(random.choice(words))
        yield " ".join(text)


def write_newsgroups(root: Path, *, train: int = 60, test: int = 30) -> None:
    """Write `20news-bydate/20news-bydate-{train,test}/<group>/<number>`, a post a file."""
    from calibench.data.text.corpus import GROUPS  # and torch

    for part, n in (("train", train), ("test", test)):
        for number, group in enumerate(GROUPS):
            folder = root / "20news-bydate" / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True, exist_ok=True)
            words = [group.replace(".", ""), *group.split(".")[1:]]
            for name, text in enumerate(_texts(words, n, n + number), start=50_000):
                post = f"From: someone\nNewsgroups: {group}\n\n{text} caf\xe9\n"
                (folder / str(name)).write_bytes(post.encode("latin-1"))


_NEWS = (
    "president minister troops",
    "team season coach",
    "shares profit oil",
    "software internet space",
)


def write_ag_news(root: Path, *, train: int = 1200, test: int = 400) -> None:
    """Write `ag_news_csv`: class 1 to 4, title and description, without a header."""
    folder = root / "ag_news_csv"
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", train), ("test", test)):
        of_topics = [_texts(words.split(), n, n + topic) for topic, words in enumerate(_NEWS)]
        with (folder / f"{part}.csv").open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows((1 + i % 4, f"Title {i}", next(of_topics[i % 4])) for i in range(n))


_MOODS = {
    "neutral": ("company", "office"), "positive": ("rose", "profit"), "negative": ("fell", "loss"),
}  # fmt: skip


def write_phrasebank(root: Path, *, texts: int = 600) -> None:
    """Write `financial_phrasebank/financialphrasebank.csv`: label and text without a header, in Latin-1."""
    folder = root / "financial_phrasebank"
    folder.mkdir(parents=True, exist_ok=True)
    of_moods = [_texts(words, texts, 1 + mood) for mood, words in enumerate(_MOODS.values())]
    moods = [*enumerate(_MOODS)] * (texts // 3)
    rows = [f'{label},"{next(of_moods[i])} caf\xe9"' for i, label in moods]
    (folder / "financialphrasebank.csv").write_bytes("\r".join(rows).encode("latin-1"))

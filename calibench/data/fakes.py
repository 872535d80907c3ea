"""Made-up files in the official formats of data sets, for trials and tests: a class has its colour, or its words."""

import csv
import io
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from calibench.data.images.chest_xray14 import (
    FINDINGS,
    NO_FINDING,
    XRAY_COLUMNS,
    XRAY_FOLDER,
    XRAY_LISTS,
    XRAY_TABLES,
)
from calibench.data.images.imagenet import imagenet_classes
from calibench.data.text.corpus import NEWSGROUPS
from calibench.data.text.news import FINSEN

Pixels = npt.NDArray[np.uint8]
Draw = Callable[[Sequence[int], int], Pixels]
"""Images (n, 32, 32, 3) of labels, by a seed."""


def draw_coloured_images(labels: Sequence[int], seed: int = 0, side: int = 32) -> Pixels:
    """Noise about the colour of each image's class (n, side, side, 3)."""
    colours = np.random.default_rng(0).integers(60, 196, (max(labels) + 1, 1, 1, 3))
    noise = np.random.default_rng(seed).integers(-60, 60, (len(labels), side, side, 3))
    return (colours[list(labels)] + noise).astype(np.uint8)


def _make_folder(folder: Path) -> Path:
    """The folder, which is there from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cycle_labels(n: int, classes: int) -> list[int]:
    return [number % classes for number in range(n)]


def dump_python2_pickle(content: Mapping[str, object]) -> bytes:
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
    _make_folder(path.parent)
    path.write_bytes(dump_python2_pickle({"batch_label": "b", **labels, "data": flat}))


def write_cifar10(
    root: Path, *, per_batch: int = 1200, test: int = 500, draw: Draw = draw_coloured_images
) -> None:
    """Write `cifar-10-batches-py`: five training batches and a test batch of pickled dictionaries."""
    folder = root / "cifar-10-batches-py"
    batches = [(f"data_batch_{number}", per_batch, number) for number in range(1, 6)]
    for name, n, seed in [*batches, ("test_batch", test, 9)]:
        labels = _cycle_labels(n, 10)
        write_batch(folder / name, draw(labels, seed), {"labels": labels})
    names = [f"class {k}" for k in range(10)]
    (folder / "batches.meta").write_bytes(dump_python2_pickle({"label_names": names}))


def write_cifar100(
    root: Path, *, train: int = 10_000, test: int = 500, draw: Draw = draw_coloured_images
) -> None:
    """Write `cifar-100-python`: `train`, `test` and `meta` with fine and coarse labels."""
    folder = root / "cifar-100-python"
    for name, n in (("train", train), ("test", test)):
        fine = _cycle_labels(n, 100)
        labels = {"fine_labels": fine, "coarse_labels": [label // 5 for label in fine]}
        write_batch(folder / name, draw(fine, n), labels)
    names = [f"class {k}" for k in range(100)]
    (folder / "meta").write_bytes(dump_python2_pickle({"fine_label_names": names}))


def write_svhn(
    root: Path, *, train: int = 6000, test: int = 500, draw: Draw = draw_coloured_images
) -> None:
    """Write `svhn`: .mat files with X (32, 32, 3, n) and y (n, 1) in 1..10."""
    from scipy.io import savemat

    folder = _make_folder(root / "svhn")
    for name, n in (("train", train), ("test", test)):
        labels = _cycle_labels(n, 10)
        images = draw(labels, n).transpose(1, 2, 3, 0)
        y = np.array(labels, np.uint8)[:, None] + np.uint8(1)
        savemat(folder / f"{name}_32x32.mat", {"X": images, "y": y}, do_compression=True)


def write_mnist(root: Path, *, n: int = 500) -> None:
    """Write `MNIST/raw`, the test half's idx files; digit i is grey i in its first row, 255 elsewhere."""
    folder = _make_folder(root / "MNIST" / "raw")
    images = np.full((n, 28, 28), 255, dtype=np.uint8)
    images[:, 0] = (np.arange(n) % 256).astype(np.uint8)[:, None]
    header = struct.pack(">IIII", 0x00000803, n, 28, 28)
    (folder / "t10k-images-idx3-ubyte").write_bytes(header + images.tobytes())
    labels = struct.pack(">II", 0x00000801, n) + bytes(_cycle_labels(n, 10))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)


def write_image(path: Path, colour: tuple[int, int, int], side: int) -> None:
    """Write an image file of one colour; its name chooses the format."""
    _make_folder(path.parent)
    path.write_bytes(_encode_image(colour, side, "PNG" if path.suffix == ".png" else "JPEG"))


@cache
def _encode_image(colour: tuple[int, int, int], side: int, format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(file, format=format)
    return file.getvalue()


def write_tiny_imagenet(root: Path, *, per_class: int = 52, classes: int = 200) -> None:
    """Write `tiny-imagenet-200`: class folders, an annotated flat validation folder, wnids.txt unsorted.

    Red is class % 25 in training images, so that few of the 200 classes are separable.
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
    folder = root / "tiny-imagenet-32x32"
    for i in range(n):
        write_image(folder / f"n{i % 3}" / f"val_{i}.JPEG", (40 * i % 256, 0, 0), 32)


_COMMON = "the a of and to in year said about from with more people news this that was after"


def _draw_text(words: Sequence[str], random: np.random.Generator, *, of_topic: bool = True) -> str:
    """Thirty common words, of which three are the topic's."""
    text = list(random.choice(_COMMON.split(), 30))
    for place in random.choice(30, 3, replace=False) if of_topic else ():
        text[place] = str(random.choice(words))
    return " ".join(text)


def _draw_texts(words: Sequence[str], n: int, seed: int) -> Iterator[str]:
    """Texts of a topic; each ninth has common words only."""
    random = np.random.default_rng(seed)
    return (_draw_text(words, random, of_topic=number % 9 > 0) for number in range(n))


def write_newsgroups(root: Path, *, train: int = 60, test: int = 30) -> None:
    """Write `20news-bydate/20news-bydate-{train,test}/<group>/<number>`, a post a file."""
    for part, n in (("train", train), ("test", test)):
        for number, group in enumerate(NEWSGROUPS):
            folder = _make_folder(root / "20news-bydate" / f"20news-bydate-{part}" / group)
            words = [group.replace(".", ""), *group.split(".")[1:]]
            for name, text in enumerate(_draw_texts(words, n, n + number), start=50_000):
                post = f"From: someone\nNewsgroups: {group}\n\n{text} caf\xe9\n"
                (folder / str(name)).write_bytes(post.encode("latin-1"))


_NEWS = (
    "president minister troops", "team season coach", "shares profit oil", "software internet space",
)  # fmt: skip


def write_ag_news(root: Path, *, train: int = 1200, test: int = 400) -> None:
    """Write `ag_news_csv`: class 1 to 4, title and description, without a header."""
    folder = _make_folder(root / "ag_news_csv")
    for part, n in (("train", train), ("test", test)):
        of_topics = [_draw_texts(words.split(), n, n + topic) for topic, words in enumerate(_NEWS)]
        with (folder / f"{part}.csv").open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows((1 + i % 4, f"Title {i}", next(of_topics[i % 4])) for i in range(n))


_MOODS = {
    "neutral": ("company", "office"), "positive": ("rose", "profit"), "negative": ("fell", "loss"),
}  # fmt: skip


def write_phrasebank(root: Path, *, texts: int = 600) -> None:
    """Write `financial_phrasebank/financialphrasebank.csv`: label and text without a header, in Latin-1."""
    folder = _make_folder(root / "financial_phrasebank")
    of_moods = [_draw_texts(words, texts, 1 + mood) for mood, words in enumerate(_MOODS.values())]
    moods = [*enumerate(_MOODS)] * (texts // 3)
    rows = [f'{label},"{next(of_moods[i])} caf\xe9"' for i, label in moods]
    (folder / "financialphrasebank.csv").write_bytes("\r".join(rows).encode("latin-1"))


SIDE = 64
SQUARE = 7
_LATER = "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"


class FakeXrays(NamedTuple):
    """Fake chest X-rays: names of the images, their patients (N,), and findings (N, 14)."""

    names: list[str]
    patients: npt.NDArray[np.int64]
    target: npt.NDArray[np.int8]


def finding_corner(finding: int) -> tuple[int, int]:
    """Top and left of the square of a finding, in pixels: in the left half, so that no mirror image is another's."""
    return 9 * (finding // 2) + 1, 16 * (finding % 2) + 4


def write_chest_xrays(root: Path) -> FakeXrays:
    """Write `ChestX-ray14` below a folder: 1 to 3 images of each of 40 patients, the table, and all lists.

    One image is RGBA, and hernias are never there. The last 12 patients are for testing; in the reproduction's lists,
    the 4 before are for validation.
    """
    random = np.random.default_rng(0)
    folder = root / XRAY_FOLDER
    for part in ("images", "labels"):
        _make_folder(folder / part)
    patient = np.repeat(np.arange(1, 41), random.integers(1, 4, size=40))
    target = (random.random((len(patient), len(FINDINGS))) < 0.35).astype(np.int8)
    target[:, FINDINGS.index("Hernia")] = 0
    visits = [int((patient[:i] == person).sum()) for i, person in enumerate(patient)]
    names = [f"{person:08d}_{visit:03d}.png" for person, visit in zip(patient, visits, strict=True)]
    for number, (name, findings) in enumerate(zip(names, target, strict=True)):
        image = Image.fromarray(_draw_xrays(findings, random))
        (image.convert("RGBA") if number == 2 else image).save(folder / "images" / name)
    fake = FakeXrays(names, patient, target)
    _write_tables(folder, fake)
    return fake


def _draw_xrays(
    findings: npt.NDArray[np.int8], random: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """A grey image with noise, and a bright square for each finding."""
    pixels = random.integers(40, 90, size=(SIDE, SIDE))
    for finding in np.flatnonzero(findings):
        top, left = finding_corner(int(finding))
        pixels[top : top + SQUARE, left : left + SQUARE] += 120
    return pixels.astype(np.uint8)


def _write_tables(folder: Path, fake: FakeXrays) -> None:
    names, patient, target = fake
    findings_of_images = ["|".join(FINDINGS[i] for i in np.flatnonzero(row)) for row in target]
    rows = [
        f"{name},{findings or NO_FINDING},{int(name[9:12])},{person},{40 + person % 50},{'FM'[person % 2]},"
        f"PA,{SIDE},{SIDE},0.143,0.143,"
        for name, findings, person in zip(names, findings_of_images, patient, strict=True)
    ]
    (folder / XRAY_TABLES[0]).write_text(
        "\n".join([f"{','.join(XRAY_COLUMNS)},{_LATER}", *rows]) + "\n"
    )
    splits = {"train": patient <= 24, "test": patient > 28}
    splits["val"] = ~(splits["train"] | splits["test"])
    for file, boxes in zip(XRAY_LISTS, (~splits["test"], splits["test"]), strict=True):
        (folder / file).write_text("".join(f"{names[i]}\n" for i in np.flatnonzero(boxes)))
    for name, boxes in splits.items():
        lines = [f"{names[i]} {' '.join(map(str, target[i]))}\n" for i in np.flatnonzero(boxes)]
        (folder / "labels" / f"{name}_list.txt").write_text("".join(lines))


FINSEN_TOPICS = {
    "Currency": ("euro", "yen", "exchange", "peso"),
    "Employment": ("jobs", "payrolls", "unemployment", "wages"),
    "Housing": ("homes", "mortgage", "builders", "permits"),
    "Inflation": ("prices", "consumer", "inflation", "energy"),
    "Interest Rate": ("rate", "bank", "committee", "hike"),
    "Stock Market": ("shares", "index", "stocks", "futures"),
}


def write_finsen(root: Path, *, texts: int = 600) -> list[tuple[str, str]]:
    """Write `FinSen/FinSen_US_Categorized_Timestamp.csv` below a folder; returns (category, content) of each row.

    A tenth of the texts is of another topic than its words. Categories end in blanks here and there; contents have
    quotes and newlines; every 20th text is the one before it with another last word.
    """
    random = np.random.default_rng(0)
    rows: list[tuple[str, str]] = []
    for number in range(texts):
        category = str(random.choice(list(FINSEN_TOPICS)))
        if number % 20 == 19:
            category, content = rows[-1][0], f"{rows[-1][1].rsplit(' ', 1)[0]} again"
        else:
            first, _, others = _draw_text(FINSEN_TOPICS[category], random).partition(" ")
            content = f'"{first}".\n{others}'
            category = (
                str(random.choice(list(FINSEN_TOPICS))) if random.random() < 0.1 else category
            )
        rows.append((category, content))
    with (_make_folder(root / "FinSen") / FINSEN).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Title", "Category", "Time", "Content"])
        for number, (category, content) in enumerate(rows):
            blanks = " " * int(number % 5 == 0)
            writer.writerow([f"Title {number}", category + blanks, "01/02/2019", content])
    return rows


def write_imagenet(root: Path, *, subset: bool = False) -> None:
    """Write `imagenet/{train,val}` below a folder, and a few images of each of its evaluation sets.

    A class, of all or for a `subset` of those of ImageNet-R, is a colour; an image has noise, and 48 x 40 pixels.
    ImageNet-C is of Gaussian noise alone. There are two training images of a class, and two for validation.
    """
    random = np.random.default_rng(0)

    def write(path: Path, number: int, noise: int = 20) -> None:
        _make_folder(path.parent)
        colour = np.array([(number * step) % 180 + 30 for step in (7, 61, 113)])
        pixels = colour + random.integers(-noise, noise, size=(40, 48, 1))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=80)

    for number, (wnid, _, sets) in enumerate(imagenet_classes()):
        if subset and "r" not in sets:
            continue
        for image in range(2):
            write(root / "imagenet" / "train" / wnid / f"{wnid}_{image}.JPEG", number)
        for image in range(2 * number, 2 * number + 2):
            name = f"{wnid}/ILSVRC2012_val_{image + 1:08d}.JPEG"
            write(root / "imagenet" / "val" / name, number)
            write(root / "imagenet-c" / "gaussian_noise" / "5" / name, number, noise=80)
        write(root / "imagenetv2-matched-frequency-format-val" / str(number) / "0.jpeg", number)
        for letter in sets.strip("-"):
            write(root / f"imagenet-{letter}" / wnid / "0.jpg", number)


# Regions of Desikan and Killiany's atlas, as the archive writes them.
_REGIONS = (
    "BANKSSTS", "CAUDALANTERIORCINGULATE", "CAUDALMIDDLEFRONTAL", "CUNEUS", "ENTORHINAL", "FRONTALPOLE",
    "FUSIFORM", "INFERIORPARIETAL", "INFERIORTEMPORAL", "INSULA", "ISTHMUSCINGULATE", "LATERALOCCIPITAL",
    "LATERALORBITOFRONTAL", "LINGUAL", "MEDIALORBITOFRONTAL", "MIDDLETEMPORAL", "PARACENTRAL",
    "PARAHIPPOCAMPAL", "PARSOPERCULARIS", "PARSORBITALIS", "PARSTRIANGULARIS", "PERICALCARINE", "POSTCENTRAL",
    "POSTERIORCINGULATE", "PRECENTRAL", "PRECUNEUS", "ROSTRALANTERIORCINGULATE", "ROSTRALMIDDLEFRONTAL",
    "SUPERIORFRONTAL", "SUPERIORPARIETAL", "SUPERIORTEMPORAL", "SUPRAMARGINAL", "TEMPORALPOLE",
    "TRANSVERSETEMPORAL",
)  # fmt: skip
REGION_COLUMNS = [f"CTX_{side}_{region}_SUVR" for side in ("LH", "RH") for region in _REGIONS]
_UNKNOWN = ["CTX_LH_UNKNOWN_SUVR", "CTX_RH_UNKNOWN_SUVR"]  # in the archive, no region of the atlas


class Scans(NamedTuple):
    """Subjects (N,), diagnoses as numbers of CN, MCI and AD (N,), and uptake ratios (N, 68)."""

    subjects: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    uptake: npt.NDArray[np.float64]


def make_scans() -> Scans:
    """1,080 scans of 300 subjects with 1 to 6 each: Gaussian about the class's mean, alike within a subject.

    In every region the mean is 1.2 of CN, 1.22 of MCI and 1.24 of AD; subjects and scans have a deviation of 0.1 each.
    """
    random = np.random.default_rng(0)
    diagnosis = random.permutation(np.repeat(range(3), (150, 105, 45)))
    counts = np.ones(300, np.int64)
    while counts.sum() < 1080:
        counts[random.choice(np.flatnonzero(counts < 6))] += 1
    subjects = np.repeat(np.arange(300), counts)
    target = diagnosis[subjects]
    subject_offsets = random.normal(0, 0.1, (300, len(REGION_COLUMNS)))[subjects]
    noise = random.normal(0, 0.1, subject_offsets.shape)
    return Scans(subjects, target, 1.2 + 0.02 * target[:, None] + subject_offsets + noise)


def write_scans(root: Path) -> Scans:
    """Write `av1451/av1451.csv` below a folder, with columns RID, DX and one of each region."""
    import pandas

    scans = make_scans()
    frame = pandas.DataFrame(scans.uptake, columns=REGION_COLUMNS)
    frame[_UNKNOWN] = 1.0
    frame.insert(0, "RID", scans.subjects)
    frame.insert(1, "DX", np.array(["CN", "MCI", "AD"])[scans.target])
    path = _make_folder(root / "av1451") / "av1451.csv"
    frame.to_csv(path, index=False, float_format="%.5f")
    return scans

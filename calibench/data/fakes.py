"""Made-up files in the official formats of data sets that cannot be downloaded by everybody, for trials and tests."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from calibench.data.images.chest_xray14 import COLUMNS, FINDINGS, FOLDER, LISTS, NONE, TABLES
from calibench.data.images.imagenet import imagenet_classes
from calibench.data.text.news import FINSEN

SIDE = 64
SQUARE = 7
PATIENTS = 40
TEST_PATIENTS = 12
ABSENT = "Hernia"
_LATER = "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"


class Fake(NamedTuple):
    """What was made: names of the images, their patients (N,), findings (N, 14), and the one without a file, if any."""

    names: list[str]
    patients: npt.NDArray[np.int64]
    target: npt.NDArray[np.int8]
    missing: str


def corner(finding: int) -> tuple[int, int]:
    """Top and left of the square of a finding, in pixels: in the left half, so that no mirror image is another's."""
    return 9 * (finding // 2) + 1, 16 * (finding % 2) + 4


def write_chest_xrays(
    root: Path, *, patients: int = PATIENTS, seed: int = 0, incomplete: bool = False
) -> Fake:
    """Write `ChestX-ray14` below a folder: 1 to 3 images of each patient, the table, and all lists.

    One image is RGBA, one finding is never there, and where it is to be `incomplete`, one image has no file. The last
    patients are for testing; in the reproduction's lists, the ones before are for validation.
    """
    random = np.random.default_rng(seed)
    folder = root / FOLDER
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "labels").mkdir(exist_ok=True)
    patient = np.repeat(np.arange(1, patients + 1), random.integers(1, 4, size=patients))
    target = (random.random((len(patient), len(FINDINGS))) < 0.35).astype(np.int8)
    target[:, FINDINGS.index(ABSENT)] = 0
    visits = [int((patient[:i] == one).sum()) for i, one in enumerate(patient)]
    names = [f"{one:08d}_{visit:03d}.png" for one, visit in zip(patient, visits, strict=True)]
    missing = names[1] if incomplete else ""
    for number, (name, findings) in enumerate(zip(names, target, strict=True)):
        if name != missing:
            image = Image.fromarray(_pixels(findings, random))
            (image.convert("RGBA") if number == 2 else image).save(folder / "images" / name)
    _write_tables(folder, names, patient, visits, target)
    return Fake(names, patient, target, missing)


def _pixels(findings: npt.NDArray[np.int8], random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """A grey image with noise, and a bright square for each finding."""
    pixels = random.integers(40, 90, size=(SIDE, SIDE))
    for finding in np.flatnonzero(findings):
        top, left = corner(int(finding))
        pixels[top : top + SQUARE, left : left + SQUARE] += 120
    return pixels.astype(np.uint8)


def _write_tables(
    folder: Path,
    names: list[str],
    patient: npt.NDArray[np.int64],
    visits: list[int],
    target: npt.NDArray[np.int8],
) -> None:
    found = ["|".join(FINDINGS[i] for i in np.flatnonzero(one)) or NONE for one in target]
    rows = [
        f"{name},{findings},{visit},{one},{40 + one % 50},{'FM'[one % 2]},PA,{SIDE},{SIDE},0.143,0.143,"
        for name, findings, visit, one in zip(names, found, visits, patient, strict=True)
    ]
    (folder / TABLES[0]).write_text("\n".join([f"{','.join(COLUMNS)},{_LATER}", *rows]) + "\n")
    first_test = patient.max() - TEST_PATIENTS + 1
    splits = {"train": patient < first_test - 4, "test": patient >= first_test}
    splits["val"] = ~(splits["train"] | splits["test"])
    for file, own in zip(LISTS, (~splits["test"], splits["test"]), strict=True):
        (folder / file).write_text("".join(f"{names[i]}\n" for i in np.flatnonzero(own)))
    for name, own in splits.items():
        lines = [f"{names[i]} {' '.join(map(str, target[i]))}\n" for i in np.flatnonzero(own)]
        (folder / "labels" / f"{name}_list.txt").write_text("".join(lines))


TOPICS = {
    "Currency": ("euro", "yen", "exchange", "peso"),
    "Employment": ("jobs", "payrolls", "unemployment", "wages"),
    "Housing": ("homes", "mortgage", "builders", "permits"),
    "Inflation": ("prices", "consumer", "inflation", "energy"),
    "Interest Rate": ("rate", "bank", "committee", "hike"),
    "Stock Market": ("shares", "index", "stocks", "futures"),
}
_OTHERS = "the month rose fell to a from percent in year above forecast analysts said quarter since".split()  # noqa: SIM905


def write_finsen(root: Path, *, texts: int = 600, seed: int = 0) -> list[tuple[str, str]]:
    """Write `FinSen/FinSen_US_Categorized_Timestamp.csv` below a folder; returns (category, content) of each row.

    A tenth of the texts is of another topic than its words. Categories end in blanks here and there; contents have
    quotes and newlines; every 20th text is the one before it with another last word.
    """
    random = np.random.default_rng(seed)
    rows: list[tuple[str, str]] = []
    for number in range(texts):
        category = str(random.choice(list(TOPICS)))
        if number % 20 == 19:
            category, content = rows[-1][0], f"{rows[-1][1].rsplit(' ', 1)[0]} again"
        else:
            content = _content(category, random)
            category = str(random.choice(list(TOPICS))) if random.random() < 0.1 else category
        rows.append((category, content))
    path = root / "FinSen" / FINSEN
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Title", "Category", "Time", "Content"])
        for number, (category, content) in enumerate(rows):
            blanks = " " * int(number % 5 == 0)
            writer.writerow([f"Title {number}", category + blanks, "01/02/2019", content])
    return rows


def _content(category: str, random: np.random.Generator) -> str:
    """Some forty words, of which a few are the topic's, in two lines with a quotation."""
    words = list(random.choice(_OTHERS, 38))
    for place in random.choice(len(words), 4, replace=False):
        words[place] = random.choice(TOPICS[category])
    middle = len(words) // 2
    return f'{" ".join(words[:middle])}.\n"{words[middle]}", {" ".join(words[middle:])}'


def write_imagenet(root: Path, *, subset: bool = False, train: int = 2) -> None:
    """Write `imagenet/{train,val}` below a folder, and a few images of each of its evaluation sets.

    A class is a colour; an image has noise, and 48 x 40 pixels. ImageNet-C is of Gaussian noise alone.

    Args:
        root: The folder.
        subset: Write the classes of ImageNet-R alone.
        train: Training images of a class; there are two validation images.
    """
    random = np.random.default_rng(0)

    def write(path: Path, number: int, noise: int = 20) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        colour = np.array([(number * step) % 180 + 30 for step in (7, 61, 113)])
        pixels = colour + random.integers(-noise, noise, size=(40, 48, 1))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=80)

    for number, (wnid, _, sets) in enumerate(imagenet_classes()):
        if subset and "r" not in sets:
            continue
        for image in range(train):
            write(root / "imagenet" / "train" / wnid / f"{wnid}_{image}.JPEG", number)
        for image in range(2 * number, 2 * number + 2):
            name = f"{wnid}/ILSVRC2012_val_{image + 1:08d}.JPEG"
            write(root / "imagenet" / "val" / name, number)
            write(root / "imagenet-c" / "gaussian_noise" / "5" / name, number, noise=80)
        write(root / "imagenetv2-matched-frequency-format-val" / str(number) / "0.jpeg", number)
        for letter in sets.strip("-"):
            write(root / f"imagenet-{letter}" / wnid / "0.jpg", number)


SCANS_FILE = "av1451/av1451.csv"
SUBJECTS, SCANS = 300, 1080
DIAGNOSES = ("CN", "MCI", "AD")
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

_SHARES = (0.5, 0.35, 0.15)  # of the subjects
_BASE, _STEP = 1.2, 0.02  # SUVR of the first class in every region, and from class to class
_OF_SUBJECT, _OF_SCAN = 0.1, 0.1  # standard deviations


class Scans(NamedTuple):
    """Subjects (N,), diagnoses as numbers of `DIAGNOSES` (N,), and uptake ratios (N, 68)."""

    subjects: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    uptake: npt.NDArray[np.float64]


def make_scans(seed: int = 0) -> Scans:
    """1,080 scans of 300 subjects with 1 to 6 each: Gaussian about the class's mean, alike within a subject."""
    random = np.random.default_rng(seed)
    diagnosis = random.permutation(
        np.repeat(range(3), np.rint(np.array(_SHARES) * SUBJECTS).astype(int))
    )
    counts = np.ones(SUBJECTS, np.int64)
    while counts.sum() < SCANS:
        counts[random.choice(np.flatnonzero(counts < 6))] += 1
    subjects = np.repeat(np.arange(SUBJECTS), counts)
    target = diagnosis[subjects]
    own = random.normal(0, _OF_SUBJECT, (SUBJECTS, len(REGION_COLUMNS)))[subjects]
    noise = random.normal(0, _OF_SCAN, own.shape)
    return Scans(subjects, target, _BASE + _STEP * target[:, None] + own + noise)


def write_scans(root: Path) -> Scans:
    """Write `av1451/av1451.csv` below a folder, with columns RID, DX and one of each region."""
    import pandas

    scans = make_scans()
    path = root / SCANS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pandas.DataFrame(scans.uptake, columns=REGION_COLUMNS)
    frame[_UNKNOWN] = 1.0
    frame.insert(0, "RID", scans.subjects)
    frame.insert(1, "DX", np.array(DIAGNOSES)[scans.target])
    frame.to_csv(path, index=False, float_format="%.5f")
    return scans

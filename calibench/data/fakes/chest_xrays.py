"""A few made-up X-rays in the official format of ChestX-ray14: each finding is a bright square at its own place."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from calibench.data.images.chest_xray14_files import COLUMNS, FINDINGS, FOLDER, LISTS, NONE, TABLES

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
    rows = [
        f"{name},{_text(findings)},{visit},{one},{40 + one % 50},{'FM'[one % 2]},PA,{SIDE},{SIDE},0.143,0.143,"
        for name, findings, visit, one in zip(names, target, visits, patient, strict=True)
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


def _text(findings: npt.NDArray[np.int8]) -> str:
    return "|".join(FINDINGS[i] for i in np.flatnonzero(findings)) or NONE

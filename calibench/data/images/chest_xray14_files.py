"""The files of ChestX-ray14: its table of findings, its lists of images, and its folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.data.images.labelled import LabelledFiles
from calibench.data.source import DataError
from calibench.ground.errors import near_matches

FOLDER = "ChestX-ray14"
TABLES = ("Data_Entry_2017.csv", "Data_Entry_2017_v2020.csv")
LISTS = ("train_val_list.txt", "test_list.txt")
FINDINGS = (
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
    "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening", "Hernia",
)  # fmt: skip
NONE = "No Finding"
# The names of later columns, OriginalImage[Width,Height] and OriginalImagePixelSpacing[x,y], hold commas.
COLUMNS = (
    "Image Index", "Finding Labels", "Follow-up #", "Patient ID", "Patient Age", "Patient Gender", "View Position",
)  # fmt: skip


class Entries(NamedTuple):
    """Rows of the table of findings: images, their patients (N,), and findings (N, 14) int8."""

    path: Path
    names: list[str]
    patients: npt.NDArray[np.int64]
    target: npt.NDArray[np.int8]


def read_entries(folder: Path) -> Entries:
    """Read the table of findings: the first seven fields of each row.

    Raises:
        DataError: It is missing, has other columns, or names an unknown finding.
    """
    import pandas

    path = next((folder / name for name in TABLES if (folder / name).is_file()), folder / TABLES[0])
    if not path.is_file():
        raise DataError(
            f"{path} is missing: ChestX-ray14 is expected in {folder}; get it from https://nihcc.app.box.com/v/ChestXray-NIHCC."
        )
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = tuple(
                name.strip('" \n') for name in file.readline().split(",")[: len(COLUMNS)]
            )
            if header != COLUMNS:
                raise DataError(
                    f"{path} must begin with the columns {','.join(COLUMNS)}, got {','.join(header)}."
                )
            frame = pandas.read_csv(
                file, names=COLUMNS, usecols=range(len(COLUMNS)), index_col=False, keep_default_na=False,
                dtype={"Finding Labels": "category", "Patient ID": np.int64},
            )  # fmt: skip
    except (ValueError, OSError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None
    findings = frame["Finding Labels"].cat
    number, texts = findings.codes.to_numpy(), list(findings.categories)
    rows = {text: int(np.flatnonzero(number == place)[0]) + 2 for place, text in enumerate(texts)}
    table = np.stack([_findings(text, f"{path}, row {rows[text]}") for text in texts])
    names = frame["Image Index"].astype(str).tolist()
    return Entries(path, names, frame["Patient ID"].to_numpy(), table[number])


def _findings(text: str, where: str) -> npt.NDArray[np.int8]:
    found = np.zeros(len(FINDINGS), dtype=np.int8)
    for name in text.split("|") if text != NONE else ():
        if name not in FINDINGS:
            raise DataError(f"{where}: there is no finding `{name}`{near_matches(name, FINDINGS)}.")
        found[FINDINGS.index(name)] = 1
    return found


def of_list(
    file: Path, entries: Entries, images: Mapping[str, Path]
) -> tuple[LabelledFiles, npt.NDArray[np.int64]]:
    """The images of an official list, with the findings of the table, and their patients.

    Raises:
        DataError: The list is missing, or names an image that the table lacks.
    """
    row_of = {name: row for row, name in enumerate(entries.names)}
    names = _lines(file)
    for line, name in enumerate(names, start=1):
        if name not in row_of:
            raise DataError(
                f"{file}, line {line}: the image `{name}` is not in {entries.path.name}."
            )
    rows = np.array([row_of[name] for name in names], dtype=np.int64)
    return _labelled(names, entries.target[rows], file, images), entries.patients[rows]


def of_reproduction(
    file: Path, images: Mapping[str, Path]
) -> tuple[LabelledFiles, npt.NDArray[np.int64]]:
    """The images of a list of the CheXNet reproduction, a name and 14 zeros or ones a line, and their patients.

    Raises:
        DataError: The list is missing, or a line of it is something else.
    """
    names, target = [], []
    for line, text in enumerate(_lines(file), start=1):
        name, *states = text.split()
        if len(states) != len(FINDINGS) or not set(states) <= {"0", "1"}:
            raise DataError(
                f"{file}, line {line}: a name and {len(FINDINGS)} zeros or ones are expected, got `{text}`."
            )
        names.append(name)
        target.append([int(state) for state in states])
    patients = np.array(
        [_patient(name, f"{file}, line {i}") for i, name in enumerate(names, start=1)]
    )
    return _labelled(names, np.array(target, dtype=np.int8), file, images), patients


def _labelled(
    names: list[str], target: npt.NDArray[np.int8], file: Path, images: Mapping[str, Path]
) -> LabelledFiles:
    absent = file.parent / "images"
    places = [f"{file}, line {line}" for line in range(1, len(names) + 1)]
    return LabelledFiles([images.get(name, absent / name) for name in names], target, places)


def _patient(name: str, where: str) -> int:
    """The patient of an image, the number before the underscore of its name."""
    number = name.partition("_")[0]
    if not number.isdigit():
        raise DataError(f"{where}: `{name}` does not begin with the number of a patient.")
    return int(number)


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        raise DataError(f"{file} is missing: a list of images is expected there.")
    return [line.strip() for line in file.read_text().splitlines() if line.strip()]


def image_files(folder: Path) -> dict[str, Path]:
    """The PNG files in `images` and `images_001/images`, `images_002/images`, ..., by name."""
    folders: Iterable[Path] = [folder / "images", *sorted(folder.glob("images_*/images"))]
    return {
        entry.name: Path(entry.path)
        for one in folders
        if one.is_dir()
        for entry in os.scandir(one)
        if entry.name.endswith(".png")
    }

"""ChestX-ray14: 112,120 chest X-rays with 14 findings, its files and its splits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.configuration.files import data_root
from calibench.data.batch import Splits
from calibench.data.images.image_table import (
    LabelledFiles,
    LabelledImageDataModule,
    check_groups_apart,
)
from calibench.data.source import DataError, made_up_caveats
from calibench.data.splits import hold_out_share_of_groups
from calibench.messages.errors import errors_as, near_matches

XRAY_FOLDER = "ChestX-ray14"
XRAY_TABLES = ("Data_Entry_2017.csv", "Data_Entry_2017_v2020.csv")
XRAY_LISTS = ("train_val_list.txt", "test_list.txt")
FINDINGS = (
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
    "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening", "Hernia",
)  # fmt: skip
NO_FINDING = "No Finding"
# The names of later columns, OriginalImage[Width,Height] and OriginalImagePixelSpacing[x,y], hold commas.
XRAY_COLUMNS = (
    "Image Index", "Finding Labels", "Follow-up #", "Patient ID", "Patient Age", "Patient Gender", "View Position",
)  # fmt: skip


class Entries(NamedTuple):
    """Rows of the table of findings: images, their patients (N,), and findings (N, 14) int8."""

    path: Path
    names: list[str]
    patients: npt.NDArray[np.int64]
    target: npt.NDArray[np.int8]


def read_entries(folder: Path) -> Entries:
    """Read the table of findings: the first seven fields of each row."""
    import pandas

    path = next(
        (folder / name for name in XRAY_TABLES if (folder / name).is_file()),
        folder / XRAY_TABLES[0],
    )
    if not path.is_file():
        raise DataError(
            f"{path} is missing: ChestX-ray14 is expected in {folder}; get it from https://nihcc.app.box.com/v/ChestXray-NIHCC."
        )
    failed = errors_as(f"{path} cannot be read", ValueError, OSError, kind=DataError)
    with failed, path.open(encoding="utf-8-sig") as file:
        header = tuple(
            name.strip('" \n') for name in file.readline().split(",")[: len(XRAY_COLUMNS)]
        )
        if header != XRAY_COLUMNS:
            raise DataError(
                f"{path} must begin with the columns {','.join(XRAY_COLUMNS)}, got {','.join(header)}."
            )
        frame = pandas.read_csv(
            file, names=XRAY_COLUMNS, usecols=range(len(XRAY_COLUMNS)), index_col=False, keep_default_na=False,
            dtype={"Finding Labels": "category", "Patient ID": np.int64},
        )  # fmt: skip
    findings = frame["Finding Labels"].cat
    number, texts = findings.codes.to_numpy(), list(findings.categories)
    rows = {text: int(np.flatnonzero(number == place)[0]) + 2 for place, text in enumerate(texts)}
    table = np.stack([_parse_findings(text, f"{path}, row {rows[text]}") for text in texts])
    names = frame["Image Index"].astype(str).tolist()
    return Entries(path, names, frame["Patient ID"].to_numpy(), table[number])


def _parse_findings(text: str, location: str) -> npt.NDArray[np.int8]:
    findings = np.zeros(len(FINDINGS), dtype=np.int8)
    for name in text.split("|") if text != NO_FINDING else ():
        if name not in FINDINGS:
            raise DataError(
                f"{location}: there is no finding `{name}`{near_matches(name, FINDINGS)}."
            )
        findings[FINDINGS.index(name)] = 1
    return findings


def read_official_lists(
    file: Path, entries: Entries, images: Mapping[str, Path]
) -> tuple[LabelledFiles, npt.NDArray[np.int64]]:
    """The images of an official list, with the findings of the table, and their patients."""
    row_of, names = {name: row for row, name in enumerate(entries.names)}, _read_lines(file)
    for line, name in enumerate(names, start=1):
        if name not in row_of:
            raise DataError(
                f"{file}, line {line}: the image `{name}` is not in {entries.path.name}."
            )
    rows = np.array([row_of[name] for name in names], dtype=np.int64)
    return _labelled(names, entries.target[rows], file, images), entries.patients[rows]


def split_patients(
    file: Path, images: Mapping[str, Path]
) -> tuple[LabelledFiles, npt.NDArray[np.int64]]:
    """The images of a list of the CheXNet reproduction, a name and 14 zeros or ones a line, and their patients."""
    names, target, patients = list[str](), [], []
    for line, text in enumerate(_read_lines(file), start=1):
        name, *states = text.split()
        if len(states) != len(FINDINGS) or not set(states) <= {"0", "1"}:
            raise DataError(
                f"{file}, line {line}: a name and {len(FINDINGS)} zeros or ones are expected, got `{text}`."
            )
        if not (patient := name.partition("_")[0]).isdigit():
            raise DataError(
                f"{file}, line {line}: `{name}` does not begin with the number of a patient."
            )
        names.append(name)
        target.append([int(state) for state in states])
        patients.append(int(patient))
    return _labelled(names, np.array(target, np.int8), file, images), np.array(patients, np.int64)


def _labelled(
    names: list[str], target: npt.NDArray[np.int8], file: Path, images: Mapping[str, Path]
) -> LabelledFiles:
    absent = file.parent / "images"
    places = [f"{file}, line {line}" for line in range(1, len(names) + 1)]
    return LabelledFiles([images.get(name, absent / name) for name in names], target, places)


def _read_lines(file: Path) -> list[str]:
    if not file.is_file():
        raise DataError(f"{file} is missing: a list of images is expected there.")
    return [line.strip() for line in file.read_text().splitlines() if line.strip()]


class ChestXray14DataModule(LabelledImageDataModule):
    """ChestX-ray14: 112,120 frontal chest X-rays of 30,805 patients, 14 findings (Wang et al. 2017).

    The official lists have 86,524 images to train and validate on and 25,596 to test on; validation is a share of the
    patients of the former. No patient is in two splits. Findings were read from reports by a program, not by people.
    Images are kept in grey: 224 pixels of all take 5.6 GB, 256 pixels 7.3 GB.

    Args:
        root: Folder of the datasets, with `ChestX-ray14`; by default the environment's CALIBENCH_DATA, else
            ~/.cache/calibench.
        split: `official`, or `chexnet` for `labels/{train,val,test}_list.txt` of the CheXNet reproduction (70/10/20).
        val_fraction: Share of the patients of the official training list that is held out for validation.
        ten_crops: Height and width of the images of which ten crops are evaluated; None for the whole image.
        common: Those of `LabelledImageDataModule` but `class_names`, `cache` and `mode`.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        split: Literal["official", "chexnet"] = "official",
        val_fraction: float = 0.1,
        ten_crops: int | None = 256,
        **common: Any,
    ) -> None:
        if not 0 < val_fraction < 1:
            raise ValueError(f"`val_fraction` must lie between 0 and 1, got {val_fraction}.")
        self.folder, cache = (
            data_root(root) / XRAY_FOLDER,
            data_root(root) / ".calibench" / XRAY_FOLDER,
        )
        super().__init__(class_names=FINDINGS, cache=cache, ten_crops=ten_crops, mode="L", **common)
        self.split, self.val_fraction = split, val_fraction

    def read(self, seed: int) -> dict[str, LabelledFiles]:
        """The official lists with patients held out, or the reproduction's lists."""
        self.caveats += made_up_caveats(self.folder)
        entries = read_entries(self.folder)
        folders = [self.folder / "images", *sorted(self.folder.glob("images_*/images"))]
        images = {path.name: path for folder in folders for path in folder.glob("*.png")}
        if self.split == "chexnet":
            lists = {name: self.folder / "labels" / f"{name}_list.txt" for name in Splits._fields}
            parts = {name: split_patients(file, images) for name, file in lists.items()}
            patients = {name: part[1] for name, part in parts.items()}
            check_groups_apart(patients, f"{self.folder / 'labels'}: the patient")
            return {name: part[0] for name, part in parts.items()}
        (train_rows, train_patients), (test, test_patients) = (
            read_official_lists(self.folder / name, entries, images) for name in XRAY_LISTS
        )
        check_groups_apart(
            dict(zip(XRAY_LISTS, (train_patients, test_patients), strict=True)),
            f"{self.folder}: the patient",
        )
        train, val = hold_out_share_of_groups(train_patients, self.val_fraction, seed)
        return {"train": train_rows.take(train), "val": train_rows.take(val), "test": test}

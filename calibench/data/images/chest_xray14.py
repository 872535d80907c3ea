"""ChestX-ray14: 112,120 chest X-rays with 14 findings."""

from __future__ import annotations

from typing import Any, Literal

from calibench.config import data_root
from calibench.data.images.chest_xray14_files import (
    FINDINGS,
    FOLDER,
    LISTS,
    image_files,
    of_list,
    of_reproduction,
    read_entries,
)
from calibench.data.images.label_table import SPLITS, check_apart
from calibench.data.images.labelled import LabelledFiles, LabelledImageDataModule
from calibench.data.splits import hold_out_share_of_groups


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
        side: Height and width in pixels of the network's images.
        ten_crops: Height and width of the images of which ten crops are evaluated; None for the whole image.
        common: Those of `LabelledImageDataModule` but `class_names`, `cache` and `mode`.

    Raises:
        ValueError: An argument is outside its range.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        split: Literal["official", "chexnet"] = "official",
        val_fraction: float = 0.1,
        side: int = 224,
        ten_crops: int | None = 256,
        **common: Any,
    ) -> None:
        if not 0 < val_fraction < 1:
            raise ValueError(f"`val_fraction` must lie between 0 and 1, got {val_fraction}.")
        self.root = data_root(root)
        self.folder = self.root / FOLDER
        super().__init__(
            class_names=FINDINGS, cache=self.root / ".calibench" / FOLDER, side=side, ten_crops=ten_crops, mode="L",
            **common,
        )  # fmt: skip
        self.split, self.val_fraction = split, val_fraction

    def read(self, seed: int) -> dict[str, LabelledFiles]:
        """The official lists with patients held out, or the reproduction's lists."""
        entries, images = read_entries(self.folder), image_files(self.folder)
        if self.split == "chexnet":
            lists = {name: self.folder / "labels" / f"{name}_list.txt" for name in SPLITS}
            parts = {name: of_reproduction(file, images) for name, file in lists.items()}
            patients = {name: own for name, (_, own) in parts.items()}
            check_apart(patients, f"{self.folder / 'labels'}: the patient")
            return {name: part for name, (part, _) in parts.items()}
        (rest, own), (test, others) = (
            of_list(self.folder / name, entries, images) for name in LISTS
        )
        check_apart(dict(zip(LISTS, (own, others), strict=True)), f"{self.folder}: the patient")
        train, val = hold_out_share_of_groups(own, self.val_fraction, seed)
        return {"train": rest.take(train), "val": rest.take(val), "test": test}

"""Images with several labels each, in memory or read as they are used; a user's own, by a table."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Examples, Splits
from calibench.data.copies import describe_copies
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels
from calibench.data.images.decode import (
    StreamedImages,
    describe_sameness,
    exceeds_memory,
    read_users_images,
)
from calibench.data.images.pixels import Mode, PixelScale, positive_white
from calibench.data.layouts import describe_parts
from calibench.data.source import DataError, left_out_caveats
from calibench.data.splits import held_out_shares, hold_out_share_of_groups
from calibench.data.task import Multilabel
from calibench.data.users_table import open_users_table, require_columns, select_usable_rows
from calibench.files.set_names import UNKNOWN, part_of
from calibench.messages.checks import positive_integer
from calibench.messages.spelling import spell_argument


class LabelledFiles(NamedTuple):
    """Image files (N), labels (N, L) int8, 1 present, 0 absent, -1 unknown, and where each file is named (N)."""

    files: Sequence[Path]
    target: npt.NDArray[np.int8]
    places: Sequence[str]

    def take(self, index: npt.NDArray[np.int64]) -> Self:
        """The files at the given positions."""
        positions = index.tolist()
        files, places = ([part[i] for i in positions] for part in (self.files, self.places))
        return type(self)(files, self.target[index], places)


class LabelledImageDataModule(ClassificationDataModule, ABC):
    """Base class of images with several labels each.

    A subclass implements `read`. Training images are squares of `side`, half of them mirrored; validation and test
    images the same, or ten crops of that side of larger ones, whose probabilities are averaged. Images are decoded once
    and kept beside the data where that can be written to; if they would take more memory than `memory_limit`, they are
    decoded as they are used, and the fingerprint covers the splits and labels but not the pixels.

    Args:
        class_names: One name per label.
        cache: Folder of the decoded images.
        side: Height and width in pixels of the network's images.
        ten_crops: Height and width of validation and test images, of which ten crops of `side` are taken; None for the
            whole image at `side`.
        augment: Mirror half of the training images.
        mode: `RGB` or `L`, grey, which takes a third of the memory; networks get three channels of either.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        white: The value that is white in images of more than 8 bits; None for what their headers and the range of the
            training images say, which results repeat.
        memory_limit: Gibibytes that the decoded images may take; beyond, they stream.
        skip_missing: Leave out images whose file is missing, which results then say; else a missing file is an error.
        skip_bad: Leave out images that are missing or cannot be read, and rows of which the label or the split is none.
        common: Those of all data modules but `ood`: there are no evaluation sets beside the test images.
    """

    task_type: ClassVar = Multilabel
    known_sets = ()

    def __init__(
        self,
        *,
        class_names: Sequence[str],
        cache: Path,
        side: int = 224,
        ten_crops: int | None = None,
        augment: bool = True,
        mode: Mode = "RGB",
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        white: float | None = None,
        memory_limit: float = 8.0,
        skip_missing: bool = False,
        skip_bad: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(class_names=class_names, **common)
        self.side, self.mode = positive_integer("side", side), mode
        self.white = positive_white(white)
        self.ten_crops = ten_crops
        if ten_crops is not None and ten_crops < side:
            raise ValueError(f"`ten_crops` must be at least `side` {side}, got {ten_crops}.")
        self.cache, self.memory_limit = cache, memory_limit
        self.skip_missing, self.skip_bad = skip_missing or skip_bad, skip_bad
        self._scale: PixelScale | None = None
        self.transform = Normalize(mean, std)
        if ten_crops is not None:
            self.evaluation_transform = Normalize(mean, std, crops=side)
        self.augmentation = RandomCropFlip(padding=0) if augment else None

    @abstractmethod
    def read(self, seed: int) -> dict[str, LabelledFiles]:
        """The files of `train`, `val` and `test`, the same for a seed; raises a DataError for a damaged table."""

    def load_splits(self, seed: int) -> Splits:
        """Read the tables, and decode the images if they fit into memory."""
        sides = {"train": self.side, "val": self.ten_crops or self.side}
        sides["test"] = sides["val"]
        parts = {name: self._present_files(files) for name, files in self.read(seed).items()}
        pixels = sum(len(part.files) * sides[name] ** 2 for name, part in parts.items())
        if exceeds_memory(pixels, self.memory_limit, self.mode):
            self.decode = StreamedImages(self.mode)
        return Splits(*(self._examples(name, parts[name], side) for name, side in sides.items()))

    def _present_files(self, part: LabelledFiles) -> LabelledFiles:
        """The files that are there; a caveat says how many are not."""
        is_present = np.array([file.is_file() for file in part.files], dtype=bool)
        if is_present.all():
            return part
        first, count = int(is_present.argmin()), f"{(~is_present).sum()} of {len(is_present)}"
        if not self.skip_missing:
            skip = spell_argument("data.skip_missing", "true", python="True")
            raise DataError(
                f"{part.places[first]}: the image {part.files[first]} is missing, {count} are "
                f"({skip} goes on without, and results say so)."
            )
        self.caveats.append(f"{count} images are missing, {part.files[first].name} the first")
        return part.take(np.flatnonzero(is_present))

    def _examples(self, name: str, part: LabelledFiles, side: int) -> Examples:
        if not len(part.files):
            raise DataError(f"there are no {name} images.")
        cache, folder = self.cache / f"{name}-{side}-{self.mode}.npz", part.files[0].parent
        images = read_users_images(
            cache, part.files, side=side, decode=self.decode, mode=self.mode, scale=self._scale,
            white=self.white,
        )  # fmt: skip
        self._scale = self._scale or images.scale  # the training images come first
        self.caveats += [line for line in images.caveats if line not in self.caveats]
        bad = {
            f"{part.files[number].name} ({part.places[number]})": problem
            for number, problem in images.problems.items()
        }
        self.caveats += left_out_caveats(
            folder, bad, len(part.files), skip=self.skip_bad, unit="images"
        )
        part = part.take(images.positions)
        if name == "test":
            self.test_files = part.files
        return Examples(images.inputs, torch.from_numpy(part.target))


class ImageLabelsDataModule(LabelledImageDataModule):
    """Your own images with several labels each, by a table `path,label1,label2,...` (this package).

    A cell of a label is 1 (present), 0 (absent), or -1 or empty (unknown). Paths are relative to the table.

    Args:
        file: The table.
        path_column: The column of the image files.
        labels: The columns of the labels; None for all but those of paths, groups and splits.
        separator: Between the cells of a CSV or TSV file; None for what its header has most.
        quotes: Whether quotes enclose cells of a CSV or TSV file, or are characters like others; None for the former,
            where a file that seems to be written without quoting is refused.
        group_column: A column whose rows with the same value never cross splits: the patient, say.
        split_column: A column that says `train`, `val` or `test` (or training, valid, validation, dev, testing), in any
            case; None for random splits.
        val_fraction: Share of the images, or of the groups, held out for validation.
        test_fraction: Share of the images, or of the groups, held out for testing.
        common: Those of `LabelledImageDataModule` but `class_names` and `cache`.

    Raises:
        DataError: The table is missing or damaged.
    """

    def __init__(
        self,
        *,
        file: str,
        path_column: str = "path",
        labels: Sequence[str] | None = None,
        group_column: str | None = None,
        split_column: str | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        **common: Any,
    ) -> None:
        self.held_out = held_out_shares(val_fraction, test_fraction)
        self.file = Path(file).expanduser()
        table = open_users_table(
            self.file, "a table `path,label1,label2,...`", separator=separator, quotes=quotes
        )
        self._table = table.frame(text=table.names).set_index(table.rows)
        others = [name for name in (path_column, group_column, split_column) if name is not None]
        names = [name for name in self._table if name not in others] if labels is None else labels
        require_columns(self.file, self._table, (*others, *names))
        if not names:
            raise DataError(f"{self.file} has no column of labels beside `{path_column}`.")
        super().__init__(class_names=names, cache=self.file.parent / ".calibench", **common)
        wrong = _find_wrong_cells(self._table, names, split_column) | table.problems
        good, caveats = select_usable_rows(self.file, table.rows, wrong, skip=self.skip_bad)
        self.caveats += table.caveats + caveats
        self._table = self._table[good]
        self.path_column, self.group_column = path_column, group_column
        self.split_column = split_column

    def read(self, seed: int) -> dict[str, LabelledFiles]:
        """The splits that the table names, or random ones."""
        table, names = self._table, self.task.names
        target = table[names].apply(lambda cells: cells.map(_STATES)).to_numpy(np.int8)
        for number in np.flatnonzero((target == UNKNOWN).all(axis=0)):
            raise DataError(f"{self.file}: the label `{names[number]}` is known of no image.")
        if not (target == 0).any():
            raise DataError(
                f"{self.file}: no label of any image is 0, absent; -1 and empty cells are unknown: write 0 for what is "
                "absent."
            )
        paths = table[self.path_column]
        places = [f"{self.file}, row {row}" for row in table.index]
        all_files = LabelledFiles([self.file.parent / path for path in paths], target, places)
        return {name: all_files.take(rows) for name, rows in self._rows(seed).items()}

    def load_splits(self, seed: int) -> Splits:
        """Read the images, and note the sizes of the splits and where each is from."""
        splits = super().load_splits(seed)
        source = "held out of train" if self.split_column is None else f"column {self.split_column}"
        counts = {part: len(getattr(splits, part).target) for part in Splits._fields}
        sources = {part: source for part in counts if part != "train"}
        line = describe_parts(counts, len(self.task.names), sources, unit="images", kinds="labels")
        self.inventory.insert(0, line)
        self.caveats += describe_sameness(splits.train.inputs, self.decode)
        if self.decode is None:
            self.caveats += describe_copies(splits, "images")
        return splits

    def _rows(self, seed: int) -> dict[str, npt.NDArray[np.int64]]:
        n = len(self._table)
        groups = self._table[self.group_column].to_numpy(str) if self.group_column else np.arange(n)
        if self.split_column is None:
            remaining, test = hold_out_share_of_groups(groups, self.held_out["test"], seed)
            share = self.held_out["val"] / (1 - self.held_out["test"])
            train, val = hold_out_share_of_groups(groups[remaining], share, seed)
            return {"train": remaining[train], "val": remaining[val], "test": test}
        split_names = np.array([part_of(cell) for cell in self._table[self.split_column]], str)
        rows = {name: np.flatnonzero(split_names == name) for name in Splits._fields}
        if self.group_column:
            of_splits = {name: groups[positions] for name, positions in rows.items()}
            check_groups_apart(of_splits, f"{self.file}: {self.group_column}")
        return rows


def check_groups_apart(groups: dict[str, npt.NDArray[Any]], group_title: str) -> None:
    """Raise a DataError if a group, which messages call `group_title`, is among those of the rows of two splits."""
    split_by_group: dict[Any, str] = {}
    for split, members in groups.items():
        for group in dict.fromkeys(members.tolist()):
            if split_by_group.setdefault(group, split) != split:
                raise DataError(
                    f"{group_title} {group} is in {split_by_group[group]} and in {split}: splits must not share one."
                )


_STATES = {"1": 1, "0": 0, "-1": UNKNOWN, "": UNKNOWN, "1.0": 1, "0.0": 0, "-1.0": UNKNOWN}


def _find_wrong_cells(table: Any, labels: Sequence[str], split: str | None) -> dict[int, str]:
    """Problems of rows whose label or split is none of the allowed ones, by row."""
    naming = f"{spell_argument('data.labels')} names the columns"
    states = f"1 (present), 0 (absent), or -1 or nothing (unknown) are expected ({naming})"
    wrong = dict[int, str]()
    for name in reversed(labels):
        for row, cell in table[name][~table[name].isin([*_STATES])].items():
            wrong[row] = f"label `{name}` holds `{cell}`; {states}"
    if split is not None:
        split_names = Splits._fields
        for row, cell in table[split][table[split].map(part_of).isna()].items():
            wrong[row] = f"column `{split}` must be one of {', '.join(split_names)}, got `{cell}`"
    return wrong

"""Images of a data set of the Hugging Face hub, decoded by the `datasets` library, with the revision they are of."""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibench.data.batch import Examples
from calibench.data.cache import Arrays, load_or_make
from calibench.data.images.decode import Opener, decode_with_survey, survey_images
from calibench.data.images.pixels import PixelScale
from calibench.data.source import DataError, load_hub_dataset
from calibench.messages.errors import summarize_problems

_COMMIT = re.compile(r"[@/]([0-9a-f]{40})(?:/|$)")


@dataclass(frozen=True)
class HubName:
    """Where the images and labels of a data set are on the hub, in the words of `HubDataModule`."""

    name: str
    config: str | None = None
    revision: str | None = None
    image: str = "image"
    label: str = "label"


class HubImages:
    """A data set of the hub, opened but not decoded; a DataError if it or a column is not there, or classes differ.

    Attributes:
        splits: Its splits by name, as `datasets` opens them.
        classes: Names of the classes: those of the labels' type, or else the labels that occur, in order.
        train_split: The split whose range scales images of more than 8 bits.
        white: Their white, where it is given; None for what headers and the range say.
        caveats: Lines about the images that results repeat.
    """

    train_split = "train"
    white: float | None = None

    def __init__(self, source: HubName, num_classes: int | None = None) -> None:
        self.source = source
        self.caveats: list[str] = []
        self.splits: Mapping[str, Any] = load_hub_dataset(
            source.name, source.config, revision=source.revision
        )
        for split, rows in self.splits.items():
            if missing := {source.image, source.label} - set(rows.column_names):
                raise DataError(
                    f"`{source.name}`, {split}: there is no column {' and '.join(sorted(missing))}; "
                    f"it has {', '.join(rows.column_names)}."
                )
        kind = next(iter(self.splits.values())).features[source.label]
        named = getattr(kind, "names", None)
        labels = (rows[source.label] for rows in self.splits.values())
        occurring = [] if named else sorted({*chain.from_iterable(labels)})
        self._number_of = {label: number for number, label in enumerate(occurring)}
        self.classes = [str(name) for name in named or occurring]
        if num_classes is not None and (class_count := len(self.classes)) != num_classes:
            raise DataError(
                f"`{source.name}` has {class_count} classes, {num_classes:,} are expected."
            )

    @property
    def revision(self) -> str:
        """The commit of the files; the asked-for revision, or empty, where the library does not say one."""
        rows = next(iter(self.splits.values()))
        files = [file["filename"] for file in rows.cache_files]
        for text in [*(rows.info.download_checksums or {}), *files]:
            if match := _COMMIT.search(str(text)):
                return match[1]
        return self.source.revision or ""

    @property
    def described(self) -> str:
        """The name and the revision, as every result repeats them."""
        revision = f"revision {self.revision}" if self.revision else "no revision is known"
        return f"{self.source.name} of the hub, {revision}"

    def examples(self, split: str, *, side: int, cache: Path) -> Examples:
        """The images of a split, squares (N, 3, side, side) uint8, and their classes; `cache` keeps known revisions."""
        if split not in self.splits:
            raise DataError(
                f"`{self.source.name}` has no split `{split}`; it has {', '.join(self.splits)}."
            )
        name = f"hub-{self.source.name}-{self.source.config}-{split}-{side}.npz"
        file = cache / ".calibench" / re.sub(r"[^\w.-]", "_", name)
        settings = "" if self.white is None else f" {self.train_split} {self.white}"
        key = f"{self.revision} {self.source.image} {self.source.label} scaled{settings}"
        decode = partial(self._decoded, split, side)
        arrays = load_or_make(file, key, decode) if self.revision else decode()
        pixels = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
        caveats = json.loads(str(arrays["survey"]))["caveats"]
        self.caveats += [line for line in caveats if line not in self.caveats]
        return Examples(pixels, torch.from_numpy(arrays["target"]))

    def unread(self, split: str) -> Iterator[tuple[Callable[[], Any], int]]:
        """Openers of the images of a split, each with its class."""
        target = self._target(split).tolist()  # before the images are touched
        yield from zip(self._openers(split), target, strict=True)

    def _openers(self, split: str) -> list[Opener]:
        """Functions that open the images of a split, of their bytes or the files that they name."""
        from datasets import Image

        rows, column = self.splits[split], self.source.image
        if not isinstance(rows.features[column], Image):
            kind = type(rows[0][column]).__name__ if len(rows) else "of no rows"
            raise DataError(
                f"`{self.source.name}`, column {column}: images are expected, row 0 of {split} is a {kind}."
            )
        unread_rows = rows.cast_column(column, Image(decode=False))
        return [
            partial(_open_hub_image, unread_rows, number, column) for number in range(len(rows))
        ]

    def _decoded(self, split: str, side: int) -> Arrays:
        scale = None if split == self.train_split else self._scale
        arrays = decode_with_survey(self._openers(split), side=side, scale=scale, white=self.white)
        problems = json.loads(str(arrays["survey"]))["problems"]
        if problems:
            rows = {f"row {number}": problem for number, problem in problems.items()}
            summary = summarize_problems(rows, len(self.splits[split]), "images")
            raise DataError(f"`{self.source.name}`, {split}, {summary}.")
        return {**arrays, "target": self._target(split)}

    @cached_property
    def _scale(self) -> PixelScale:
        """The whites of images of more than 8 bits: of the range of the training images."""
        return survey_images(self._openers(self.train_split), white=self.white).scale

    def _target(self, split: str) -> np.ndarray:
        labels = self.splits[split][self.source.label]
        numbers = [self._number_of.get(label, label) for label in labels]
        if unlabelled := sum(number is None or number < 0 for number in numbers):
            raise DataError(
                f"`{self.source.name}`: {unlabelled} rows of {split} have no label; name another split."
            )
        return np.array(numbers, dtype=np.int64)


def _open_hub_image(rows: Any, number: int, column: str) -> Any:
    """An image of a row: of its bytes, or of the file that it names."""
    from PIL import Image

    cell = rows[number][column]
    return Image.open(io.BytesIO(cell["bytes"]) if cell["bytes"] else cell["path"])

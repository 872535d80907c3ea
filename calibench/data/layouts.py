"""Layouts of a user's data on the disk: parts for training, validation and testing, which go by their names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from calibench.data.source import DataError
from calibench.files.set_names import PART_NAMES, PARTS, part_of
from calibench.files.table_file import TABLE_KINDS, table_kind

PART_TITLES = {"train": "train", "val": "validation", "test": "test"}

_FEW = 5  # names in a line
_WORDS = re.compile("[A-Za-z]+")


def looks_like_part(name: str) -> bool:
    """Whether a name has a part's word in it without being one, such as `seg_train` or `test2`."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return part_of(name) is None and not words.isdisjoint(PARTS)


def parts_by_name(paths: Iterable[Path]) -> dict[str, Path]:
    """The path of each part among folders, or files, by their names (of a file without its endings).

    Raises:
        DataError: Two of the paths name one part.
    """
    parts = dict[str, Path]()
    for path in paths:
        part = part_of(path.name if path.is_dir() else path.name.partition(".")[0])
        if part is None:
            continue
        if part in parts:
            raise DataError(
                f"{path.parent}: `{parts[part].name}` and `{path.name}` both name the {PART_TITLES[part]} part; "
                "leave one of them there."
            )
        parts[part] = path
    return {part: parts[part] for part in PART_NAMES if part in parts}


@dataclass(frozen=True)
class PartFiles:
    """The files of a user's tables or texts by part, and lines about files beside that are not used.

    Attributes:
        paths: The file of `train`, and those of `val` and `test` that there are.
        implied: Parts that were looked up in a folder, not named.
        notes: Lines about what is not used.
    """

    paths: dict[str, Path]
    implied: frozenset[str]
    notes: list[str]

    def describe(self, counts: Mapping[str, int], num_classes: int) -> str:
        """The parts with their rows and files, in one line."""
        sources = {
            part: self.paths[part].name if part in self.paths else "held out of train"
            for part in counts
        }
        return describe_parts(counts, num_classes, sources, unit="rows")


def find_part_files(train: Path, named: Mapping[str, Path]) -> PartFiles:
    """The files of the parts: those that are named, and where `train` is a folder, those in it by their names.

    Raises:
        DataError: The folder has no file that is the training part by its name, or two for one part.
    """
    if not train.is_dir():
        siblings = (
            _list_part_files(train.parent) if train.is_file() and part_of(_stem(train)) else []
        )
        unnamed = [path.name for path in siblings if path not in (train, *named.values())]
        notes = [f"not used: {name_few(unnamed)} beside {train.name}"] if unnamed else []
        return PartFiles({"train": train, **named}, frozenset(), notes)
    files = [path for path in sorted(train.iterdir()) if path.is_file() and path.name[0] != "."]
    by_part = parts_by_name(path for path in files if table_kind(path) in TABLE_KINDS)
    if "train" not in by_part:
        names = name_few(path.name for path in files)
        raise DataError(f"{train} has no table that is called train or training; it has: {names}.")
    paths = {**by_part, **named}
    unused = [path.name for path in files if path not in paths.values()]
    notes = [f"not used: {name_few(unused)}"] if unused else []
    return PartFiles(paths, frozenset(by_part.keys() - named.keys()), notes)


def _list_part_files(folder: Path) -> list[Path]:
    tables = [path for path in sorted(folder.iterdir()) if table_kind(path) in TABLE_KINDS]
    return [path for path in tables if path.is_file() and part_of(_stem(path))]


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def describe_parts(
    counts: Mapping[str, int],
    num_classes: int,
    sources: Mapping[str, str],
    *,
    unit: str,
    kinds: str = "classes",
) -> str:
    """The parts with their sizes and where each is from: `train 120 images, 3 classes; validation 36 (valid); ...`."""
    lines = list[str]()
    for part, count in counts.items():
        words = f" {unit}, {num_classes} {kinds}" if part == "train" else ""
        source = f" ({sources[part]})" if sources.get(part) else ""
        lines.append(f"{PART_TITLES[part]} {count:,}{words}{source}")
    return "; ".join(lines)


def name_few(names: Iterable[str]) -> str:
    """Names in one line, the first five of them: `a, b, c, d, e, ... (12)`."""
    entries = [*names]
    others = f", ... ({len(entries)})" if len(entries) > _FEW else ""
    return ", ".join(entries[:_FEW]) + others

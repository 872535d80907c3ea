"""Layouts of a user's data on the disk: parts for training, validation and testing, which go by their names."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from calibench.data.source import DataError

PART_NAMES: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
"""Names of folders, files and cells, in any case, by the part of the data that they say."""
PART_TITLES = {"train": "train", "val": "validation", "test": "test"}

_PARTS = {name: part for part, names in PART_NAMES.items() for name in names}
_WORDS = re.compile("[A-Za-z]+")


def part_of(name: str) -> str | None:
    """The part, `train`, `val` or `test`, that a name says; None if it says none."""
    return _PARTS.get(name.strip().lower())


def looks_like_part(name: str) -> bool:
    """Whether a name has a part's word in it without being one, such as `seg_train` or `test2`."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return part_of(name) is None and not words.isdisjoint(_PARTS)


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


def describe_parts(
    counts: Mapping[str, int], num_classes: int, sources: Mapping[str, str], *, unit: str
) -> str:
    """The parts with their sizes and where each is from: `train 120 images, 3 classes; validation 36 (valid); ...`."""
    lines = list[str]()
    for part, count in counts.items():
        words = f" {unit}, {num_classes} classes" if part == "train" else ""
        source = f" ({sources[part]})" if sources.get(part) else ""
        lines.append(f"{PART_TITLES[part]} {count:,}{words}{source}")
    return "; ".join(lines)


def name_few(names: Iterable[str], limit: int = 5) -> str:
    """Names in one line, at most so many: `a, b, c, ... (12)`."""
    every = [*names]
    return ", ".join(every[:limit]) + (f", ... ({len(every)})" if len(every) > limit else "")

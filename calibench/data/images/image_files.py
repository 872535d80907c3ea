"""Image files below a folder, by their endings."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from calibench.data.source import DataError

SUFFIXES = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".dib", ".webp", ".ppm", ".pgm", ".pbm", ".pnm",
    ".tif", ".tiff", ".gif", ".jp2", ".j2k", ".tga", ".avif",
})  # fmt: skip
"""Endings of the files that are read as images."""


def is_hidden(path: Path, folder: Path) -> bool:
    """Whether a path below a folder is one of a system's own: a name that begins with a dot, or `__MACOSX`."""
    names = path.relative_to(folder).parts
    return any(name.startswith(".") or name == "__MACOSX" for name in names)


def list_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The images in a folder and in those below it, and its other files, both in order, without hidden ones."""
    paths = (path for path in folder.rglob("*") if not is_hidden(path, folder))
    files = sorted(path for path in paths if path.suffix.lower() in SUFFIXES or path.is_file())
    images = [path for path in files if path.suffix.lower() in SUFFIXES]
    return images, [path for path in files if path.suffix.lower() not in SUFFIXES]


def find_images(folder: Path) -> list[Path]:
    """The images in a folder and in those below it, in order; raises a DataError if there are none."""
    images, others = list_files(folder)
    if not images:
        content = f" but {count_suffixes(others)}" if others else ""
        raise DataError(f"{folder} holds no images{content} ({', '.join(sorted(SUFFIXES))}).")
    return images


def count_suffixes(files: Sequence[Path]) -> str:
    """The endings of files with their numbers, the most frequent first: `12 .txt, 1 .csv`."""
    counts = Counter(file.suffix.lower() or f"`{file.name}`" for file in files)
    return ", ".join(f"{number} {suffix}" for suffix, number in counts.most_common(5))

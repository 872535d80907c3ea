"""What a user's own files say of themselves: columns by their names and first row, classes by their folders."""

import json
from pathlib import Path

import numpy as np

from calibench.ground.errors import UsageError
from calibench.ground.features import features_of, in_words
from calibench.ground.table_file import NAMELESS, TableFile, open_table

_LABELS = ("label", "labels", "target", "class", "category", "kind", "species", "sentiment", "y")
_TEXTS = ("text", "body", "content", "review", "message", "sentence", "description")
_CHANGE = "(the YAML says so; change it where it is wrong)"


def image_folder(path: Path) -> tuple[dict[str, str], str]:
    """The classes of a folder of images; raises a UsageError if there is no such folder, or it holds no folders."""
    if not path.is_dir():
        raise UsageError(f"`--data {path}`: no such folder.")
    part = path / "train" if (path / "train").is_dir() else path
    classes = sorted(one.name for one in part.iterdir() if one.is_dir() and one.name[0] != ".")
    if len(classes) < 2:
        raise UsageError(f"`--data {path}`: a folder for each class is expected in it.")
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    return {}, f"{len(classes)} classes: {shown}"


def text_columns(path: Path) -> tuple[dict[str, str], str]:
    """The columns of texts and of labels in a table, by their names.

    Raises:
        UsageError: If the file is missing, or has one column only.
    """
    names = _table(path).names
    label = _named(names, _LABELS, names[-1])
    text = _named([name for name in names if name != label], _TEXTS, "")
    return (
        {"text": json.dumps(text), "label": json.dumps(label)},
        f"texts: column `{text}`; labels: column `{label}` {_CHANGE}",
    )


def number_columns(path: Path) -> tuple[dict[str, str], str]:
    """The columns of labels and of features in a table: numbers, dates and categories.

    Raises:
        UsageError: If the file is missing, or has one column only, or no features.
    """
    table = _table(path)
    label = _named(table.names, _LABELS, table.names[-1])
    frame = table.frame()
    names = [name for name in table.names if name != label and not name.startswith(NAMELESS)]
    features, counters = features_of(frame, names)
    usable = [one for one in features if np.isfinite(one.numbers(frame[one.column])[0]).any()]
    if not usable:
        raise UsageError(f"`--data {path}` has no column of numbers beside `{label}`.")
    columns = [feature.column for feature in usable]
    others = [name for name in names if name not in (*columns, *counters)]
    left_out = f"; left out, no numbers: {', '.join(others)}" if others else ""
    made = in_words(path, usable, counters).partition(": ")[2]
    count = sum(len(feature.names) for feature in usable)
    return (
        {
            "label": json.dumps(label),
            "features": json.dumps(columns) if others else "null",
            "count": str(count),
        },
        f"{count} columns of numbers{made and f' ({made})'}; labels: column `{label}`{left_out} {_CHANGE}",
    )


def _table(path: Path) -> TableFile:
    if not path.is_file():
        raise UsageError(f"`--data {path}`: no such file.")
    try:
        table = open_table(path)
    except (ValueError, OSError) as error:
        raise UsageError(
            f"`--data {path}` is no table: {' '.join(str(error).split())[:100]}"
        ) from error
    if len(table.names) < 2 or not len(table.rows):
        raise UsageError(f"`--data {path}`: a header and at least two columns are expected.")
    return table


def _named(names: list[str], known: tuple[str, ...], otherwise: str) -> str:
    """The first name that is a known one, in any case of letters; else the given one, or the first."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[one] for one in known if one in lower), otherwise or names[0])

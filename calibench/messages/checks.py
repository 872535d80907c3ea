"""Checks of arguments, numbers, options or files: each returns the value or raises one clear ValueError."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, TypeVar

from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument, spell_bare

Name = TypeVar("Name", bound=Hashable)
Option = TypeVar("Option")


def option_named(name: str, value: Name, options: Mapping[Name, Option]) -> Option:
    """Return the entry of `options` that `value` names."""
    if value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {allowed}, got {value!r}.")
    return options[value]


def positive_integer(name: str, value: int) -> int:
    """Return `value` if it is an integer >= 1."""
    if not is_integer(value) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
    return value


def integer_from(name: str, value: int, low: int) -> int:
    """Return `value` if it is an integer >= `low`."""
    if not is_integer(value) or value < low:
        raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.")
    return value


def numbers_of_bins(name: str, values: Sequence[int]) -> list[int]:
    """Return `values` if they are one or more different positive integers."""
    if len(values) == 0 or len(set(values)) != len(values):
        raise ValueError(
            f"`{name}` must hold one or more different numbers of bins, got {list(values)}."
        )
    return [positive_integer(name, value) for value in values]


def is_integer(value: object) -> bool:
    """Whether a value is an integer; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(name: str, value: float, holds: Callable[[float], bool], rule: str) -> float:
    try:
        good = math.isfinite(value) and holds(value)
    except TypeError:
        raise TypeError(f"`{name}` must be a number, got {value!r}.") from None
    if not good:
        raise ValueError(f"`{name}` must {rule}, got {value!r}.")
    return float(value)


def finite(name: str, value: float) -> float:
    """Return `value` as a float if it is finite."""
    return _number(name, value, lambda _: True, "be finite")


def positive(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and > 0."""
    return _number(name, value, lambda number: number > 0, "be a finite number > 0")


def non_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and >= 0."""
    return number_from(name, value, 0)


def number_from(name: str, value: float, low: float) -> float:
    """Return `value` as a float if it is finite and >= `low`."""
    return _number(name, value, lambda number: number >= low, f"be a finite number >= {low:g}")


def unit_interval(name: str, value: float) -> float:
    """Return `value` as a float if it lies in [0, 1)."""
    return _number(name, value, lambda number: 0 <= number < 1, "lie in [0, 1)")


Count = Annotated[int, "N", positive_integer]
"""A number of things, at least one: the type of a setting, what its value is called, and its check."""

InPython = Annotated[Any, "a value of Python that no text stands for"]
"""The type of a setting that is an array or a list of names, say."""


_LIKELY_SUFFIXES = {
    ".pdf": ".html",
    ".htm": ".html",
    ".docx": ".html",
    ".jpg": ".png",
    ".jpeg": ".png",
}
"""The kinds of files that may stand for those that are not written."""


def ends_in(*suffixes: str) -> Callable[[str, Path], Path]:
    """A check that the name of a file ends in one of some suffixes."""

    def checked(name: str, file: Path) -> Path:
        if file.suffix not in suffixes:
            allowed = " or ".join(filter(None, [", ".join(suffixes[:-1]), suffixes[-1]]))
            likely = (_LIKELY_SUFFIXES.get(file.suffix), ".csv", suffixes[0])
            near = file.with_suffix(next(suffix for suffix in likely if suffix in suffixes))
            raise UsageError(f"`{name}` must end in {allowed}, got `{file}`: write `{near}`.")
        return file

    return checked


_FILES = (
    ".csv", ".tsv", ".json", ".jsonl", ".md", ".tex", ".html", ".txt", ".png", ".svg", ".pdf", ".npz", ".npy",
    ".parquet", ".pt", ".pth", ".pt2", ".onnx",
)  # fmt: skip


def names_a_folder(name: str, folder: Path) -> Path:
    """Check that a folder which is written has no name of a file: it would not be of the format that was asked for."""
    if folder.suffix.lower() in _FILES and not folder.is_dir():
        raise UsageError(f"`{name}` is a folder of several files, got {folder.name}.")
    return folder


def output_format(
    output: Path | None, format: str | None, suffixes: Mapping[str, str], default: str
) -> str:
    """The format of an output: that of its suffix, or the one that is named, if the suffix says no other.

    Args:
        output: The file; None for the terminal.
        format: The format that is named; None where none is.
        suffixes: The suffix of each format; the first of those that share one is meant by it.
        default: The format of the terminal.

    Raises:
        UsageError: If no format has the suffix, or the named one has another.

    Examples:
        >>> output_format(Path("x.md"), None, {"csv": ".csv", "markdown": ".md"}, "csv")
        'markdown'
    """
    if output is None or (format is not None and output.suffix in ("", suffixes[format])):
        return format or default
    if format is not None:
        raise UsageError(
            f"{spell_argument('format', format)} ends in {suffixes[format]}, and {spell_argument('output')} is "
            f"{output.name}: leave one of them out."
        )
    output = ends_in(*dict.fromkeys(suffixes.values()))(spell_bare("output"), output)
    return next(name for name, suffix in suffixes.items() if suffix == output.suffix)

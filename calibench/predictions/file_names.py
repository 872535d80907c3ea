"""Texts that name files of predictions: a file, a pair `logits.npy:labels.npy`, a group of an HDF5 file, or `-`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from glob import escape
from pathlib import Path

from calibench.files.other_formats import describe_conversion
from calibench.files.table_file import EXPECTED_TABLES, TABLE_KINDS, table_kind
from calibench.messages.errors import did_you_mean, no_file
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions import hdf5
from calibench.predictions.array_files import ARRAY_READERS, WITHOUT_PICKLE
from calibench.predictions.content_suffix import copy_with_suffix, is_known_content
from calibench.predictions.standard_input import STANDARD_INPUT, read_standard_input
from calibench.runs.folder import holds_run

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PAIR = re.compile(r"(.+\.(?:npy|npz|pth?|safetensors|jsonl?|csv|tsv|txt|parquet)(?:\.gz)?):(.+)")
_PICKLES = (".pkl", ".pickle", ".joblib")


def check_file(text: str) -> None:
    """Raise unless a file, or a pair `logits.npy:labels.npy`, is there and of a known kind."""
    if _URL.match(text):
        raise ValueError(f"`{text}` is a URL, and files are read: download it first.")
    _refuse_share(text)
    for path in split_paths(text):
        if path.suffix.lower() == ".json" and path.resolve().parent.name.startswith("seed="):
            raise ValueError(f"`{path}` is a file of a run: name the run, `{path.parent}`.")
        if path.suffix.lower() in _PICKLES:
            raise ValueError(
                f"`{path}` is a pickle, which can run code when it is read: {WITHOUT_PICKLE}"
            )
        if path.suffix.lower() == ".ckpt":
            run = path.parent.parent
            if holds_run(run):
                raise ValueError(f"`{path}` is a checkpoint: name its run, `{run}`.")
            writing = (
                f"`calibench predict --config RUN/config.yaml --ckpt_path {path}` writes its logits"
                if is_command_line()
                else "`calibench.collect(model, loader)` gives its logits"
            )
            raise ValueError(
                f"`{path}` is a checkpoint: {writing}; of another program, save logits and labels as .npz."
            )
        if not _is_read(path) and (sentence := describe_conversion(path)):
            raise ValueError(f"{sentence}.")
        _refuse_stem(path)
        if not (_is_read(path) or (path.is_file() and is_known_content(path))):
            raise ValueError(
                f"`{path}`: a file {', '.join(ARRAY_READERS)}, {EXPECTED_TABLES} is expected"
                f"{did_you_mean(get_close_matches(path.suffix, (*ARRAY_READERS, *TABLE_KINDS), cutoff=0.7))}"
            )
        if not path.is_file():
            raise no_file(path)


def _refuse_share(text: str) -> None:
    """Raise a ValueError for a number in place of a file, a share of the examples for validation."""
    if re.fullmatch(r"0?\.\d+", text):
        split = "`calibench doctor FILE`" if is_command_line() else "`calibench.doctor(FILE)`"
        raise ValueError(
            f"`{text}` is no file: without one for validation, {split} cross-validates."
        )


def _refuse_stem(path: Path) -> None:
    """Raise a FileNotFoundError for the name of a file without its suffix, with the files of that name."""
    siblings = [] if path.suffix else sorted(path.parent.glob(f"{escape(path.name)}.*"))
    if siblings and not path.exists():
        raise FileNotFoundError(f"there is no file {path}{did_you_mean(map(str, siblings))}")


def is_a_file(text: str) -> bool:
    """Whether a text names a file, or a pair, by the ending of its name: it need not be there."""
    return is_no_folder(text) or _is_read(split_paths(text)[0])


def is_no_folder(text: str) -> bool:
    """Whether a text is standard input, `-`, or a URL, which is refused as a file."""
    return text == STANDARD_INPUT or bool(_URL.match(text))


def has_label_file(text: str) -> bool:
    """Whether a text names a file of scores with one of labels."""
    return len(split_paths(text)) > 1


def plain_path(text: str) -> Path:
    """The path that a text names, of a pair that of the scores; it need not be there."""
    return Path(text) if text == STANDARD_INPUT else split_paths(text)[0]


def path_of(text: str) -> Path:
    """The file that a text names, the first of a pair; of `-` that of standard input."""
    return with_known_suffix(split_paths(text)[0])


def with_known_suffix(path: Path) -> Path:
    """A file under a name that says its kind, which its content says where its own name does not."""
    return path if _is_read(path) else copy_with_suffix(path)


def describe_kinds(paths: Sequence[Path]) -> list[str]:
    """A line for each file whose kind is guessed by its content."""
    kinds = {path.name: with_known_suffix(path).suffix for path in paths if not _is_read(path)}
    return [f"{name} is read as {kind}, by its content" for name, kind in kinds.items()]


def _is_read(path: Path) -> bool:
    return path.suffix.lower() in ARRAY_READERS or table_kind(path) in TABLE_KINDS


def describe_missing_labels(source: str, reader: str) -> str:
    """The sentence on a file without labels, which the reader named needs: where they may stand."""
    keys = f", {spell_argument('keys', 'target=NAME')} for another name"
    is_one_file = not _PAIR.fullmatch(source) and (
        _PAIR.fullmatch(f"{source}:labels.csv") or Path(source).is_file()
    )
    pair = f"{source if is_one_file else 'scores.jsonl'}:labels.csv"
    return (
        f"{source} has examples without a label, which {reader} needs: an array or column `label`{keys}, or labels in "
        f"a separate file, `{pair}`."
    )


def split_paths(text: str) -> list[Path]:
    """The file, or the files of a pair: what stands before a colon ends in a suffix of scores."""
    if text == STANDARD_INPUT:
        return [read_standard_input()]
    if parts := _pair_of_files(text):
        return parts
    if place := hdf5.group_in_file(text):
        return [place[0]]
    pair = _PAIR.fullmatch(text)
    return [Path(part) for part in (pair.groups() if pair else (text,))]


def _pair_of_files(text: str) -> list[Path]:
    """Two files that are there, before and behind a colon; none without such."""
    parts = text.split(":")
    pairs = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]
    pairs = [pair for pair in pairs if _is_file(pair[0]) and _is_file(pair[1])]
    if not pairs or Path(text).is_file():
        return []
    return [*map(Path, pairs[0])]


def _is_file(text: str) -> bool:
    return text != "" and Path(text).is_file()

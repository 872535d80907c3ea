"""Labelled texts in memory, from tables or the Hugging Face hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibench.data.source import DataError, left_out, loaded_from_hub
from calibench.data.users_table import opened
from calibench.ground.errors import near_matches
from calibench.ground.problems import of_rows


class Corpus(NamedTuple):
    """Texts (N of them) and their class indices (N,) int64, in the order of their files."""

    texts: list[str]
    target: Tensor

    def take(self, index: Tensor) -> Self:
        """The texts at the given positions."""
        return type(self)([self.texts[i] for i in index.tolist()], self.target[index])

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        """Both corpora, one after the other."""
        return type(self)(self.texts + other.texts, torch.cat([self.target, other.target]))


class CorpusSplits(NamedTuple):
    """The three splits of a corpus."""

    train: Corpus
    val: Corpus
    test: Corpus


def cut(corpus: Corpus, *, test_size: int, val_size: int, seed: int) -> tuple[Corpus, ...]:
    """Split a corpus into (train, val, test): the end of a seeded shuffle tests, the texts before it validate.

    Each part is in the corpus' order; not stratified. The rule of the public code of MMCE and MbLS,
    whose shuffle is `np.random.seed(seed); np.random.shuffle`.

    Raises:
        ValueError: Nothing would be left to train on.
    """
    n = len(corpus.texts)
    rest = n - test_size - val_size
    if not (val_size > 0 and test_size >= 0 and rest > 0):
        raise ValueError(f"`val_size` must leave some of {n} texts to train on, got {val_size}.")
    order = torch.from_numpy(np.random.RandomState(seed).permutation(n))
    parts = order[:rest], order[rest : rest + val_size], order[rest + val_size :]
    return tuple(corpus.take(part.sort().values) for part in parts)


def from_hub(name: str, split: str, *, num_classes: int) -> Corpus:
    """A corpus of the Hugging Face hub with columns `text` and `label`; null is an empty text.

    Raises:
        DataError: The library or the corpus cannot be had, or a label is not in 0..num_classes-1.
    """
    rows = loaded_from_hub(name, split=split)
    labels = list(rows["label"])
    for row, label in enumerate(labels, start=1):
        if label not in range(num_classes):
            raise DataError(
                f"`{name}`, {split} row {row}: the label is {label}, "
                f"0 to {num_classes - 1} were expected."
            )
    return Corpus([text or "" for text in rows["text"]], torch.tensor(labels))


class TextTable(NamedTuple):
    """Rows of a table of texts.

    Attributes:
        texts: The texts (N).
        labels: Their labels as written.
        rows: Which rows of the file they are, counted from 1 below the header (N,).
        problems: What is wrong with rows, by their numbers; those that cannot be read are not among `rows`.
        caveats: Lines for the reader of a result.
    """

    texts: list[str]
    labels: list[str]
    rows: np.ndarray
    problems: Mapping[int, str]
    caveats: list[str]

    def usable(
        self, file: str | Path, *, skip: bool = False, classes: Sequence[str] | None = None
    ) -> Self:
        """The rows without a problem; raises a DataError if there are others, unless these may be left out.

        Args:
            file: What messages call it.
            skip: Whether rows may be left out, which a caveat then says.
            classes: The labels that there may be; None for any.
        """
        problems = dict(self.problems)
        if classes is not None:
            known = set(classes)
            for row, label in zip(self.rows.tolist(), self.labels, strict=True):
                if label not in known and row not in problems:
                    problems[row] = (
                        f"the label `{label}` is none of the {len(known)} classes{near_matches(label, classes)}"
                    )
        if not problems:
            return self
        total = len({*self.rows.tolist(), *problems})
        caveats = left_out(file, of_rows(problems), total, skip=skip)
        good = np.flatnonzero(~np.isin(self.rows, list(problems))).tolist()
        texts, labels = (
            [part[at] for at in good] if part else part for part in (self.texts, self.labels)
        )
        return type(self)(texts, labels, self.rows[good], {}, self.caveats + caveats)


def read_table(
    path: Path,
    text: Sequence[str],
    label: str | None,
    *,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
) -> TextTable:
    """Read a table of texts (`open_table`).

    Args:
        path: The file.
        text: The columns whose texts are joined, with a blank between those that are not empty.
        label: The column of the labels; None for a table without labels.
        columns: Names of the columns of a file without a header; None where its first row names them.
        encoding: As in `open_table`.
        separator: As in `open_table`.

    Raises:
        DataError: No such file, another format, or a missing column.
    """
    table = opened(
        path, "a table of texts and labels", separator=separator, encoding=encoding, names=columns
    )
    names = [*text, *([] if label is None else [label])]
    for name in names:
        if name not in table.names:
            known = ", ".join(table.names)
            raise DataError(
                f"{path} has no column `{name}`{near_matches(name, table.names)} (there are: {known})."
            )
    frame = table.frame(list(dict.fromkeys(names)), names)
    cells = zip(*(frame[name].tolist() for name in text), strict=True)
    texts = [" ".join(filter(None, row)) for row in cells]
    labels = [] if label is None else frame[label].tolist()
    problems = dict(table.problems)
    for row, name in zip(table.rows.tolist(), labels, strict=False):
        if not name:
            problems[row] = "the label is empty"
    return TextTable(texts, labels, table.rows, problems, table.caveats)


def label_numbers(labels: Sequence[str], names: Sequence[str]) -> Tensor:
    """The class of each label (N,) int64, by the names of the classes."""
    numbers = {name: number for number, name in enumerate(names)}
    return torch.tensor([numbers[label] for label in labels])

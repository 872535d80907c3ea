"""Labelled texts in memory, before they are tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.data.source import DataError, loaded_from_hub

UTF8 = "utf-8"


class Corpus(NamedTuple):
    """Texts (N of them) and their class indices (N,) int64, in the order of their files."""

    texts: list[str]
    target: Tensor

    def take(self, index: Tensor) -> Corpus:
        """The texts at the given positions."""
        return Corpus([self.texts[i] for i in index.tolist()], self.target[index])

    def __add__(self, other: object) -> Corpus:  # type: ignore[override]
        """Both corpora, one after the other."""
        if not isinstance(other, Corpus):
            return NotImplemented
        return Corpus(self.texts + other.texts, torch.cat([self.target, other.target]))


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


def decoded(raw: bytes, encoding: str = UTF8) -> tuple[str, int]:
    """A file's text without a byte order mark, and how many of its bytes are not of the encoding: now U+FFFD."""
    text = raw.decode(encoding, errors="replace")
    mark = "\ufffd"
    bad = text.count(mark)
    if bad:  # some may be written in the file
        bad -= raw.decode(encoding, errors="ignore").count(mark)
    return text.removeprefix("\ufeff"), bad


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

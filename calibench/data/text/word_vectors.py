"""Word vectors by token number, from a file or from the training texts; frozen, they are a transform."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibench.data.source import DataError
from calibench.data.text.cooccurrence import cached_vectors
from calibench.data.text.token_matrix import PADDING, Tokens


class WordVectors:
    """Looks token numbers up in a fixed table; padding and words without a vector are zeros.

    Args:
        table: Vectors by token number (V + 1, D) float32; row 0 is padding's.
        found: Words that have a vector.
    """

    def __init__(self, table: Tensor, found: int) -> None:
        self.table, self.found = table, found

    @property
    def coverage(self) -> float:
        """Share of the vocabulary that has a vector, in [0, 1]."""
        return self.found / max(1, len(self.table) - 1)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Vectors (n, L, D) of token numbers (n, L), on their device."""
        self.table = self.table.to(tokens.device)
        return self.table[tokens.long()]

    @classmethod
    def fit(cls, texts: Tokens, words: int, folder: Path) -> WordVectors:
        """Vectors from the words' neighbours in `texts`, see `cooccurrence_vectors`.

        Args:
            texts: The training texts.
            words: How many words there are.
            folder: The folder of the cache.
        """
        table = torch.from_numpy(cached_vectors(folder, texts, words + 1))
        return cls(table, int(table.any(1).sum()))

    @classmethod
    def read(cls, path: Path, words: Sequence[str]) -> WordVectors:
        """Read the vectors of some words from a text file in GloVe's format.

        Args:
            path: Lines of a word and its numbers, separated by blanks.
            words: The word of each token number from 1 on.

        Raises:
            DataError: The file is missing, or a line is not of that format.
        """
        rows = {word.encode(): number for number, word in enumerate(words, start=PADDING + 1)}
        vectors: dict[int, np.ndarray] = {}
        for place, line in enumerate(_lines(path), start=1):
            word, _, numbers = line.partition(b" ")
            if place == 1 or word in rows:
                vectors[rows.get(word, PADDING)] = _numbers(numbers, f"{path}, line {place}")
        vectors[PADDING] = np.zeros_like(next(iter(vectors.values())))
        table = np.zeros((len(words) + 1, len(vectors[PADDING])), dtype=np.float32)
        for number, vector in vectors.items():
            if len(vector) != table.shape[1]:
                raise DataError(
                    f"{path}: `{words[number - 1]}` has {len(vector)} numbers, "
                    f"{table.shape[1]} were expected."
                )
            table[number] = vector
        return cls(torch.from_numpy(table), len(vectors) - 1)


def _lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): word vectors in GloVe's text format are "
            "expected there; get glove.6B.zip from https://nlp.stanford.edu/projects/glove."
        ) from None
    if not lines:
        raise DataError(f"{path} is empty: word vectors in GloVe's text format are expected.")
    return lines


def _numbers(text: bytes, place: str) -> np.ndarray:
    with suppress(ValueError):
        if len(vector := np.array(text.split(), dtype=np.float32)):
            return vector
    raise DataError(f"{place}: a word and its numbers are expected.")

"""Word vectors by token number, from a file or from the training texts; frozen, they are a transform."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from calibench.data.cache import load_or_make
from calibench.data.source import DataError
from calibench.data.text.tokens import PADDING, Tokens

COOCCURRENCE_DIMENSIONS = 100  # of GloVe 6B 100d, so that the network is the same
COOCCURRENCE_WINDOW = 10
_SMOOTHING = 0.75  # exponent of the context distribution
_POWER_ITERATIONS = 2


class WordVectors:
    """Looks token numbers up in a fixed table (V + 1, D) float32; `found` words have a vector, the others zeros."""

    def __init__(self, table: Tensor, found_words: int) -> None:
        self.table, self.found = table, found_words

    def __call__(self, tokens: Tensor) -> Tensor:
        """Vectors (n, L, D) of token numbers (n, L), on their device."""
        self.table = self.table.to(tokens.device)
        return self.table[tokens.long()]

    @classmethod
    def fit(cls, texts: Tokens, words: int, folder: Path) -> Self:
        """Vectors of so many words from their neighbours in `texts`, see `cooccurrence_vectors`; cached in `folder`."""
        digest = hashlib.sha256(
            repr((words + 1, COOCCURRENCE_DIMENSIONS, COOCCURRENCE_WINDOW)).encode()
        )
        for part in texts:
            digest.update(np.ascontiguousarray(part).tobytes())
        key = digest.hexdigest()
        cache = folder / f"vectors-{key[:16]}.npz"
        arrays = load_or_make(cache, key, lambda: {"table": cooccurrence_vectors(texts, words + 1)})
        table = torch.from_numpy(arrays["table"])
        return cls(table, int(table.any(1).sum()))

    @classmethod
    def read(cls, path: Path, words: Sequence[str]) -> Self:
        """Read the vectors of words, of the token numbers from 1 on, from a file in GloVe's format: a word a line."""
        rows = {word.encode(): number for number, word in enumerate(words, start=PADDING + 1)}
        vectors: dict[int, np.ndarray] = {}
        for place, line in enumerate(_read_vector_lines(path), start=1):
            word, _, numbers = line.partition(b" ")
            if place == 1 or word in rows:
                vectors[rows.get(word, PADDING)] = _parse_vector(numbers, f"{path}, line {place}")
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


def _read_vector_lines(path: Path) -> list[bytes]:
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


def _parse_vector(text: bytes, place: str) -> np.ndarray:
    with suppress(ValueError):
        if len(vector := np.array(text.split(), dtype=np.float32)):
            return vector
    raise DataError(f"{place}: a word and its numbers are expected.")


def cooccurrence_vectors(
    tokens: Tokens,
    vocab_size: int,
    *,
    dimensions: int = COOCCURRENCE_DIMENSIONS,
    window: int = COOCCURRENCE_WINDOW,
) -> np.ndarray:
    """Truncated SVD of the positive pointwise mutual information of words and their neighbours.

    The count-based relative of word2vec and GloVe (Levy, Goldberg and Dagan 2015, sections 2 and 3):
    a neighbour at distance d counts (window + 1 - d) / window, the distribution of contexts is raised to
    0.75, and the left singular vectors are scaled by the roots of the singular values. No class label
    is looked at. The singular vectors are found by a seeded randomised method: the same texts give
    the same vectors, up to the last bits of another machine's linear algebra. Token numbers are at least 1 and below
    `vocab_size`, which counts padding, 0; `window` is in known words of a text.

    Returns:
        Vectors by token number (vocab_size, dimensions) float32, with a standard deviation of 1 over the words that
        have a neighbour; zeros for padding, for the others, and beyond the rank of the matrix.
    """
    from sklearn.utils.extmath import randomized_svd

    information = _positive_information(_count_cooccurrences(tokens, vocab_size, window))
    rank = min(dimensions, vocab_size)
    left, values, _ = randomized_svd(information, rank, n_iter=_POWER_ITERATIONS, random_state=0)
    vectors = np.zeros((vocab_size, dimensions), dtype=np.float32)
    vectors[:, :rank] = left * np.sqrt(values)
    is_counted = np.diff(information.indptr) > 0
    vectors[~is_counted] = 0.0
    return vectors / (vectors[is_counted].std() or 1.0) if is_counted.any() else vectors


def _count_cooccurrences(tokens: Tokens, vocab_size: int, window: int) -> Any:
    """Symmetric weighted numbers of neighbours (vocab_size, vocab_size), sparse."""
    from scipy.sparse import coo_array, csr_array

    text = np.repeat(np.arange(len(tokens.lengths)), tokens.lengths)
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for distance in range(1, window + 1):
        same = text[distance:] == text[:-distance]
        pairs = tokens.flat[:-distance][same], tokens.flat[distance:][same]
        weight = np.full(len(pairs[0]), (window + 1 - distance) / window, dtype=np.float32)
        counts = counts + coo_array((weight, pairs), shape=counts.shape).tocsr()
    return counts + counts.T.tocsr()


def _positive_information(counts: Any) -> Any:
    """log(p(word, context) / (p(word) p(context))) where that is positive."""
    rows, context = counts.sum(1), counts.sum(0) ** _SMOOTHING
    pairs = counts.tocoo()
    expected = rows[pairs.row] * (context / (context.sum() or 1.0))[pairs.col]
    pairs.data = np.maximum(np.log(pairs.data / expected), 0.0).astype(np.float32)
    information = pairs.tocsr()
    information.eliminate_zeros()
    return information

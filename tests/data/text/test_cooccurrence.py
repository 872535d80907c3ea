from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibench.data.text.tokens import Tokens
from calibench.data.text.word_vectors import WordVectors, cooccurrence_vectors


def texts(*rows: list[int]) -> Tokens:
    return Tokens.from_rows([np.array(row, dtype=np.int32) for row in rows])


def random_texts(vocab_size: int) -> Tokens:
    draw = np.random.default_rng(0)
    rows = [draw.integers(1, vocab_size, length) for length in draw.integers(0, 30, 40)]
    return texts(*(row.tolist() for row in rows))


def information(tokens: Tokens, vocab_size: int, window: int) -> np.ndarray:
    """The matrix as Levy, Goldberg and Dagan (2015) define it, pair by pair."""
    counts = np.zeros((vocab_size, vocab_size))
    for row in np.split(tokens.flat, np.cumsum(tokens.lengths)[:-1]):
        for i, word in enumerate(row):
            for j, context in enumerate(row):
                if 0 < abs(i - j) <= window:
                    counts[word, context] += (window + 1 - abs(i - j)) / window
    words = counts.sum(1) / counts.sum()
    contexts = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(
            np.maximum(np.log(counts / counts.sum() / words[:, None] / contexts), 0)
        )


@pytest.mark.parametrize("window", [1, 3])
def test_the_vectors_are_the_leading_left_singular_vectors(window: int) -> None:
    tokens, size = random_texts(25), 25
    vectors = cooccurrence_vectors(tokens, size, dimensions=size, window=window)
    left, values, _ = np.linalg.svd(information(tokens, size, window))
    expected = left * np.sqrt(values)
    # Signs of singular vectors are free, and so is the scale: inner products without it.
    products, theirs = vectors @ vectors.T, expected @ expected.T
    np.testing.assert_allclose(
        products / np.trace(products), theirs / np.trace(theirs), rtol=1e-3, atol=1e-6
    )


def test_the_scale_is_one_and_padding_and_lonely_words_are_zeros() -> None:
    tokens = texts([1, 2, 3, 2, 1], [4], [])
    vectors = cooccurrence_vectors(tokens, 6, dimensions=8)
    assert vectors.shape == (6, 8)
    assert vectors.dtype == np.float32
    assert not vectors[[0, 4, 5]].any()
    assert vectors[[1, 2, 3]].any(1).all()
    assert vectors[[1, 2, 3]].std() == pytest.approx(1)


def test_words_of_two_texts_are_no_neighbours() -> None:
    apart, together = texts([1, 2], [3, 4]), texts([1, 2, 3, 4])
    cosine = {}
    for name, tokens in (("apart", apart), ("together", together)):
        vectors = cooccurrence_vectors(tokens, 5, dimensions=5)
        cosine[name] = float(vectors[2] @ vectors[4])
    assert cosine["apart"] == pytest.approx(0, abs=1e-5)
    assert abs(cosine["together"]) > 1e-2


@pytest.mark.parametrize("tokens", [texts(), texts([], []), texts([1], [2])])
def test_texts_without_neighbours_give_zeros(tokens: Tokens) -> None:
    assert not cooccurrence_vectors(tokens, 4).any()


def test_the_same_texts_give_the_same_vectors_from_the_cache(tmp_path: Path, monkeypatch) -> None:
    tokens = random_texts(9)
    first = WordVectors.fit(tokens, 8, tmp_path).table
    assert np.array_equal(first, cooccurrence_vectors(tokens, 9))
    monkeypatch.setattr("calibench.data.text.word_vectors.cooccurrence_vectors", None)
    assert np.array_equal(WordVectors.fit(tokens, 8, tmp_path).table, first)
    with pytest.raises(TypeError):  # other texts are another key
        WordVectors.fit(random_texts(8), 8, tmp_path)

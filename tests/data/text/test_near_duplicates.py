"""Texts that nearly repeat others: every pair is found, and named in a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.data.text.corpus import Corpus, CorpusSplits
from calibench.data.text.near_duplicates import describe_near_duplicates, find_near_duplicates


def triples(text: str) -> set[tuple[str, ...]]:
    words = ["_", "_", *text.split()]
    return set(zip(words, words[1:], words[2:], strict=False))


def jaccard(a: str, b: str) -> float:
    return len(triples(a) & triples(b)) / max(len(triples(a) | triples(b)), 1)


@pytest.mark.parametrize(
    "threshold",
    [
        pytest.param(0.3, marks=pytest.mark.slow),
        0.5,
        pytest.param(0.8, marks=pytest.mark.slow),
        1.0,
    ],
)
def test_as_by_comparing_all_pairs(threshold: float) -> None:
    draws = np.random.default_rng(0)
    words = list("abcdefghij")
    others = [" ".join(draws.choice(words, draws.integers(0, 12))) for _ in range(150)]
    texts = []
    for text in others[:100]:
        changed = text.split()
        for _ in range(draws.integers(3)):
            changed.insert(draws.integers(len(changed) + 1), "k")
        texts.append(" ".join(changed))
    words_of_one_letter = find_near_duplicates(texts, others, threshold=threshold)
    found = 0
    for text, nearest in zip(texts, words_of_one_letter, strict=True):
        best = max(jaccard(text, other) for other in others)
        if nearest < 0:
            assert best < threshold or not text
        else:
            assert jaccard(text, others[nearest]) == best >= threshold
            found += 1
    assert 10 < found <= 100


def test_case_and_punctuation_are_no_difference() -> None:
    assert find_near_duplicates(["Sales rose , again !"], ["x y", "sales rose again"]).tolist() == [
        1
    ]
    assert find_near_duplicates(["..."], ["..."]).tolist() == [-1]
    assert find_near_duplicates(["one"], ["One."]).tolist() == [0]


def test_they_are_counted_and_named(tmp_path: Path) -> None:
    def corpus(*texts: str) -> Corpus:
        return Corpus(list(texts), torch.zeros(len(texts), dtype=torch.long))

    long = "a word after another " * 5
    splits = CorpusSplits(corpus(long, "b c d"), corpus("e f g"), corpus("B c d .", "h", long))
    (line,) = describe_near_duplicates(splits, tmp_path)
    assert line == (
        "2 of 3 test texts nearly repeat a training text (similarity of their word triples at least 0.8), "
        "such as `B c d .`, `a word after another a word after another a word a ...`"
    )
    assert describe_near_duplicates(splits, tmp_path) == [line]  # from the cache
    assert len(list(tmp_path.iterdir())) == 1

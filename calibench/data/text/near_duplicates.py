"""Texts of one split that nearly repeat a text of another: they make an error look smaller than it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibench.data.cache import load_or_make
from calibench.data.text.corpus import CorpusSplits
from calibench.data.text.tokens import hash_texts

NEAR_DUPLICATE_SIMILARITY = 0.8
_SHOWN, _SHOWN_LETTERS = 2, 50
_AT_ONCE = 100_000  # pairs of texts that are compared at a time

Positions = npt.NDArray[np.int64]


def find_near_duplicates(
    texts: Sequence[str], others: Sequence[str], *, threshold: float = NEAR_DUPLICATE_SIMILARITY
) -> Positions:
    """The position of the other text that each text nearly repeats (N,); -1 where there is none.

    Two texts are alike by the Jaccard similarity of their sets of three successive words (Broder 1997); of several
    others at or above the threshold, in (0, 1], the most alike. No pair is missed: as in prefix filtering (Chaudhuri
    et al. 2006), the rarest triples alone say which pairs can reach the threshold, and these are compared in full.
    """
    nearest = np.full(len(texts), -1, np.int64)
    triples = _count_triples([*texts, *others])
    if triples is None:
        return nearest
    rare = _filter_prefixes(triples, threshold)
    n = len(texts)
    rows, other_rows = (rare[:n] @ rare[n:].T).nonzero()
    similarity = _jaccard(triples, rows, other_rows + n)
    order = np.argsort(similarity, kind="stable")  # the most alike is written last
    alike = order[similarity[order] >= threshold]
    nearest[rows[alike]] = other_rows[alike]
    return nearest


def describe_near_duplicates(corpus: CorpusSplits, cache: Path) -> list[str]:
    """A line for validation and for test texts that nearly repeat a training text, with examples; cached."""
    parts = {"validation": corpus.val.texts, "test": corpus.test.texts}
    key = hash_texts([text for part in corpus for text in part.texts], NEAR_DUPLICATE_SIMILARITY)

    def find() -> dict[str, Positions]:
        return {
            name: find_near_duplicates(texts, corpus.train.texts) for name, texts in parts.items()
        }

    pairs = load_or_make(cache / f"near-duplicates-{key[:16]}.npz", key, find)
    lines = []
    for name, texts in parts.items():
        part_name = np.flatnonzero(pairs[name] >= 0)
        if len(part_name):
            examples = ", ".join(f"`{_shorten(texts[i])}`" for i in part_name[:_SHOWN])
            lines.append(
                f"{len(part_name)} of {len(texts)} {name} texts nearly repeat a training text "
                f"(similarity of their word triples at least {NEAR_DUPLICATE_SIMILARITY}), such as {examples}"
            )
    return lines


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LETTERS else f"{line[:_SHOWN_LETTERS].rstrip()} ..."


def _count_triples(texts: Sequence[str]) -> Any:
    """Which text (N) has which triple of words, as a sparse matrix of ones; None where no text has a word.

    Two marks before a text give one of a single word a triple as well.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectoriser = CountVectorizer(
        ngram_range=(3, 3), token_pattern=r"\w+", binary=True, dtype=np.int32
    )
    try:
        return vectoriser.fit_transform([f"_ _ {text}" for text in texts]).tocsr()
    except ValueError:  # an empty vocabulary
        return None


def _filter_prefixes(triples: Any, threshold: float) -> Any:
    """Prefix filter: the n - ceil(threshold n) + 1 rarest of the n triples of each text."""
    from scipy.sparse import csr_matrix

    counts = np.asarray(triples.sum(0)).ravel()
    ranked = triples[:, np.argsort(counts, kind="stable")]
    ranked.sort_indices()
    sizes = np.diff(ranked.indptr)
    prefix = sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1
    rows = np.repeat(np.arange(len(sizes)), sizes)
    rare = np.arange(ranked.nnz) - ranked.indptr[rows] < prefix[rows]
    return csr_matrix((ranked.data[rare], (rows[rare], ranked.indices[rare])), ranked.shape)


def _jaccard(triples: Any, left: Positions, right: Positions) -> npt.NDArray[np.float64]:
    """Similarity of pairs of rows (P,)."""
    sizes = np.diff(triples.indptr)
    common = np.zeros(len(left))
    for start in range(0, len(left), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        shared = triples[left[part]].multiply(triples[right[part]])
        common[part] = np.asarray(shared.sum(1)).ravel()
    either: npt.NDArray[np.float64] = np.maximum(sizes[left] + sizes[right] - common, 1)
    return common / either

"""Texts of one split that nearly repeat a text of another: they make an error look smaller than it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibench.data.cache import cached_by_key
from calibench.data.text.corpus import CorpusSplits
from calibench.data.text.tokens import content_key

THRESHOLD = 0.8
_SHOWN, _SHOWN_LETTERS = 2, 50
_AT_ONCE = 100_000  # pairs of texts that are compared at a time

Positions = npt.NDArray[np.int64]


def near_duplicates(
    texts: Sequence[str], others: Sequence[str], *, threshold: float = THRESHOLD
) -> Positions:
    """The position of the other text that each text nearly repeats (N,); -1 where there is none.

    Two texts are alike by the Jaccard similarity of their sets of three successive words (Broder 1997); of several
    others at or above the threshold, in (0, 1], the most alike. No pair is missed: as in prefix filtering (Chaudhuri
    et al. 2006), the rarest triples alone say which pairs can reach the threshold, and these are compared in full.
    """
    nearest = np.full(len(texts), -1, np.int64)
    triples = _triples([*texts, *others])
    if triples is None:
        return nearest
    rare = _rarest(triples, threshold)
    n = len(texts)
    mine, its = (rare[:n] @ rare[n:].T).nonzero()
    similarity = _jaccard(triples, mine, its + n)
    order = np.argsort(similarity, kind="stable")  # the most alike is written last
    alike = order[similarity[order] >= threshold]
    nearest[mine[alike]] = its[alike]
    return nearest


def describe(corpus: CorpusSplits, cache: Path) -> list[str]:
    """A line for validation and for test texts that nearly repeat a training text, with examples; cached."""
    parts = {"validation": corpus.val.texts, "test": corpus.test.texts}
    key = content_key([text for part in corpus for text in part.texts], THRESHOLD)

    def find() -> dict[str, Positions]:
        return {name: near_duplicates(texts, corpus.train.texts) for name, texts in parts.items()}

    found = cached_by_key(cache / f"near-duplicates-{key[:16]}.npz", key, find)
    lines = []
    for name, texts in parts.items():
        which = np.flatnonzero(found[name] >= 0)
        if len(which):
            shown = ", ".join(f"`{_shortened(texts[i])}`" for i in which[:_SHOWN])
            lines.append(
                f"{len(which)} of {len(texts)} {name} texts nearly repeat a training text "
                f"(similarity of their word triples at least {THRESHOLD}), such as {shown}"
            )
    return lines


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LETTERS else f"{line[:_SHOWN_LETTERS].rstrip()} ..."


def _triples(texts: Sequence[str]) -> Any:
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


def _rarest(triples: Any, threshold: float) -> Any:
    """Of each text of n triples, the n - ceil(threshold n) + 1 that the fewest texts have."""
    from scipy.sparse import csr_matrix

    counts = np.asarray(triples.sum(0)).ravel()
    ranked = triples[:, np.argsort(counts, kind="stable")]
    ranked.sort_indices()
    sizes = np.diff(ranked.indptr)
    kept = sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1
    rows = np.repeat(np.arange(len(sizes)), sizes)
    few = np.arange(ranked.nnz) - ranked.indptr[rows] < kept[rows]
    return csr_matrix((ranked.data[few], (rows[few], ranked.indices[few])), ranked.shape)


def _jaccard(triples: Any, left: Positions, right: Positions) -> npt.NDArray[np.float64]:
    """Similarity of pairs of rows (P,)."""
    sizes = np.diff(triples.indptr)
    common = np.zeros(len(left))
    for start in range(0, len(left), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        both = triples[left[part]].multiply(triples[right[part]])
        common[part] = np.asarray(both.sum(1)).ravel()
    either: npt.NDArray[np.float64] = np.maximum(sizes[left] + sizes[right] - common, 1)
    return common / either

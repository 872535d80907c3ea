"""Copies of rows: examples with the same inputs or scores and the same label, to the last bit."""

from math import log10

import numpy as np
import numpy.typing as npt

from calibench.tensors.arrays import Array, Integers
from calibench.tensors.score_meaning import shared_unit

_FEWEST_DIGITS = 8  # of a row: fewer, and examples of a coarse file have equal rows by chance
_SATURATED = (
    80.0  # below the largest logit: rows that put everything on one class are alike by chance
)
_LOOKED_AT = 1000  # rows by which it is told whether a file is coarse
_WORDS_IN_BLOCK = 2**17  # of 8 bytes, 1 MB: few calls, and the block stays in the cache


def hash_rows(rows: Array, target: Integers) -> npt.NDArray[np.uint64]:
    """Hashes (N,) of rows (N, D), scores or inputs, and labels (N,)."""
    # Scores of one set are float32, of another float64.
    dtype = np.dtype(np.float64) if np.issubdtype(rows.dtype, np.floating) else rows.dtype
    n_words = -(-rows.shape[1] * dtype.itemsize // 8)
    odd = np.random.default_rng(0).integers(0, 2**63, n_words + 1, dtype=np.uint64) * 2 + 1
    hashes: npt.NDArray[np.uint64] = target.astype(np.uint64) * odd[-1]
    size = max(1, _WORDS_IN_BLOCK // n_words)
    for start in range(0, len(rows), size):
        part = np.ascontiguousarray(rows[start : start + size], dtype).view(np.uint8)
        words = np.pad(part, ((0, 0), (0, 8 * n_words - part.shape[1]))).view(np.uint64)
        words *= np.uint64(0x9E3779B97F4A7C15)
        # The low bits of floats are zeros, and what is added carries upwards alone.
        words ^= words >> np.uint64(32)
        hashes[start : start + size] += words @ odd[:-1]
    return hashes


def is_saturated(logits: Array) -> npt.NDArray[np.bool_]:
    """Which rows of logits (N, K) put everything on one class, (N,)."""
    top = logits.max(axis=1, keepdims=True)
    saturated: npt.NDArray[np.bool_] = (logits < top - _SATURATED).sum(axis=1) == logits.shape[
        1
    ] - 1
    return saturated


def are_coarse(scores: Array, precision: float | None = None) -> bool:
    """Whether values of rows (N, K) have so few digits that examples are alike by chance."""
    unit = shared_unit(scores[:_LOOKED_AT], precision)
    return bool((scores.shape[1] - 1) * -log10(unit) < _FEWEST_DIGITS)


def first_copies(logits: Array, target: Integers) -> Integers:
    """Place of the first example with the same row of logits (N, K) and label, (N,): its own where it is no copy."""
    places = np.arange(len(logits))
    if len(logits) < 2 or are_coarse(logits):
        return places
    hashes = hash_rows(logits, target)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) == len(logits):
        return places
    part = logits[:_LOOKED_AT].astype(np.float64)
    powers = np.exp(part - part.max(axis=1, keepdims=True))
    if are_coarse(powers / powers.sum(axis=1, keepdims=True), 1e-5):
        return places  # logarithms of rounded probabilities
    copies: Integers = np.where(is_saturated(logits), places, first[inverse])
    return copies

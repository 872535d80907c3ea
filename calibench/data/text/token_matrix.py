"""Token numbers of whole splits as matrices, padded in front, and their cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.data.cache import Arrays, cached_by_key

PADDING = 0


class Tokens(NamedTuple):
    """Token numbers of consecutive texts, and the number of tokens of each (N,)."""

    flat: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[np.ndarray]) -> Tokens:
        """Concatenate the texts' tokens."""
        empty = np.empty(0, dtype=np.int32)
        return cls(np.concatenate([empty, *rows]), np.array([len(row) for row in rows], np.int64))

    def padded(self, width: int) -> Tensor:
        """A matrix (N, width) int32 with each text at the right end, zeros in front of it."""
        matrix = np.full((len(self.lengths), width), PADDING, dtype=np.int32)
        matrix[np.arange(width) >= width - self.lengths[:, None]] = self.flat
        return torch.from_numpy(matrix)


def content_key(texts: Sequence[str], *settings: object) -> str:
    """A SHA-256 over the texts and what is done with them."""
    digest = hashlib.sha256(repr(settings).encode())
    for text in texts:
        raw = text.encode("utf-8", errors="surrogatepass")
        digest.update(f"{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()


def cached_tokens(
    folder: Path, key: str, make: Callable[[], tuple[list[Tokens], Sequence[str]]]
) -> tuple[list[Tokens], list[str]]:
    """Tokens of several splits and the vocabulary's words, read from the cache where they are in it.

    Args:
        folder: The folder of the cache.
        key: A digest of the texts, see `content_key`.
        make: Makes both where they are not in the cache.
    """

    def arrays() -> Arrays:
        splits, words = make()
        joined = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)  # no word has a newline
        parts = {f"flat{i}": split.flat for i, split in enumerate(splits)}
        lengths = {f"lengths{i}": split.lengths for i, split in enumerate(splits)}
        return {"words": joined, **parts, **lengths}

    found = cached_by_key(folder / f"tokens-{key[:16]}.npz", key, arrays)
    count = sum(name.startswith("flat") for name in found)
    splits = [Tokens(found[f"flat{i}"], found[f"lengths{i}"]) for i in range(count)]
    joined = found["words"].tobytes().decode()
    return splits, joined.split("\n") if joined else []

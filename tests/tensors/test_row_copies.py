"""Rows with the same values and label have the same hash, whatever the precision they are kept in."""

from __future__ import annotations

import numpy as np

from calibench.tensors.row_copies import hash_rows


def test_hashes_are_equal_where_values_and_labels_are() -> None:
    random = np.random.default_rng(0)
    for rows in (random.normal(size=(50, 3)).astype(np.float32), np.arange(150).reshape(50, 3)):
        target = random.integers(0, 3, 50)
        hashes = hash_rows(rows, target)
        assert len(np.unique(hashes)) == 50
        assert (hash_rows(rows[::-1], target[::-1]) == hashes[::-1]).all()
        assert not np.isin(hash_rows(rows, target + 1), hashes).any()
    single = random.normal(size=(50, 3)).astype(np.float32)
    assert (hash_rows(single, target) == hash_rows(single.astype(np.float64), target)).all()

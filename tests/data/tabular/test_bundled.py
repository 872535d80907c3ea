"""scikit-learn's tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine

from calibench.data import BundledTableDataModule

LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine}


@pytest.mark.parametrize("table", LOADERS)
def test_splits_are_stratified_and_make_the_whole_table(table: str) -> None:
    content = LOADERS[table]()
    data = BundledTableDataModule(table=table)
    data.setup()
    assert data.class_names == content.target_names.tolist()
    rows = torch.cat([part.inputs for part in data.splits]).numpy()
    expected = content.data.astype(np.float32)
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(expected, axis=0))
    counts = np.bincount(content.target)
    for part, share in zip(data.splits, (0.5, 0.2, 0.3), strict=True):
        assert np.abs(np.bincount(part.target) - share * counts).max() <= 1
    train = data.transform(data.splits.train.inputs)
    assert train.mean(0).abs().max() < 1e-4
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-4


def test_there_is_no_other_set() -> None:
    with pytest.raises(ValueError, match="no evaluation set `noise`"):
        BundledTableDataModule(table="wine", ood=["noise"])

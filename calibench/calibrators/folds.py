"""Folds of a cross-validation: every fold has nearly the same number of each class."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def stratified_folds(target: Tensor, folds: int) -> Tensor:
    """The fold of each example, (N,) int64: of each class every fold has nearly the same number, by a fixed draw."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(target)))
    order = order[target.cpu()[order].argsort(stable=True)]
    found = torch.empty(len(target), dtype=torch.int64)
    found[order] = torch.arange(len(target)) % folds
    return found

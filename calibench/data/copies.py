"""Copies of examples: validation and test examples that are training examples, and one input in several classes."""

from typing import Literal

import numpy as np
import torch

from calibench.data.batch import Examples, Splits
from calibench.data.layouts import PART_TITLES
from calibench.data.source import DataError
from calibench.tensors.row_copies import hash_rows

_SAME = {"images": "the same pixels", "rows": "the same inputs and label"}
_FEWEST_COPIES, _MOST_COPIES = 20, 0.5  # and share of a part, which is then the training data again
# Copies of training rows are named where their share is above so many times that of copies within the training rows:
# rows of few values are equal by chance.
_TIMES = 2


def describe_copies(splits: Splits, unit: Literal["images", "rows"]) -> list[str]:
    """Caveats of splits whose inputs are in memory: a line for each part with training examples, and one on classes.

    Raises a DataError for a part of which most examples are training examples.
    """
    has_labels = unit == "rows"
    hashes = {
        part: _hash_examples(split, has_labels=has_labels)
        for part, split in zip(PART_TITLES, splits, strict=True)
    }
    train = hashes["train"]
    by_chance = 1 - len(np.unique(train)) / max(1, len(train))
    caveats = list[str]()
    for part in ("val", "test"):
        copies = int(np.isin(hashes[part], train).sum())
        are_by_chance = copies <= _TIMES * by_chance * len(hashes[part])
        if copies and not (are_by_chance and has_labels):
            line = f"{copies} of {len(hashes[part])} {PART_TITLES[part]} {unit} are training {unit} too ({_SAME[unit]})"
            if copies > max(_FEWEST_COPIES, _MOST_COPIES * len(hashes[part])) and not are_by_chance:
                raise DataError(f"{line}: the {PART_TITLES[part]} part needs other examples.")
            caveats.append(line)
    has_classes = splits.train.target.ndim == 1 and not has_labels
    if has_classes and (number := _count_in_several_classes(splits, [*hashes.values()])):
        caveats.append(f"{number} images have copies in another class ({_SAME[unit]})")
    return caveats


def _hash_examples(examples: Examples, *, has_labels: bool) -> np.ndarray:
    """Hashes (N,) of inputs, with labels or without."""
    target = examples.target if has_labels else torch.zeros(len(examples.target), dtype=torch.int64)
    return hash_rows(examples.inputs.flatten(1).numpy(), target.numpy())


def _count_in_several_classes(splits: Splits, hashes: list[np.ndarray]) -> int:
    """The number of examples that have the input of another one, of another class."""
    pairs = np.stack(
        [np.concatenate(hashes), np.concatenate([split.target.numpy() for split in splits])]
    )
    inputs, counts = np.unique(np.unique(pairs, axis=1)[0], return_counts=True)
    return int(np.isin(pairs[0], inputs[counts > 1]).sum())

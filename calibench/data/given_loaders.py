"""Loaders that a program built, as a data module."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import IterableDataset

from calibench.data.disk_loader import length_of

_LOOKED_AT = 32  # examples of a split that its digest covers


class GivenLoaders(LightningDataModule):
    """Loaders for training, validation and test, of batches (inputs, class numbers).

    Args:
        train: Loader of the training set.
        val: Loader of the validation set.
        test: Loader of the test set.
        num_classes: The number of classes.
    """

    def __init__(self, train: Any, val: Any, test: Any, *, num_classes: int) -> None:
        super().__init__()
        self.loaders, self.num_classes = {"train": train, "val": val, "test": test}, num_classes

    def train_dataloader(self) -> Any:
        """The loader of the training set."""
        return self.loaders["train"]

    def val_dataloader(self) -> Any:
        """The loader of the validation set."""
        return self.loaders["val"]

    def test_dataloader(self) -> Any:
        """The loader of the test set."""
        return self.loaders["test"]

    def digest_parts(self) -> Iterator[bytes]:
        """The bytes that tell these loaders from others: sizes, batch sizes, and some examples, drawn from one seed."""
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        try:
            for name, loader in self.loaders.items():
                dataset: Any = getattr(loader, "dataset", None)
                size = length_of(loader) if length_of(dataset) is None else length_of(dataset)
                batch = getattr(loader, "batch_size", None)
                yield repr((name, size, batch, type(dataset).__qualname__)).encode()
                random.seed(0)
                np.random.seed(0)  # noqa: NPY002
                torch.manual_seed(0)
                for example in _look_at(loader, dataset, size):
                    yield from _bytes_of(example)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_rng_state(states[2])


def _look_at(loader: Any, dataset: Any, size: int | None) -> Iterator[Any]:
    """Some examples of a dataset: from all over it where it has positions, else its first ones, or the first batch."""
    if isinstance(dataset, IterableDataset):
        yield from islice(dataset, _LOOKED_AT)
    elif hasattr(dataset, "__getitem__") and size is not None:
        for place in np.linspace(0, size - 1, min(size, _LOOKED_AT)).astype(int):
            yield dataset[int(place)]
    else:
        yield from islice(loader, 1)


def _bytes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _bytes_of(part)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield np.ascontiguousarray(value).tobytes()
    else:
        yield repr(value).encode()

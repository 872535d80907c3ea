"""Loader over batches that another loader makes, in an order that depends on nothing but a seed and the epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from calibench.data.batch import Batch
from calibench.data.resumable import ResumableLoader
from calibench.data.seeds import mixed
from calibench.data.source import DataError
from calibench.ground.distributed import world

Pair = tuple[Tensor, Tensor]


class StreamedLoader(ResumableLoader):
    """This process's slices of the batches of another loader, which are taken for global batches.

    Whatever the other loader draws (its order, random changes of an example) is drawn from (seed, epoch, step), and
    the random state of the run is as before: so a run repeats, a resumed run goes on with the same batches, and each
    process of several reads the same ones. A resume within an epoch reads the batches before it once more.

    Args:
        source: Gives pairs of inputs and class numbers: a `torch.utils.data.DataLoader`, or anything with a length.
        what: What messages call it.
        seed: The run's seed.
        device: Where the batches go.
    """

    batch_sampler = None

    def __init__(self, source: Any, what: str, *, seed: int, device: torch.device | str) -> None:
        if not isinstance(source, Sized):
            raise DataError(f"{what} has no length: give its dataset a `__len__`.")
        self.source: Any = source
        self.what, self.seed = what, seed
        self.device = torch.device(device)

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Batch]:
        start, self._first_step = self._first_step, 0
        processes, rank = world()
        first_row = 0
        for step, (inputs, target) in enumerate(self.pairs()):
            mine = torch.tensor_split(torch.arange(len(target)), processes)[rank]
            index = (first_row + mine).to(self.device)
            first_row += len(target)
            if step >= start:
                self._step = step + 1
                inputs, labels = (part[mine].to(self.device) for part in (inputs, target))
                yield Batch(inputs, labels, index, len(target))

    def pairs(self) -> Iterator[Pair]:
        """The whole batches of an epoch: inputs (n, ...) and class numbers (n,) int64."""
        with _seeded(self.seed, self.epoch):
            batches = iter(self.source)
        for step in range(len(self)):
            with _seeded(self.seed, self.epoch, step):
                batch = next(batches, None)
            if batch is None:  # it promised more
                return
            yield _pair(batch, self.what)


def _pair(batch: Any, what: str) -> Pair:
    tensors = isinstance(batch, list | tuple) and all(isinstance(part, Tensor) for part in batch)
    if not tensors or len(batch) != 2:
        raise DataError(
            f"{what} must give pairs of tensors (inputs, class numbers), got {_described(batch)}."
        )
    inputs, target = batch
    if target.is_floating_point() or target.shape != inputs.shape[:1]:
        raise DataError(
            f"{what} must give one class number per example ({len(inputs)},), "
            f"got {str(target.dtype).removeprefix('torch.')} of shape {tuple(target.shape)}."
        )
    return inputs, target.long()


def _described(batch: Any) -> str:
    kinds = (
        ", ".join(type(part).__name__ for part in batch) if isinstance(batch, list | tuple) else ""
    )
    return f"{type(batch).__name__}({kinds})" if kinds else type(batch).__name__


@contextmanager
def _seeded(*numbers: int) -> Iterator[None]:
    """Seed the generators of Python, numpy and torch while inside, and put their states back."""
    seed = mixed(*numbers)
    with isolate_rng(include_cuda=False):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # the state that a dataset's own augmentation draws from
        torch.default_generator.manual_seed(seed)
        yield

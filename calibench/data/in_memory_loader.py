"""Loaders over splits kept in memory, on the device, or read from disk as they are used.

A loader yields this process's slice of each *global* batch, cut as `torch.tensor_split` cuts it:
every process takes the same number of steps, no row is padded or repeated, and what a batch holds
does not depend on how many processes there are. On a GPU a batch costs the host a few kernel
launches.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from calibench.configuration.seeds import Seed
from calibench.data.batch import Batch, Examples
from calibench.data.mixing import Augmentation, Mixing
from calibench.tensors.distributed import world_size_and_rank

T = TypeVar("T")
_AHEAD, _MAKERS = 3, 2  # batches that are read ahead of the one in use, and at a time


def run_seed() -> int:
    """The run's seed: what `seed_everything` left in the environment, 0 without it."""
    return int(os.environ.get("PL_GLOBAL_SEED", "0"))


def mix_seeds(*numbers: int) -> int:
    """The seed of a generator, made of several numbers: of a run and its epoch, say.

    Hashed to 32 bits, because torch's CPU generator ignores the higher ones.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def seed_number(seed: Seed) -> int:
    """The seed as a number: "run" is the run's."""
    return run_seed() if seed == "run" else seed


class ResumableLoader:
    """The part of a training loader that Lightning talks to: its epoch and the batches handed out (this package).

    Lightning looks for `set_epoch` at `sampler`, saves `state_dict` with a checkpoint within an epoch, and gives it
    back to `load_state_dict` when a run resumes there.
    """

    batch_sampler = None
    epoch = 0
    _step = 0
    _first_step = 0

    @property
    def sampler(self) -> Self:
        """Where Lightning looks for `set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """The number of batches handed out in this epoch."""
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next iteration after the batches that were handed out already."""
        self._first_step = state["step"]


def _process_rows(rows: Tensor) -> Tensor:
    processes, rank = world_size_and_rank()
    return torch.tensor_split(rows, processes)[rank]


def move_to_device(part: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; a GPU takes it from pinned memory, and nobody waits for it."""
    if device.type != "cuda" or part.device.type != "cpu":
        return part.to(device)
    return part.pin_memory().to(device, non_blocking=True)


Transform = Callable[[Tensor], Tensor]


Decode = Callable[..., Tensor]
"""File numbers (n,), and perhaps what is read of each image, to inputs (n, ...)."""


def keep_inputs(inputs: Tensor) -> Tensor:
    """The inputs unchanged: they are stored as the backbone takes them."""
    return inputs


class ResidentLoader:
    """Batches of a split in dataset order.

    Args:
        examples: The split.
        batch_size: Rows of a global batch; at least 1.
        device: Where the split is kept and batches are made.
        transform: From stored inputs (n, ...) to network inputs.
        decode: Reads the inputs of a split too large for memory, whose stored inputs are file numbers (n,), which then
            stay on the CPU. The next batches are read while one is used.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        device: torch.device | str = "cpu",
        transform: Transform = keep_inputs,
        decode: Decode | None = None,
    ) -> None:
        self.batch_size, self.device = batch_size, torch.device(device)
        self.transform, self.decode = transform, decode
        # file numbers are for the CPU
        self.home = self.device if decode is None else torch.device("cpu")
        self.examples = examples.to(self.home)

    def __len__(self) -> int:
        return math.ceil(len(self.examples.target) / self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        order = torch.arange(len(self.examples.target), device=self.home)
        yield from self._batches(order, range(len(self)))

    def _batches(self, order: Tensor, steps: range) -> Iterator[Batch]:
        batches = torch.split(order, self.batch_size)
        if self.decode is None:
            yield from (self.batch_of(batches[step], step) for step in steps)
            return
        images = prefetch(lambda step: self.read(self.rows_of(batches[step])), steps)
        with closing(images):
            for step, read in zip(steps, images, strict=True):
                yield self.batch_of(batches[step], step, read)

    def rows_of(self, rows: Tensor) -> Tensor:
        """The positions that this process needs of the global batch of `rows`."""
        return _process_rows(rows)

    def batch_of(self, rows: Tensor, step: int, read: Tensor | None = None) -> Batch:
        """This process's part of the global batch of `rows`, whose images may have been `read` already."""
        return self.slice_of(rows, self.rows_of(rows), read)

    def slice_of(self, rows: Tensor, positions: Tensor, read: Tensor | None = None) -> Batch:
        """The part at the positions `mine` of the global batch of `rows`."""
        inputs = self.transform(self.stored(positions, read))
        places = move_to_device(positions, self.home)
        target, index = (
            move_to_device(part, self.device) for part in (self.examples.target[places], places)
        )
        return Batch(inputs, target, index, len(rows))

    def read(self, index: Tensor) -> Tensor:
        """The inputs at the given positions: as they are stored, or decoded."""
        stored = self.examples.inputs[index]
        return stored if self.decode is None else self.decode(stored)

    def stored(self, index: Tensor, read: Tensor | None = None) -> Tensor:
        """The stored inputs at the given positions, on the device."""
        return move_to_device(self.read(index) if read is None else read, self.device)


class ShuffledLoader(ResumableLoader, ResidentLoader):
    """Shuffled and augmented batches for training, reproducible and resumable within an epoch.

    The order is a function of (seed, epoch), the augmentation of an example of (seed, epoch, index): when a run resumes
    within an epoch, the remaining batches are those of the uninterrupted run.

    Args:
        examples: The split.
        seed: The run's seed.
        augmentation: Random change of the stored inputs, before they are transformed; None for none.
        balanced: Draw the examples of an epoch with replacement, each class as often as the others.
        mixing: What changes batches, first the part that takes further rows.
        num_classes: K, where there is any.
        options: Those of `ResidentLoader`.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        seed: int,
        augmentation: Augmentation | None = None,
        balanced: bool = False,
        mixing: Sequence[Mixing] = (),
        num_classes: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(examples, **options)
        self.mixing = sorted(mixing, key=lambda part: -part.rows_before)
        for part in self.mixing:
            augmentation = part.around(augmentation)
        self.seed, self.augmentation, self.balanced = seed, augmentation, balanced
        self.num_classes = num_classes
        if augmentation is not None and self.decode is None:
            prepared = augmentation.prepare(self.examples.inputs)
            self.examples = self.examples._replace(inputs=prepared)
        self._draws = torch.empty(0)  # of the augmentation, one row for each example
        reads_draws = augmentation is not None and augmentation.reads_draws
        self._home_of_draws = torch.device("cpu") if reads_draws else self.home

    def __iter__(self) -> Iterator[Batch]:
        # A generator, so that nothing is drawn before Lightning has set the epoch of a resumed run.
        order = self._start_epoch()
        start, self._first_step = self._first_step, 0
        batches = self._batches(order, range(start, len(self)))
        for handed_out, batch in enumerate(batches, start=start + 1):
            self._step = handed_out
            yield batch

    def rows_of(self, rows: Tensor) -> Tensor:
        """The positions that this process needs: where examples are mixed, also the one before its first."""
        before = [_process_rows(rows.roll(1))[: part.rows_before] for part in self.mixing]
        return torch.cat([*before, _process_rows(rows)])

    def batch_of(self, rows: Tensor, step: int, read: Tensor | None = None) -> Batch:
        """This process's part of the global batch of `rows`, as `mixing` changes it."""
        batch = super().batch_of(rows, step, read)
        if self.augmentation is not None:
            batch = batch._replace(views=self.augmentation.views)
        if self.examples.distributions is not None:
            places = move_to_device(self.rows_of(rows), self.home)
            distributions = self.examples.distributions[places]
            batch = batch._replace(target=move_to_device(distributions, self.device))
        if self.mixing:
            draws = np.random.default_rng(mix_seeds(self.seed, self.epoch, step))
            for part in self.mixing:
                batch = part(batch, self.num_classes, draws)
        return batch

    def _start_epoch(self) -> Tensor:
        generator = torch.Generator().manual_seed(mix_seeds(self.seed, self.epoch))
        order = self._order(generator)
        if self.augmentation is not None:
            draws = self.augmentation.draw(len(order), generator, seed=self.seed, epoch=self.epoch)
            self._draws = draws.to(self._home_of_draws)
        return order.to(self._home_of_draws)

    def _order(self, generator: torch.Generator) -> Tensor:
        """The examples of an epoch, shuffled."""
        target = self.examples.target.cpu()
        if not self.balanced:
            return torch.randperm(len(target), generator=generator)
        weights = torch.bincount(target).double().reciprocal()[target]
        return weights.multinomial(len(target), replacement=True, generator=generator)

    def read(self, index: Tensor) -> Tensor:
        """The inputs at the given positions, of which an augmentation may choose what is read."""
        if self.decode is None or self.augmentation is None:
            return super().read(index)
        crops = self.augmentation.crops(self._draws[index])
        return self.decode(self.examples.inputs[index], crops)

    def stored(self, index: Tensor, read: Tensor | None = None) -> Tensor:
        """The inputs at the given positions on the device, augmented."""
        if self.augmentation is None:
            return super().stored(index, read)
        draws = self._draws[index]
        if not self.augmentation.reads_draws:
            draws = move_to_device(draws, self.device)
        if self.decode is None:
            return self.augmentation(self.examples.inputs, index, draws)
        return self.augmentation.after_reading(super().stored(index, read), draws)


def prefetch(make: Callable[[int], T], steps: range) -> Generator[T, None, None]:
    """Results of a function for each step, in order, made in threads ahead of their use."""
    pool, left = ThreadPoolExecutor(_MAKERS), iter(steps)
    try:
        ready = deque(pool.submit(make, step) for step in islice(left, _AHEAD))
        while ready:
            result = ready.popleft().result()
            ready.extend(pool.submit(make, step) for step in islice(left, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)

"""Batches of another loader, of which each process reads its own slice."""

import random
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Subset,
    TensorDataset,
)

from calibench.data.batch import Batch
from calibench.data.resident import ResumableLoader, mixed, moved
from calibench.data.source import DataError
from calibench.ground.distributed import world

_STRIDE = 0x9E3779B1  # between the seeds of neighbouring examples


class Rows(NamedTuple):
    """Rows of a global batch: inputs (n_r, ...), classes and positions in the epoch, and the size of the batch."""

    inputs: Tensor
    target: Tensor
    index: Tensor  # type: ignore[assignment]  # shadows tuple.index, which nobody needs
    size: int


class StreamedLoader(ResumableLoader):
    """This process's slices of the batches of another loader, which are taken for global batches.

    Of a `DataLoader` over a dataset with positions each process reads its own slice alone: the order of an epoch is
    drawn from (seed, epoch), the random changes of an example from (seed, epoch, place in that order), neither from the
    number of processes nor from that of the loader's workers; `collate_fn` is given the slice. Of anything else with a
    length every process reads the whole batches. The random state of the run is as before: so a run repeats, a resumed
    run goes on with the same batches, and several processes have the examples of one.

    Args:
        source: Gives pairs of inputs and class numbers: a `torch.utils.data.DataLoader`, or anything with a length.
        what: What messages call it.
        seed: The run's seed.
        device: Where the batches go.
    """

    def __init__(self, source: Any, what: str, *, seed: int, device: torch.device | str) -> None:
        if not isinstance(source, Sized):
            raise DataError(f"{what} has no length: give its dataset a `__len__`.")
        sampler = getattr(source, "sampler", None)
        if isinstance(sampler, DistributedSampler) and sampler.num_replicas > 1:
            raise DataError(
                f"{what} has a DistributedSampler: leave it out, each process is given its slice of a batch here."
            )
        self.source: Any = source
        self.what, self.seed = what, seed
        self.device = torch.device(device)
        self._reader = _reader_of(source)

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Batch]:
        start, self._first_step = self._first_step, 0
        for step, (inputs, target, index, size) in enumerate(self.slices(start), start=start + 1):
            self._step = step
            inputs, target, index = (moved(part, self.device) for part in (inputs, target, index))
            yield Batch(inputs, target, index, size)

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole batches of an epoch: inputs (n, ...) and class numbers (n,) int64."""
        return (rows[:2] for rows in self.slices(processes=1, rank=0))

    @property
    def positions(self) -> list[int] | None:
        """The dataset's positions of an epoch's examples, in order; None of a loader of whole batches."""
        if self._reader is None:
            return None
        return [row.position for batch in self._order() for row in batch]

    def take(self, index: Tensor) -> Tensor:
        """The inputs (n, ...) at some positions of the epoch; of a loader of whole batches, all up to them are read."""
        if self._reader is not None:
            order = [row for batch in self._order() for row in batch]
            rows = [order[place] for place in index.tolist()]
            return self._whole(self._reader.read([rows]))[0]
        found: dict[int, Tensor] = {}
        wanted, first = set(index.tolist()), 0
        for inputs, _ in self.pairs():
            here = wanted & set(range(first, first + len(inputs)))
            found |= {place: inputs[place - first] for place in here}
            first += len(inputs)
            if len(found) == len(wanted):
                break
        return torch.stack([found[place] for place in index.tolist()])

    def slices(
        self, start: int = 0, *, processes: int | None = None, rank: int = 0
    ) -> Iterator[Rows]:
        """A process's rows of each batch of an epoch from the batch `start` on; by default this process's."""
        if processes is None:
            processes, rank = world()
        if self._reader is None:
            yield from self._cut(start, processes, rank)
            return
        batches = self._order()
        firsts = [0, *accumulate(map(len, batches))]
        parts = [torch.tensor_split(torch.arange(len(batch)), processes)[rank] for batch in batches]
        # of no rows an example says the shape
        wanted = [
            [batch[i] for i in part.tolist() or [0]]
            for batch, part in zip(batches, parts, strict=True)
        ]
        read = self._reader.read(wanted[start:])
        for step in range(start, len(batches)):
            inputs, target = self._whole(read)
            n = len(parts[step])
            yield Rows(inputs[:n], target[:n], firsts[step] + parts[step], len(batches[step]))

    def _order(self) -> list[list["_Row"]]:
        """The examples of each batch of an epoch, with their seeds."""
        source = self.source
        with _seeded(self.seed, self.epoch, 0):
            for owner in (source, source.sampler, source.batch_sampler):
                if isinstance(own := getattr(owner, "generator", None), torch.Generator):
                    own.manual_seed(torch.initial_seed())
            batches = [[*batch] for batch in source.batch_sampler]
        seed, place = mixed(self.seed, self.epoch), -1
        for batch in batches:
            for number, position in enumerate(batch):
                place += 1
                batch[number] = _Row((seed + _STRIDE * place) % 2**32, position)
        return batches

    def _cut(self, start: int, processes: int, rank: int) -> Iterator[Rows]:
        """The same of whole batches."""
        with _seeded(self.seed, self.epoch):
            batches = iter(self.source)
        first = 0
        for step in range(len(self)):
            try:
                with _seeded(self.seed, self.epoch, step):
                    inputs, target = self._whole(batches)
            except StopIteration:  # it promised more
                return
            mine = torch.tensor_split(torch.arange(len(target)), processes)[rank]
            if step >= start:
                yield Rows(inputs[mine], target[mine], first + mine, len(target))
            first += len(target)

    def _whole(self, batches: Iterator[Any]) -> tuple[Tensor, Tensor]:
        """The next batch as a pair; raises a DataError if it is none."""
        batch = next(batches)
        parts = batch if isinstance(batch, list | tuple) else ()
        if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
            kinds = f"({', '.join(type(part).__name__ for part in parts)})" if parts else ""
            raise DataError(
                f"{self.what} must give pairs of tensors (inputs, class numbers), got {type(batch).__name__}{kinds}."
            )
        inputs, target = batch
        if target.is_floating_point() or target.shape != inputs.shape[:1]:
            raise DataError(
                f"{self.what} must give one class number per example ({len(inputs)},), "
                f"got {str(target.dtype).removeprefix('torch.')} of shape {tuple(target.shape)}."
            )
        return inputs, target.long()


class _Row(NamedTuple):
    """An example by its position in the dataset, and the seed of its random changes."""

    seed: int
    position: Any


class _Seeded(Dataset[Any]):
    """A dataset whose examples are read after the generators were seeded with a number of their own."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

        whole = dataset
        while isinstance(whole, Subset):
            whole = whole.dataset
        self.draws = not isinstance(whole, TensorDataset)

    def __getitem__(self, row: _Row) -> Any:
        if self.draws:
            _seed(row.seed)
        return self.dataset[row.position]


class _Reader:
    """Reads given examples in batches, by a loader with the workers and the `collate_fn` of another one."""

    def __init__(self, source: "DataLoader[Any]") -> None:
        self._batches: list[list[Any]] = []
        same = (
            "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
            "prefetch_factor", "persistent_workers",
        )  # fmt: skip
        options = {name: getattr(source, name) for name in same}
        self._loader = DataLoader(_Seeded(source.dataset), batch_sampler=self, **options)

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def read(self, batches: list[list[_Row]]) -> Iterator[Any]:
        """Each batch, collated."""
        self._batches = batches
        with isolate_rng(include_cuda=False):
            read = iter(self._loader)
        for _ in batches:
            with isolate_rng(include_cuda=False):
                batch = next(read)
            yield batch


def _reader_of(source: Any) -> _Reader | None:
    """A reader of single examples, where a loader batches those of a dataset by positions in torch's own way."""
    by_positions = (
        isinstance(source, DataLoader)
        and type(source).__iter__ is DataLoader.__iter__
        and source.batch_sampler is not None
        and not isinstance(source.dataset, IterableDataset)
    )
    return _Reader(source) if by_positions else None


@contextmanager
def _seeded(*numbers: int) -> Iterator[None]:
    """Seed the generators of Python, numpy and torch while inside, and put their states back."""
    with isolate_rng(include_cuda=False):
        _seed(mixed(*numbers))
        yield


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the state that a dataset's own augmentation draws from
    torch.default_generator.manual_seed(seed)

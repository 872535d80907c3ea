"""Batches of another loader, of which each process reads its own slice."""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, count, islice
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    Subset,
    TensorDataset,
)

from calibench.data.batch import Batch
from calibench.data.in_memory_loader import ResumableLoader, mix_seeds, move_to_device
from calibench.data.source import DataError
from calibench.tensors.distributed import world_size_and_rank

MOST_EXAMPLES = 10_000_000
"""Examples that an `IterableDataset` without a length may give: one that gives more is taken for endless."""
_STRIDE = 0x9E3779B1  # between the seeds of neighbouring examples
Row = tuple[int, Any]
"""The seed of an example's random changes, and its position in the dataset."""


class StreamedLoader(ResumableLoader):
    """This process's slices of the batches of another loader, which are taken for global batches.

    Of a `DataLoader` over a dataset with positions each process reads its own slice alone: the order of an epoch is
    drawn from (seed, epoch), the random changes of an example from (seed, epoch, place in that order), neither from the
    number of processes nor from that of the loader's workers; `collate_fn` is given the slice. Over an
    `IterableDataset` each process iterates over all examples, as they come in no other way, and collates its slice
    alone: what is slow, such as decoding, belongs into `collate_fn`. It does so in one worker, however many the loader
    has, so that no example comes twice or not at all, whether the dataset shards itself by worker or not. Of anything
    else with a length every process reads the whole batches. The random state of the run is as before: so a run
    repeats, a resumed run goes on with the same batches, and several processes have the examples of one.

    An `IterableDataset` may give as many examples as its `__len__` says, without one `MOST_EXAMPLES`; if there are
    more, a DataError says so.

    Attributes:
        batches_beyond: After the first epoch of a loader of whole batches, by how many its length is wrong: 1 where
            more batches came, less than 0 where fewer came.

    Args:
        source: Gives pairs of inputs and class numbers: a `torch.utils.data.DataLoader`, or anything with a length.
        examples: Examples of an epoch of an `IterableDataset`, where they were counted.
        title: What messages call it.
        seed: The run's seed.
        device: Where the batches go.
    """

    def __init__(
        self,
        source: Any,
        title: str,
        *,
        seed: int,
        device: torch.device | str,
        examples: int | None = None,
    ) -> None:
        batched = (
            isinstance(source, DataLoader)
            and type(source).__iter__ is DataLoader.__iter__
            and source.batch_sampler is not None
            and not isinstance(source.dataset, IterDataPipe)  # which a loader shuffles and shards
        )
        self._iterates = batched and isinstance(source.dataset, IterableDataset)
        self._examples, self.batches_beyond = examples, 0
        if not self._iterates and length_of(source) is None:
            raise DataError(f"{title} has no length: give it a `__len__`.")
        sampler = getattr(source, "sampler", None)
        if isinstance(sampler, DistributedSampler) and sampler.num_replicas > 1:
            raise DataError(
                f"{title} has a DistributedSampler: leave it out, each process is given its slice of a batch here."
            )
        self.source: Any = source
        self.what, self.seed = title, seed
        self.device = torch.device(device)
        self._reader = _BatchReader(source) if batched and not self._iterates else None

    def __len__(self) -> int:
        if self._examples is None or not self._iterates:
            return len(self.source)
        return math.ceil(self._examples / (self.source.batch_size or 1))

    def __iter__(self) -> Iterator[Batch]:
        start, self._first_step = self._first_step, 0
        for step, batch in enumerate(self.slices(start), start=start + 1):
            self._step = step
            inputs, target, index = (move_to_device(part, self.device) for part in batch[:3])
            yield Batch(inputs, target, index, batch.size)

    @property
    def positions(self) -> list[int] | None:
        """The dataset's positions of an epoch's examples, in order; None of a loader of whole batches."""
        if self._reader is None:
            return None
        return [position for _, position in chain.from_iterable(self._order())]

    @property
    def last_batch_size(self) -> int | None:
        """Examples of the last batch; None of a loader of whole batches, which nothing says before."""
        return len(self._order()[-1]) if self._reader is not None and len(self) else None

    def take(self, index: Tensor) -> Tensor:
        """The inputs (n, ...) at some positions of the epoch; of a loader of whole batches, all up to them are read."""
        if self._reader is not None:
            order = [*chain.from_iterable(self._order())]
            rows = [order[place] for place in index.tolist()]
            return self._pair(next(self._reader.read([rows])))[0]
        inputs_by_place: dict[int, Tensor] = {}
        places = set(index.tolist())
        for batch in self.slices(all_processes=True):
            batch_places = zip(batch.index.tolist(), batch.inputs, strict=True)
            inputs_by_place |= {place: inputs for place, inputs in batch_places if place in places}
            if len(inputs_by_place) == len(places):
                break
        return torch.stack([inputs_by_place[place] for place in index.tolist()])

    def slices(self, start: int = 0, *, all_processes: bool = False) -> Iterator[Batch]:
        """This process's slice of each batch of an epoch from `start` on, or the `whole` batch, on the CPU."""
        processes, rank = (1, 0) if all_processes else world_size_and_rank()
        first = 0
        for step, (batch, size) in enumerate(self._batches(start, processes, rank)):
            positions = _slice_positions(size, processes, rank)
            if step >= start:
                inputs, target = self._pair(batch)
                yield Batch(
                    inputs[: len(positions)], target[: len(positions)], first + positions, size
                )
            first += size

    def _batches(self, start: int, processes: int, rank: int) -> Iterator[tuple[Any, int]]:
        """A process's rows of each batch of an epoch, or one row where it has none, and the size of the batch.

        In place of what comes before the batch `start` there may be None.
        """
        if self._reader is not None:
            order = self._order()
            read = self._reader.read(
                [_process_slice(batch, processes, rank) for batch in order[start:]]
            )
            for step, rows in enumerate(order):
                yield None if step < start else next(read), len(rows)
            return
        source = self.source
        if self._iterates:
            collate = partial(_collate_slice, source.collate_fn)
            slices = _ProcessSlices(source, processes, rank)
            workers = min(source.num_workers, 1)
            source = _loader_like(
                source, slices, batch_size=None, collate_fn=collate, num_workers=workers
            )
        with _seeded_generators(self.seed, self.epoch):
            batches = iter(source)
        examples = 0
        for step in count() if self._iterates else range(len(self)):
            with _seeded_generators(self.seed, self.epoch, step):
                batch = next(batches, None)
            if batch is None:
                self.batches_beyond = 0 if self._iterates else step - len(self)
                return
            if self._iterates:
                examples += batch[1]
                self._refuse_beyond_length(examples)
                yield batch
                continue
            inputs, target = self._pair(batch)
            positions = _slice_positions(len(target), processes, rank)
            yield (inputs[positions], target[positions]), len(target)
        if self._examples is None:
            with _seeded_generators(self.seed, self.epoch, len(self)):
                self.batches_beyond = int(next(batches, None) is not None)

    def read_once(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The inputs and classes of an `IterableDataset`, in batches, iterated over in this process alone."""
        source = self.source
        with _seeded_generators(self.seed, self.epoch):
            examples, examples_read = iter(source.dataset), 0
        while True:
            with _seeded_generators(self.seed, self.epoch):
                batch = [*islice(examples, source.batch_size or 1)]
                if not batch:
                    return
                examples_read += len(batch)
                self._refuse_beyond_length(examples_read)
                pair = source.collate_fn(batch if source.batch_size else batch[0])
            yield self._pair(pair)

    @property
    def is_iterated(self) -> bool:
        """Whether the source is a loader over an `IterableDataset`, of which only iterating tells the examples."""
        return isinstance(self.source, DataLoader) and isinstance(
            self.source.dataset, IterableDataset
        )

    @property
    def promised_examples(self) -> int | None:
        """The examples that an `IterableDataset` says that it has; None where it does not say it."""
        return length_of(self.source.dataset)

    def _refuse_beyond_length(self, examples: int) -> None:
        """Raise a DataError if an `IterableDataset` has given more examples than it may."""
        promised = self.promised_examples
        if promised is not None and examples > promised:
            raise DataError(
                f"{self.what}: its dataset says {promised:,} examples and gives more; each must come once."
            )
        if promised is None and examples > MOST_EXAMPLES:
            raise DataError(
                f"{self.what} gives more than {MOST_EXAMPLES:,} examples and has no end in sight: give its dataset a "
                "`__len__`, or an end."
            )

    def _order(self) -> list[list[Row]]:
        """The examples of each batch of an epoch."""
        source = self.source
        with _seeded_generators(self.seed, self.epoch, 0):
            for owner in (source, source.sampler, source.batch_sampler):
                if isinstance(generator := getattr(owner, "generator", None), torch.Generator):
                    generator.manual_seed(torch.initial_seed())
            batches = [[*batch] for batch in source.batch_sampler]
        seeds = count(mix_seeds(self.seed, self.epoch), _STRIDE)
        return [[(next(seeds) % 2**32, position) for position in batch] for batch in batches]

    def _pair(self, batch: Any) -> tuple[Tensor, Tensor]:
        """A batch as inputs and classes; raises a DataError if it is something else."""
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


class _SeededDataset(Dataset[Any]):
    """A dataset whose examples are read after the generators were seeded with a number of their own."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = base = dataset
        while isinstance(base, Subset):
            base = base.dataset
        self.draws = not isinstance(base, TensorDataset)

    def __getitem__(self, row: Row) -> Any:
        seed, position = row
        if self.draws:
            _seed_generators(seed)
        return self.dataset[position]


class _BatchReader:
    """Reads given examples in batches, by a loader with the workers and the `collate_fn` of another one."""

    def __init__(self, source: "DataLoader[Any]") -> None:
        self._batches: list[list[Any]] = []
        self._loader = _loader_like(
            source, _SeededDataset(source.dataset), batch_sampler=self, collate_fn=source.collate_fn,
            persistent_workers=source.persistent_workers,
        )  # fmt: skip

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def read(self, batches: list[list[Row]]) -> Iterator[Any]:
        """Each batch, collated."""
        self._batches = batches
        with isolate_rng(include_cuda=False):
            read = iter(self._loader)
        for _ in batches:
            with isolate_rng(include_cuda=False):
                batch = next(read)
            yield batch


class _ProcessSlices(IterableDataset[tuple[list[Any], int]]):
    """A process's examples of each batch of a loader that iterates over them, and the size of the batch."""

    _own_attributes = ("dataset", "part", "batch_size", "drop_last")

    def __init__(self, source: "DataLoader[Any]", processes: int, rank: int) -> None:
        self.dataset, self.part = source.dataset, (processes, rank)
        self.batch_size, self.drop_last = source.batch_size or 1, source.drop_last

    # A `worker_init_fn` shards the dataset that `get_worker_info` gives it by its attributes.
    def __getattr__(self, name: str) -> Any:
        if name in self._own_attributes or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        owner = super() if name in self._own_attributes else self.dataset
        owner.__setattr__(name, value)

    def __iter__(self) -> Iterator[tuple[list[Any], int]]:
        examples = iter(self.dataset)
        while batch := [*islice(examples, self.batch_size)]:
            if len(batch) == self.batch_size or not self.drop_last:
                yield _process_slice(batch, *self.part), len(batch)


def _collate_slice(
    collate: Callable[[list[Any]], Any], batch: tuple[list[Any], int]
) -> tuple[Any, int]:
    """Examples collated, and the batch's size; what is drawn at random moves no other draws."""
    with isolate_rng(include_cuda=False):
        return collate(batch[0]), batch[1]


def length_of(sized: Any) -> int | None:
    """The length that an object says it has; None where it says none."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def _loader_like(source: "DataLoader[Any]", dataset: Any, **options: Any) -> "DataLoader[Any]":
    """A loader of another dataset with the workers of a loader, but for what the options say."""
    same = (
        "num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor",
    )  # fmt: skip
    return DataLoader(dataset, **{name: getattr(source, name) for name in same} | options)


def _slice_positions(size: int, processes: int, rank: int) -> Tensor:
    return torch.tensor_split(torch.arange(size), processes)[rank]


def _process_slice(batch: list[Any], processes: int, rank: int) -> list[Any]:
    """A process's examples of a batch; where it has none the first one, which says the shape."""
    return [batch[place] for place in _slice_positions(len(batch), processes, rank).tolist() or [0]]


@contextmanager
def _seeded_generators(*numbers: int) -> Iterator[None]:
    """Seed the generators of Python, numpy and torch while inside, and put their states back."""
    with isolate_rng(include_cuda=False):
        _seed_generators(mix_seeds(*numbers))
        yield


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the state that a dataset's own augmentation draws from
    torch.default_generator.manual_seed(seed)

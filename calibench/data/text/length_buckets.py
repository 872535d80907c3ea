"""Loaders of token matrices that pad each global batch to its longest text, not to the split's.

Texts of similar length share a batch, so short ones do not pay for the longest. A batch's width
depends on the whole global batch, never on a process's slice of it.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from calibench.data.batch import Batch, Examples
from calibench.data.resident import ResidentLoader, ShuffledLoader, mixed
from calibench.data.text.tokens import PADDING


class TextLoader(ResidentLoader):
    """Batches of a split from short to long texts; `Batch.index` says which row is whose.

    Args:
        examples: Token numbers (N, width) with the padding in front, and targets.
        margin: Columns of padding kept in front of a batch's longest text, as far as the split has
            them; None keeps all of the split's.
        options: Those of `ResidentLoader`.
    """

    def __init__(self, examples: Examples, *, margin: int | None, **options: Any) -> None:
        super().__init__(examples, **options)
        self.margin = margin
        self.lengths = (examples.inputs != PADDING).sum(1)

    def __iter__(self) -> Iterator[Batch]:
        yield from self._batches(self.lengths.argsort(stable=True), range(len(self)))

    def slice_of(self, rows: Tensor, mine: Tensor, read: Tensor | None = None) -> Batch:
        """The part at the positions `mine` of the global batch of `rows`, as wide as this one's texts."""
        # The order stays on the host: a batch's width is then known without waiting for a GPU.
        mine = mine.to(self.device)
        first = self.examples.inputs.shape[1] - self._width(rows)
        inputs = self.transform(self.examples.inputs[:, first:][mine])
        return Batch(inputs, self.examples.target[mine], mine, len(rows))

    def _width(self, rows: Tensor) -> int:
        """Columns of a global batch; at least 1."""
        width = self.examples.inputs.shape[1]
        if self.margin is None:
            return width
        return max(1, min(width, int(self.lengths[rows].max()) + self.margin))


class ShuffledTextLoader(TextLoader, ShuffledLoader):
    """Shuffled batches for training, each of texts of similar length.

    The shuffled rows are cut into pools, a pool is sorted by length and cut into batches, and the
    batches are shuffled; rows that do not fill a batch come last, unsorted. The order is a function
    of (seed, epoch) and resumes within an epoch, as in `ShuffledLoader`.

    Args:
        examples: Token numbers (N, width) with the padding in front, and targets.
        margin: As for `TextLoader`.
        pool: Batches that are sorted together; 1 is a plain shuffle.
        options: Those of `ShuffledLoader`.
    """

    # `TextLoader` orders by length; the order of an epoch, and where it starts, are ShuffledLoader's.
    __iter__ = ShuffledLoader.__iter__

    def __init__(
        self, examples: Examples, *, margin: int | None, pool: int, **options: Any
    ) -> None:
        super().__init__(examples, margin=margin, **options)
        self.pool = pool

    def _start_epoch(self) -> Tensor:
        generator = torch.Generator().manual_seed(mixed(self.seed, self.epoch))
        shuffled = self._order(generator)
        full = len(shuffled) - len(shuffled) % self.batch_size
        cut = torch.split(shuffled[:full], self.pool * self.batch_size)
        # With a pool of one batch this only orders the rows within it.
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in cut]
        batches = torch.cat(pools).view(-1, self.batch_size)
        batches = batches[torch.randperm(len(batches), generator=generator)]
        return torch.cat([batches.flatten(), shuffled[full:]])

"""Poisson-binomial hits: how many of some examples are right, each with a probability of its own."""

from collections.abc import Iterator

import numpy as np

from calibench.tensors.arrays import Floats, Integers

MOST_SINGLE_DRAWS = (
    128  # examples that are drawn one by one; the hits of more are drawn as one binomial number
)
_AT_ONCE = 1 << 22  # numbers that are drawn at a time, so that temporaries stay small


class PoissonBinomial:
    """Hits in groups of examples with known probabilities, drawn again and again.

    Groups of up to 128 examples are drawn one by one. The misses of larger ones are binomial with the same mean and
    nearly the same variance (Ehm 1991), which is exact where the probabilities are equal and good where they are small:
    its total variation from the truth is below 1 % in bins of a reliability diagram.

    Args:
        probability: Of a hit of each example, (N,).
        group: The number of each one's group, (N,).
        groups: How many groups there are.
    """

    def __init__(self, probability: Floats, group: Integers, groups: int) -> None:
        self.groups = groups
        count = np.bincount(group, minlength=groups)
        is_small = count[group] <= MOST_SINGLE_DRAWS
        order = np.argsort(group[is_small], kind="stable")
        self._single = probability[is_small][order].astype(np.float32)
        self._small, self._starts = np.unique(group[is_small][order], return_index=True)
        self._large = np.flatnonzero(count > MOST_SINGLE_DRAWS)
        miss = 1 - np.asarray(probability, np.float64)
        misses, squares = (np.bincount(group, m, groups)[self._large] for m in (miss, miss**2))
        self._count = count[self._large]
        trials = np.ceil(misses**2 / np.maximum(squares, np.finfo(float).tiny))
        self._trials = np.clip(trials, 1, self._count).astype(np.int64)
        self._miss = np.clip(misses / self._trials, 0, 1)

    @property
    def singles(self) -> int:
        """The number of examples that are drawn one by one."""
        return len(self._single)

    def draws(self, number: int, random: np.random.Generator) -> Iterator[Floats]:
        """Numbers of hits, `number` times: in chunks (some draws, groups)."""
        step = max(1, _AT_ONCE // max(1, self.singles, self.groups))
        for start in range(0, number, step):
            size = min(step, number - start)
            hits = np.zeros((size, self.groups))
            hits[:, self._small] = self._hits_of_few(size, random)
            # one group after the other: its numbers take one preparation
            shape = len(self._large), size
            misses = random.binomial(self._trials[:, None], self._miss[:, None], shape)
            hits[:, self._large] = (self._count[:, None] - misses).T
            yield hits

    def _hits_of_few(self, number: int, random: np.random.Generator) -> Floats:
        shape = (number, self.singles)
        hit = (random.random(shape, dtype=np.float32) < self._single).astype(np.float32)
        if self.singles in (0, len(self._small)):
            return hit
        return np.add.reduceat(hit, self._starts, axis=1)

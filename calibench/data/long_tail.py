"""Long-tailed training sets: class sizes that fall geometrically."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibench.config import Seed, long_tail_seed
from calibench.data.batch import Examples
from calibench.data.seeds import number_of
from calibench.data.splits import choose_per_class

Rounding = Literal["nearest", "floor"]


def long_tail_counts(
    head: int, imbalance_factor: float, num_classes: int, *, rounding: Rounding = "nearest"
) -> list[int]:
    """Class sizes n_max * rho^(-k / (K-1)) for k = 0..K-1 (Cui et al. 2019; class 0 is the head).

    Args:
        head: n_max, the size of class 0.
        imbalance_factor: rho = largest / smallest class, at least 1.
        num_classes: K, at least 2.
        rounding: "nearest", or "floor" as in the public code of Cui et al. and of LDAM.

    Raises:
        ValueError: `imbalance_factor` is below 1.
    """
    check_imbalance_factor(imbalance_factor)
    sizes = [head * imbalance_factor ** (-k / (num_classes - 1)) for k in range(num_classes)]
    if rounding == "floor":
        return [int(size) for size in sizes]
    return [int(size + 0.5) for size in sizes]


def check_imbalance_factor(imbalance_factor: float) -> None:
    """Raise ValueError unless rho = largest / smallest class is at least 1."""
    if not imbalance_factor >= 1:
        raise ValueError(
            "`imbalance_factor` is the largest class over the smallest, at least 1, "
            f"got {imbalance_factor}."
        )


@dataclass(frozen=True)
class LongTail:
    """How the training examples of a dataset are thinned to a long tail.

    Attributes:
        imbalance_factor: rho = largest / smallest class, at least 1; 1 leaves all of them.
        split_seed: What chooses the splits.
        tail_seed: What chooses the tail; None for the split's seed where that is a number, else 1, so that the tail
            is the same for every run.
        rounding: How class sizes are rounded.

    Raises:
        ValueError: `imbalance_factor` is below 1.
    """

    imbalance_factor: float
    split_seed: Seed
    tail_seed: Seed | None = None
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        check_imbalance_factor(self.imbalance_factor)

    def draw(self, examples: Examples, candidates: Tensor | None = None) -> Examples:
        """The long tail of the examples, or of those at the positions `candidates`.

        A class that is smaller than its share of the tail keeps all it has.

        Of candidates, a seed of its own takes the first in an order of all examples, so tails of different splits share
        most of their examples; the seed of the split shuffles the candidates alone.
        """
        seed, factor = long_tail_seed(self.tail_seed, self.split_seed), self.imbalance_factor
        if candidates is not None and (factor == 1 or seed == self.split_seed):
            examples, candidates = examples.take(candidates), None
        if factor == 1:
            return examples
        target = examples.target if candidates is None else examples.target[candidates]
        present = torch.bincount(target)
        sizes = long_tail_counts(int(present.max()), factor, len(present), rounding=self.rounding)
        counts, number = torch.tensor(sizes).clamp(min=1).minimum(present), number_of(seed)
        # Of candidates not the order that `hold_out` would make of the same number: it takes the first away.
        own = number if candidates is None else (number, 1)
        return examples.take(choose_per_class(examples.target, counts, own, candidates=candidates))

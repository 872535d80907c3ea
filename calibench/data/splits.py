"""Seeded, stratified and long-tailed choices of examples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibench.config import Seed, long_tail_seed
from calibench.data.batch import Examples
from calibench.data.seeds import number_of

Rounding = Literal["nearest", "floor"]


def class_counts(target: Tensor, num_classes: int) -> Tensor:
    """Number of examples of each class, (K,) int64."""
    return torch.bincount(target, minlength=num_classes)


def choose_per_class(
    target: Tensor,
    counts: Sequence[int] | Tensor,
    seed: int | Sequence[int],
    *,
    candidates: Tensor | None = None,
) -> Tensor:
    """Positions of `counts[k]` examples of each class k, uniform without replacement.

    The positions are in dataset order.

    Args:
        target: Class indices (N,).
        counts: How many of each class (K,).
        seed: What chooses.
        candidates: Positions that may be chosen; all without it. The seed orders each class as a whole and the first
            candidates are taken, so two sets of candidates that share most examples share most of what is chosen.

    Raises:
        ValueError: A class has fewer examples than asked for.
    """
    generator = np.random.default_rng(seed)
    labels, chosen = target.numpy(), []
    allowed = np.full(len(labels), candidates is None)
    if candidates is not None:
        allowed[candidates.numpy()] = True
    for label, count in enumerate(counts):
        members = generator.permutation(np.flatnonzero(labels == label))
        members = members[allowed[members]]
        if len(members) < int(count):
            raise ValueError(
                f"class {label} has {len(members)} examples, {int(count)} were asked for."
            )
        chosen.append(members[: int(count)])
    return torch.from_numpy(np.sort(np.concatenate(chosen)).astype(np.int64))


def complement(index: Tensor, n: int) -> Tensor:
    """The positions of 0..n-1 that are not in `index`, in order."""
    left = torch.ones(n, dtype=torch.bool)
    left[index] = False
    return left.nonzero().squeeze(1)


def check_fractions(val_fraction: float, test_fraction: float) -> None:
    """Raise a ValueError unless both shares of the examples are positive and leave a rest."""
    if val_fraction <= 0 or test_fraction <= 0 or val_fraction + test_fraction >= 1:
        raise ValueError(
            "`val_fraction` and `test_fraction` must be positive and leave a rest to train on, "
            f"got {val_fraction} and {test_fraction}."
        )


def hold_out(examples: Examples, fraction: float, seed: int) -> tuple[Examples, Examples]:
    """Hold a stratified `fraction` out: (the rest, the part held out), each in dataset order."""
    rest, held = hold_out_positions(examples.target, fraction, seed)
    return examples.take(rest), examples.take(held)


def hold_out_positions(target: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of `hold_out`: (of the rest, of the part held out), each in order."""
    counts = torch.bincount(target).double().mul(fraction).round().long()
    held = choose_per_class(target, counts, seed)
    return complement(held, len(target)), held


def reference_split(n: int, val_size: int, seed: int) -> tuple[Tensor, Tensor]:
    """The split of Mukhoti et al. (2020): the first `val_size` of a seeded shuffle validate.

    Returns positions (train, val); not stratified. Reproduces `np.random.seed(seed);
    np.random.shuffle(list(range(n)))` of focal_calibration (`Data/cifar10.py`), which numpy keeps stable.
    """
    shuffled = np.random.RandomState(seed).permutation(n)
    order = torch.from_numpy(shuffled.astype(np.int64))
    return order[val_size:], order[:val_size]


def hold_out_reference(examples: Examples, val_size: int, seed: int) -> tuple[Examples, Examples]:
    """Examples (train, val) by `reference_split`, each in dataset order."""
    n = len(examples.target)
    if not 0 < val_size < n:
        raise ValueError(f"`val_size` must be between 1 and {n - 1}, got {val_size}.")
    _, val = reference_split(n, val_size, seed)
    return examples.take(complement(val, n)), examples.take(val.sort().values)


def stratified_fraction(examples: Examples, fraction: float, seed: int) -> Examples:
    """A stratified subset that keeps at least one example of every class that has any."""
    if fraction == 1.0:
        return examples
    present = torch.bincount(examples.target)
    counts = present.double().mul(fraction).round().long().clamp(min=1).minimum(present)
    return examples.take(choose_per_class(examples.target, counts, seed))


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


def long_tailed(
    examples: Examples,
    imbalance_factor: float,
    seed: int | Sequence[int],
    *,
    rounding: Rounding = "nearest",
    candidates: Tensor | None = None,
) -> Examples:
    """A long-tailed subset; a class that is smaller than its share of the tail keeps all it has.

    Args:
        examples: What the tail is drawn from.
        imbalance_factor: rho = largest / smallest class, at least 1.
        seed: What chooses the examples.
        rounding: How class sizes are rounded.
        candidates: Positions that may be chosen, see `choose_per_class`.
    """
    if imbalance_factor == 1:
        return examples if candidates is None else examples.take(candidates)
    target = examples.target if candidates is None else examples.target[candidates]
    present = torch.bincount(target)
    sizes = long_tail_counts(int(present.max()), imbalance_factor, len(present), rounding=rounding)
    counts = torch.tensor(sizes).clamp(min=1).minimum(present)
    return examples.take(choose_per_class(examples.target, counts, seed, candidates=candidates))


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

        Of candidates, a seed of its own takes the first in an order of all examples, so tails of different splits share
        most of their examples; the seed of the split shuffles the candidates alone.
        """
        factor, seed = self.imbalance_factor, long_tail_seed(self.tail_seed, self.split_seed)
        number, rounding = number_of(seed), self.rounding
        if candidates is None:
            return long_tailed(examples, factor, number, rounding=rounding)
        if seed == self.split_seed:
            return long_tailed(examples.take(candidates), factor, number, rounding=rounding)
        # Not the order that `hold_out` would make of the same number: it takes the first away.
        own = (number, 1)
        return long_tailed(examples, factor, own, rounding=rounding, candidates=candidates)


def fingerprint(parts: Sequence[Examples]) -> str:
    """A fingerprint of splits: 16 digits of the SHA-256 over their shapes, types and bytes."""
    digest = hashlib.sha256()
    for tensor in (tensor for part in parts for tensor in part):
        array = tensor.contiguous().numpy()
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]

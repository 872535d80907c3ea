"""Seeded, stratified and long-tailed choices of examples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibench.data.batch import Examples

Rounding = Literal["nearest", "floor"]


def class_counts(target: Tensor, num_classes: int) -> Tensor:
    """Number of examples of each class, (K,) int64."""
    return torch.bincount(target, minlength=num_classes)


def choose_per_class(target: Tensor, counts: Sequence[int] | Tensor, seed: int) -> Tensor:
    """Positions of `counts[k]` examples of each class k, uniform without replacement.

    The positions are in dataset order.

    Raises:
        ValueError: A class has fewer examples than asked for.
    """
    generator = np.random.default_rng(seed)
    labels, chosen = target.numpy(), []
    for label, count in enumerate(counts):
        members = generator.permutation(np.flatnonzero(labels == label))
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


def hold_out(examples: Examples, fraction: float, seed: int) -> tuple[Examples, Examples]:
    """Cut a stratified `fraction` off: (the rest, the part held out), each in dataset order."""
    rest, held = hold_out_positions(examples.target, fraction, seed)
    return examples.take(rest), examples.take(held)


def hold_out_positions(target: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions (of the rest, of a stratified `fraction`), each in order."""
    counts = torch.bincount(target).double().mul(fraction).round().long()
    held = choose_per_class(target, counts, seed)
    return complement(held, len(target)), held


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
    examples: Examples, imbalance_factor: float, seed: int, *, rounding: Rounding = "nearest"
) -> Examples:
    """A long-tailed subset; a class that is smaller than its share of the tail keeps all it has."""
    if imbalance_factor == 1:
        return examples
    present = torch.bincount(examples.target)
    sizes = long_tail_counts(int(present.max()), imbalance_factor, len(present), rounding=rounding)
    counts = torch.tensor(sizes).clamp(min=1).minimum(present)
    return examples.take(choose_per_class(examples.target, counts, seed))


def fingerprint(parts: Sequence[Examples]) -> str:
    """Sixteen hexadecimal digits of the SHA-256 over shapes, types and bytes of what is used."""
    digest = hashlib.sha256()
    for tensor in (tensor for part in parts for tensor in part):
        array = tensor.contiguous().numpy()
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]

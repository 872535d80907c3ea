"""Seeded and stratified choices of examples: the three splits made of them, and long tails."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.configuration.seeds import Seed, long_tail_seed
from calibench.data.batch import Examples
from calibench.data.in_memory_loader import seed_number
from calibench.data.source import DataError


class SplitPart(Protocol):
    """Examples of any kind with their classes `target` (N,): images, rows of a table, texts."""

    @property
    def target(self) -> Tensor:
        """Class indices (N,) int64."""

    def take(self, index: Tensor) -> Self:
        """The examples at the given positions."""


AnyPart = TypeVar("AnyPart", bound=SplitPart)


def choose_per_class(
    target: Tensor,
    counts: Sequence[int] | Tensor,
    seed: int | Sequence[int],
    *,
    candidates: Tensor | None = None,
) -> Tensor:
    """Positions of `counts[k]` examples of each class k, uniform without replacement, in dataset order.

    Only positions among `candidates` are chosen, where these are given: the seed orders each class as a whole and the
    first candidates are taken, so two sets of candidates that share most examples share most of what is chosen.

    Raises:
        ValueError: A class has fewer examples than asked for.
    """
    generator = np.random.default_rng(seed)
    labels, positions = target.numpy(), []
    allowed = np.full(len(labels), candidates is None)
    if candidates is not None:
        allowed[candidates.numpy()] = True
    for label, count in enumerate(torch.as_tensor(counts).tolist()):
        members = generator.permutation(np.flatnonzero(labels == label))
        members = members[allowed[members]]
        if len(members) < count:
            raise ValueError(f"class {label} has {len(members)} examples, {count} were asked for.")
        positions.append(members[:count])
    return torch.from_numpy(np.sort(np.concatenate(positions)).astype(np.int64))


def complement(index: Tensor, n: int) -> Tensor:
    """The positions of 0..n-1 that are not in `index`, in order."""
    return torch.from_numpy(np.setdiff1d(np.arange(n), index.numpy()))


def held_out_shares(val_fraction: float, test_fraction: float) -> dict[str, float]:
    """The shares that are held out, by split; raises a ValueError unless both are positive and leave a rest."""
    if val_fraction <= 0 or test_fraction <= 0 or val_fraction + test_fraction >= 1:
        raise ValueError(
            "`val_fraction` and `test_fraction` must be positive and leave a rest to train on, "
            f"got {val_fraction} and {test_fraction}."
        )
    return {"val": val_fraction, "test": test_fraction}


def hold_out(examples: AnyPart, fraction: float, seed: int) -> tuple[AnyPart, AnyPart]:
    """Hold a stratified `fraction` out: (the rest, the part held out), each in dataset order."""
    remaining, held_out = hold_out_positions(examples.target, fraction, seed)
    return examples.take(remaining), examples.take(held_out)


def hold_out_positions(target: Tensor, part: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of `hold_out`: (of the rest, of the part held out), each in order.

    The part is a share, each class rounded, or as an integer the number of rows, which is met exactly.
    """
    held_out = choose_per_class(target, _held_out_counts(torch.bincount(target), part), seed)
    return complement(held_out, len(target)), held_out


def _held_out_counts(members: Tensor, part: float) -> Tensor:
    """Number of held-out rows of each class, (K,) int64; a number of rows goes to the largest remainders."""
    if not isinstance(part, int):
        return members.double().mul(part).round().long()
    exact = members.double() * part / members.sum()
    counts = exact.floor().long()
    by_remainder = (exact - counts).argsort(descending=True, stable=True)
    counts[by_remainder[: part - int(counts.sum())]] += 1
    return counts


def hold_out_groups(
    target: Tensor, groups: Tensor, part: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Positions (of the rest, of the part held out), each in order, so that no group has rows in both.

    In a seeded order, first the groups that fit into the wanted number of rows of each class are held out, then those
    that bring these numbers nearer (in the sum of absolute differences): stratified, and of the wanted size, as far
    as the groups (N,), numbered from 0, allow. The part is a share of the rows, or as an integer their number.
    """
    members, missing_rows = (
        _group_class_counts(target, groups),
        _held_out_counts(torch.bincount(target), part).tolist(),
    )
    distance, is_held_out = sum(missing_rows), np.zeros(len(members), bool)
    order = np.random.default_rng(seed).permutation(len(members))
    for more_than_wanted in (False, True):
        for group in order[~is_held_out[order]].tolist():
            if not distance:
                break
            rows = members[group].items()
            nearer = sum(
                abs(missing_rows[label]) - abs(missing_rows[label] - count) for label, count in rows
            )
            fits = all(missing_rows[label] >= count for label, count in rows)
            if nearer > 0 and (more_than_wanted or fits):
                for label, count in rows:
                    missing_rows[label] -= count
                distance, is_held_out[group] = distance - nearer, True
    row_is_held_out = torch.from_numpy(is_held_out)[groups]
    return (~row_is_held_out).nonzero().squeeze(1), row_is_held_out.nonzero().squeeze(1)


def _group_class_counts(target: Tensor, groups: Tensor) -> list[dict[int, int]]:
    """Number of rows of each class in every group, without classes that it lacks."""
    classes = int(target.max()) + 1
    pairs, counts = np.unique(groups.numpy() * classes + target.numpy(), return_counts=True)
    members: list[dict[int, int]] = [{} for _ in range(int(groups.max()) + 1)]
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        members[pair // classes][pair % classes] = count
    return members


def hold_out_share_of_groups(
    groups: npt.NDArray[Any], fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Hold a share of the groups (N,) out, however many rows each has: positions (of the rest, of those held out)."""
    names, group = np.unique(groups, return_inverse=True)
    _, group_numbers = hold_out_positions(
        torch.zeros(len(names), dtype=torch.int64), fraction, seed
    )
    is_held_out = np.isin(group, group_numbers.numpy())
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def make_splits(
    examples: AnyPart,
    parts: Mapping[str, AnyPart | float],
    *,
    seed: int,
    title: str,
    groups: Tensor | None = None,
) -> tuple[AnyPart, AnyPart, AnyPart]:
    """The splits (train, val, test) of what a user gives: some are given, the others are held out of the whole.

    The parts `test` and `val` are splits, or what is held out of the whole for them, stratified: a share, or as an
    integer a number of examples. None of the `groups` (N,) of the whole has examples in two splits. Messages call the
    whole `title`.

    Raises:
        DataError: There are too few examples, or groups, to hold any out.
    """
    remaining, left = torch.arange(len(examples.target)), 1.0
    splits = dict[str, AnyPart]()
    for name in ("test", "val"):
        part = parts[name]
        if not isinstance(part, float | int):
            splits[name] = part
            continue
        target = examples.target[remaining]
        share = part if isinstance(part, int) else part / left
        if share >= len(target):
            raise DataError(
                f"{title} has {len(target)} rows, of which {share} cannot be held out for {name}."
            )
        if groups is None:
            kept_positions, held_out = hold_out_positions(target, share, seed)
        else:
            kept_positions, held_out = hold_out_groups(target, groups[remaining], share, seed)
        if not len(held_out) or not len(kept_positions):
            unit = "rows" if groups is None else "groups of rows"
            raise DataError(
                f"{title} has too few {unit} to hold any out for {name} ({len(target)} rows, fraction {share:.3g})."
            )
        splits[name], remaining = examples.take(remaining[held_out]), remaining[kept_positions]
        left -= part / len(examples.target) if isinstance(part, int) else part
    return examples.take(remaining), splits["val"], splits["test"]


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


def stratified_fraction(examples: Examples, strata: Tensor, fraction: float, seed: int) -> Examples:
    """A stratified subset that keeps at least one example of each of the `strata` (N,) that has any."""
    if fraction == 1.0:
        return examples
    present = torch.bincount(strata)
    counts = present.double().mul(fraction).round().long().clamp(min=1).minimum(present)
    return examples.take(choose_per_class(strata, counts, seed))


def fingerprint_examples(parts: Sequence[Examples]) -> str:
    """A fingerprint of splits: 16 digits of the SHA-256 over their shapes, types and bytes."""
    digest = hashlib.sha256()
    for tensor in (tensor for part in parts for tensor in part if tensor is not None):
        array = tensor.contiguous().numpy()
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


Rounding = Literal["nearest", "floor"]


def long_tail_counts(
    head: int, imbalance_factor: float, num_classes: int, *, rounding: Rounding = "nearest"
) -> list[int]:
    """Class sizes n_max * rho^(-k / (K-1)) for k = 0..K-1 (Cui et al. 2019; class 0 is the head).

    rho = largest / smallest class is at least 1; "floor" rounds as the public code of Cui et al. and of LDAM.
    """
    sizes = [head * imbalance_factor ** (-k / (num_classes - 1)) for k in range(num_classes)]
    return [int(size if rounding == "floor" else size + 0.5) for size in sizes]


@dataclass(frozen=True)
class LongTail:
    """How the training examples of a dataset are thinned to a long tail.

    Attributes:
        imbalance_factor: rho = largest / smallest class, at least 1; 1 leaves all of them.
        split_seed: What chooses the splits.
        tail_seed: What chooses the tail; None for the split's seed where that is a number, else 1, so that the tail
            is the same for every run.
        rounding: How class sizes are rounded.
    """

    imbalance_factor: float
    split_seed: Seed
    tail_seed: Seed | None = None
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        if not self.imbalance_factor >= 1:
            raise ValueError(
                "`imbalance_factor` is the largest class over the smallest, at least 1, "
                f"got {self.imbalance_factor}."
            )

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
        counts, number = torch.tensor(sizes).clamp(min=1).minimum(present), seed_number(seed)
        # Of candidates not the order that `hold_out` would make of the same number: it takes the first away.
        order_seed = number if candidates is None else (number, 1)
        return examples.take(
            choose_per_class(examples.target, counts, order_seed, candidates=candidates)
        )

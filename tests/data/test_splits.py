from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.data import Examples
from calibench.data.splits import (
    LongTail,
    choose_per_class,
    complement,
    fingerprint_examples,
    hold_out,
    hold_out_groups,
    long_tail_counts,
    stratified_fraction,
)


def examples(sizes: tuple[int, ...] = (40, 20, 10)) -> Examples:
    target = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    target = target[torch.randperm(len(target), generator=torch.Generator().manual_seed(1))]
    return Examples(torch.arange(len(target)).float(), target)


def counts(part: Examples) -> list[int]:
    return torch.bincount(part.target, minlength=3).tolist()


# The class sizes of CIFAR-10-LT by rho: the closed form in the GCE paper's appendix C, and the
# totals of the public code of Cui et al. and LDAM (which truncates).
CIFAR10_LT = {
    (10, "nearest"): ([5000, 3871, 2997, 2321, 1797, 1391, 1077, 834, 646, 500], 20434),
    (100, "nearest"): ([5000, 2997, 1797, 1077, 646, 387, 232, 139, 83, 50], 12408),
    (10, "floor"): ([5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500], 20431),
    (100, "floor"): ([5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50], 12406),
}


@pytest.mark.parametrize(("case", "expected"), CIFAR10_LT.items(), ids=str)
def test_long_tail_of_cifar10(case, expected) -> None:
    rho, rounding = case
    sizes = long_tail_counts(5000, rho, 10, rounding=rounding)
    assert (sizes, sum(sizes)) == expected


def test_balanced_tail_is_balanced() -> None:
    assert long_tail_counts(500, 1, 100) == [500] * 100


@pytest.mark.parametrize("rho", [0.5, 0.0, -3.0, float("nan")])
def test_an_imbalance_factor_below_one_is_refused(rho: float) -> None:
    with pytest.raises(ValueError, match=r"`imbalance_factor` is .* at least 1, got"):
        LongTail(rho, split_seed=0)


def test_choice_is_seeded_ordered_and_exact() -> None:
    target = examples().target
    chosen = choose_per_class(target, [7, 5, 2], seed=3)
    assert torch.equal(chosen, choose_per_class(target, [7, 5, 2], seed=3))
    assert not torch.equal(chosen, choose_per_class(target, [7, 5, 2], seed=4))
    assert torch.equal(chosen, chosen.sort().values)
    assert torch.bincount(target[chosen], minlength=3).tolist() == [7, 5, 2]


@pytest.mark.slow
def test_choice_is_uniform() -> None:
    target = torch.zeros(10, dtype=torch.int64)
    hits = torch.zeros(10)
    for seed in range(2000):
        hits[choose_per_class(target, [3], seed)] += 1
    assert (hits / 2000 - 0.3).abs().max() < 5 * (0.3 * 0.7 / 2000) ** 0.5


def test_a_class_that_is_too_small_is_named() -> None:
    with pytest.raises(ValueError, match="class 2 has 10 examples, 11 were asked for"):
        choose_per_class(examples().target, [1, 1, 11], seed=0)


def test_hold_out_is_a_stratified_partition() -> None:
    whole = examples()
    rest, held = hold_out(whole, 0.2, seed=1)
    assert counts(held) == [8, 4, 2]
    assert counts(rest) == [32, 16, 8]
    assert torch.equal(torch.cat([rest.inputs, held.inputs]).sort().values, whole.inputs)
    assert torch.equal(whole.target[held.inputs.long()], held.target)


@pytest.mark.parametrize("part", [0.1, 0.35])
def test_groups_are_held_out_by_the_rule_written_on_whole_tables(part: float) -> None:
    random = np.random.default_rng(0)
    target, groups = random.choice(4, 300, p=[0.6, 0.2, 0.15, 0.05]), random.integers(60, size=300)
    groups[groups == 7] = 8  # a number that no row has
    members = np.zeros((60, 4), int)
    np.add.at(members, (groups, target), 1)
    rest, held = hold_out_groups(torch.from_numpy(target), torch.from_numpy(groups), part, 3)
    wanted = np.round(members.sum(0) * part).astype(int)
    chosen, order = np.zeros(60, bool), np.random.default_rng(3).permutation(60)
    for fits_only in (True, False):
        for group in order[~chosen[order]]:
            after = wanted - members[group]
            if abs(after).sum() < abs(wanted).sum() and not (fits_only and after.min() < 0):
                wanted, chosen[group] = after, True
    np.testing.assert_array_equal(held, np.flatnonzero(chosen[groups]))
    np.testing.assert_array_equal(rest, np.flatnonzero(~chosen[groups]))


def test_complement() -> None:
    assert complement(torch.tensor([1, 3]), 5).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("fraction", "expected"), [(1.0, [40, 20, 10]), (0.5, [20, 10, 5]), (0.01, [1, 1, 1])]
)
def test_stratified_fraction_keeps_every_class(fraction: float, expected: list[int]) -> None:
    whole = examples()
    assert counts(stratified_fraction(whole, whole.target, fraction, seed=0)) == expected


def test_long_tailed_thins_from_the_largest_class() -> None:
    assert counts(LongTail(4, split_seed=0).draw(examples((40, 40, 40)))) == [40, 20, 10]
    assert counts(LongTail(4, split_seed=0).draw(examples((40, 15, 40)))) == [40, 15, 10]
    assert counts(LongTail(1, split_seed=0).draw(examples())) == [40, 20, 10]


def test_fingerprint_sees_values_order_shape_and_type() -> None:
    a = examples()
    variants = [
        a,
        a.take(torch.arange(70).flip(0)),
        a._replace(inputs=a.inputs.double()),
        a._replace(inputs=a.inputs[:, None]),
        a._replace(target=a.target.roll(1)),
    ]
    assert len({fingerprint_examples([part]) for part in variants}) == len(variants)
    assert fingerprint_examples([a, a]) == fingerprint_examples([examples(), examples()])

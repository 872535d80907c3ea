"""Bins against numpy's and torch's own functions, at every edge."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.metrics.probability_batches import softmax
from calibench.runs import Predictions
from calibench.tensors.binning import (
    equal_mass_bin,
    equal_mass_cuts,
    equal_mass_ends,
    equal_width_bin,
    equal_width_bin_of_array,
    order_statistic_cuts,
    reference_mass_cuts,
    reference_mass_edges,
)
from tests.examples import for_each


@for_each(itertools.product([*range(1, 31), 50, 99, 100, 255], [torch.float32, torch.float64]))
def test_the_bin_of_a_value_counts_the_inner_edges_below_it(case: tuple[int, torch.dtype]) -> None:
    n_bins, dtype = case
    edges = torch.tensor([k / n_bins for k in range(n_bins + 1)], dtype=torch.float64).float()
    beside = [torch.nextafter(edges, torch.tensor(float(to))) for to in (2, -1)]
    values = torch.cat([edges, *beside, torch.rand(500), torch.tensor([0, -0.0, 1.00001, -1e-9])])
    values = values.to(dtype)
    expected = (values.unsqueeze(1) > edges[1:-1].to(dtype)).sum(1)
    assert torch.equal(equal_width_bin(values, n_bins), expected)
    column = values.unsqueeze(1)
    assert torch.equal(equal_width_bin(column, n_bins), expected.unsqueeze(1))


NUMBERS = (2, 5, 7, 10, 12, 15, 20, 25, 50, 100)


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_decimals_lie_where_rational_arithmetic_puts_them(decimals: int) -> None:
    """Every value of so many decimals, as a float64, a float32 and the complement of one in float64."""
    whole = 10**decimals
    values = torch.arange(whole + 1, dtype=torch.float64) / whole
    complements = 1 - values.flip(0)
    for n_bins in NUMBERS:
        expected = torch.tensor([max(0, -(-i * n_bins // whole) - 1) for i in range(whole + 1)])
        for given in (values, values.float(), complements):
            assert torch.equal(equal_width_bin(given, n_bins), expected)
            array = equal_width_bin_of_array(given.numpy(), n_bins)
            assert array.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_lies_where_its_own_values_do(dtype: torch.dtype) -> None:
    values = torch.arange(101).div(100).to(dtype)
    for n_bins in NUMBERS:
        expected = [max(0, math.ceil(Fraction(v) * n_bins) - 1) for v in values.tolist()]
        # a half-precision value that is no edge differs from every edge in float32 as well
        assert equal_width_bin(values, n_bins).tolist() == expected


def changed_bins(folder: Path) -> list[tuple[str, int, float]]:
    """Published probabilities below a folder whose bin is not that of edges from `linspace` in float32."""
    changed = []
    for file in sorted(folder.glob("**/predictions/*.npz")):
        probs = softmax(torch.from_numpy(Predictions.load(file).logits))
        for n_bins in (10, 15, 20, 100):
            before = torch.bucketize(probs, torch.linspace(0, 1, n_bins + 1)[1:-1])
            moved = probs[before != equal_width_bin(probs, n_bins)]
            changed += [(str(file.relative_to(folder)), n_bins, p) for p in moved.tolist()]
    return changed


STORE = Path(__file__).parents[2] / "benchmarks" / "store"


def test_published_numbers_of_some_runs_keep_their_bins() -> None:
    runs = sorted(STORE.glob("*/*/*/*/seed=1"))[::8]
    assert runs
    assert [value for run in runs for value in changed_bins(run)] == []


# The softmax of some processors rounds it onto 5 / 100 (its value is .049999998996), that of others below.
ON_AN_EDGE = (
    "cifar10_lt/CIFARResNet8/BSCEGRALoss/4829d87c71/seed=1/predictions/test.npz",
    100,
    0.05000000074505806,
)


@pytest.mark.slow
def test_a_single_value_of_the_shipped_logits_may_change_its_bin() -> None:
    """Of 3,674,160 probabilities at four numbers of bins one lies on an edge that became k / n (see CHANGELOG)."""
    assert changed_bins(STORE) in ([], [ON_AN_EDGE])


def test_an_edge_belongs_to_the_bin_below_and_both_ends_to_real_bins() -> None:
    values = torch.tensor([0.0, 0.1, 0.2, 0.5, 0.50001, 1.0])
    assert equal_width_bin(values, 2).tolist() == [0, 0, 0, 0, 1, 1]
    assert equal_width_bin(torch.tensor([0.998, 0.999]).bfloat16(), 15).tolist() == [14, 14]
    assert equal_width_bin(torch.empty(0, 3), 4).shape == (0, 3)


@pytest.mark.parametrize("n", [1, 2, 14, 15, 16, 100, 101])
def test_equal_mass_without_ties_is_array_split(n: int) -> None:
    ordered = torch.rand(n).sort().values
    sizes = [end - start for start, end in pairwise(equal_mass_cuts(ordered, 15))]
    assert sizes == [len(part) for part in np.array_split(np.arange(n), 15)] if n >= 15 else True
    assert sum(sizes) == n
    assert n >= 15 or [size for size in sizes if size] == [1] * n


@pytest.mark.parametrize("n_bins", [1, 5, 15, 20])
@pytest.mark.parametrize("n", [1, 7, 40, 400])
def test_both_forms_of_equal_mass_bins_agree_on_ties(n: int, n_bins: int) -> None:
    """Confidences of 20 votes: each is on an edge of 20 equal-width bins, and most tie."""
    generator = torch.Generator().manual_seed(n)
    values = torch.randint(0, 21, (n,), generator=generator) / 20
    index = equal_mass_bin(values, n_bins)
    cuts = equal_mass_cuts(values.sort().values, n_bins)
    assert index.bincount(minlength=n_bins).tolist() == [b - a for a, b in pairwise(cuts)]
    for value in values.unique():
        assert len(index[values == value].unique()) == 1
    assert torch.equal(index[values.argsort()], index.sort().values)


def test_equal_mass_bins_without_ties_and_without_values() -> None:
    values = torch.tensor([0.9, 0.1, 0.5, 0.7, 0.3])
    assert equal_mass_bin(values, 2).tolist() == [1, 0, 0, 1, 0]
    assert equal_mass_bin(values, 9).tolist() == [4, 0, 2, 3, 1]
    assert equal_mass_bin(values[:0], 3).shape == (0,)
    assert equal_mass_ends(7, 3).tolist() == [3, 5, 7]
    assert equal_mass_ends(2, 4).tolist() == [1, 2, 2, 2]


def test_equal_mass_never_splits_equal_values() -> None:
    ordered = torch.tensor([0.1] * 3 + [0.2] * 9 + [0.3] * 2 + [0.9] * 6)
    cuts = equal_mass_cuts(ordered, 5)
    assert set(cuts) <= {0, 3, 12, 14, 20}
    assert cuts[-1] == 20
    assert equal_mass_cuts(torch.full((50,), 0.4), 7) == [0] + [50] * 7


@pytest.mark.parametrize("n", [1, 5, 40, 333])
def test_reference_bins_are_numpys_interpolation(n: int) -> None:
    ordered = (torch.rand(n) * 20).round().div(20).sort().values
    values = ordered.numpy()
    edges = np.interp(np.linspace(0, n, 16), np.arange(n), values).astype(np.float32)
    np.testing.assert_array_equal(reference_mass_edges(ordered, 15).float().numpy(), edges)
    assert reference_mass_cuts(ordered, 15) == [int((values <= edge).sum()) for edge in edges]
    edges = [values[k * (n // 15)] for k in range(15)] + [1.0]
    assert order_statistic_cuts(ordered, 15) == [int((values <= edge).sum()) for edge in edges]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_bins", [1, 7, 15, 20, 100])
def test_bins_of_arrays_are_those_of_tensors(n_bins: int, dtype: torch.dtype) -> None:
    edges = torch.linspace(0, 1, n_bins + 1)
    beside = torch.nextafter(edges, torch.tensor(0.5))
    values = torch.cat([edges, beside, torch.rand(500)]).to(dtype)
    bins = equal_width_bin_of_array(values.numpy(), n_bins)
    assert bins.tolist() == equal_width_bin(values, n_bins).tolist()

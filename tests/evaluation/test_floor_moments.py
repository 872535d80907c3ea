"""Moments of floors against draws: the mean to what is said of it, p-values within their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calibench.evaluation.floor_moments import CellDeviations, find_moments
from calibench.evaluation.floors import Floors
from calibench.metrics.bins import ErrorOfCells, sum_parts
from calibench.metrics.calibration_errors import (
    CUTS,
    NORMS,
    ClasswiseError,
    EqualMassError,
    EqualWidthError,
    KuiperError,
)
from calibench.metrics.smoothing import KERNELS, SmoothError
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.statistics.resamples import p_value

pytestmark = pytest.mark.usefixtures("all_draws")

ERRORS = (EqualWidthError(15), EqualMassError(20), ClasswiseError(15), SmoothError())
NAMES = [type(error).__name__ for error in ERRORS]


def floors_of(n: int, k: int, scale: float) -> Floors:
    """Floors of a calibrated model whose logits have some size."""
    generator = torch.Generator().manual_seed(n + k)
    probs = (scale * torch.randn(n, k, generator=generator)).softmax(1)
    return Floors(probs, torch.multinomial(probs, 1, generator=generator).flatten())


@pytest.mark.parametrize("error", ERRORS, ids=NAMES)
@pytest.mark.parametrize("scale", [0.5, 4.0, 20.0])
@pytest.mark.parametrize(("n", "k"), [(60, 2), (400, 10), (1500, 2), (6000, 10)])
def test_moments_are_those_of_draws(error: ErrorOfCells, scale: float, n: int, k: int) -> None:
    floors = floors_of(n, k, scale)
    draws = floors.draw_errors(error)
    moments = find_moments(error, floors, floors.sums(error), float(draws.mean()))
    if moments is None:
        assert isinstance(error, SmoothError)
        return
    noise = draws.std() / math.sqrt(len(draws))
    assert moments.mean == pytest.approx(draws.mean(), abs=5 * noise + moments.error)
    assert draws.std() < 1.1 * moments.bound
    if moments.deviations is not None:
        low, high = moments.deviations
        assert 0.9 * low < draws.std() < 1.1 * high
    for value in [*np.quantile(draws, [0.02, 0.2, 0.5, 0.8, 0.98]), 3 * draws.mean()]:
        lowest, highest = moments.bound_p(float(value))
        assert lowest - 0.03 <= p_value(float(value), draws) <= highest + 0.03


def test_what_has_no_known_moments_has_none() -> None:
    floors = floors_of(400, 3, 2.0)
    for error in (
        KuiperError(),
        EqualWidthError(15, NORMS["l2"]),
        ClasswiseError(15, reference=True),
        SmoothError(KERNELS["logit"]),
    ):
        assert find_moments(error, floors, floors.sums(error), 0.05) is None
    smooth = SmoothError()
    for far in (0.9, 0.002, math.nan):
        assert find_moments(smooth, floors, floors.sums(smooth), far) is None


@pytest.mark.parametrize("counts", [[1], [3, 0, 16], [17, 2, 140], [200, 1, 0]])
def test_cells_deviate_as_poisson_binomial_hits_do(counts: list[int]) -> None:
    noise = np.random.default_rng(0)
    probability = noise.random(sum(counts))
    cells = CellDeviations.from_sorted(probability, np.array(counts))
    group = np.repeat(np.arange(len(counts)), counts)
    hits = np.concatenate([*PoissonBinomial(probability, group, len(counts)).draws(40_000, noise)])
    filled = np.array(counts) > 0
    expected = np.bincount(group, probability, len(counts))
    deviations = np.abs(hits - expected)[:, filled]
    np.testing.assert_allclose(cells.mean, deviations.mean(0), rtol=0.02, atol=0.002)
    np.testing.assert_allclose(cells.of_hits, hits.var(0)[filled], rtol=0.03, atol=0.002)


def test_certain_hits_do_not_deviate() -> None:
    cells = CellDeviations.from_sorted(np.repeat([0.0, 1.0], 200), np.array([200, 200]))
    assert cells.mean.max() < 1e-12


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("n", [1, 2, 359, 5000])
def test_sums_of_sorted_pairs_are_those_of_cells(n: int, decimals: int | None, k: int) -> None:
    probs = floors_of(n, k, 3.0).probs()
    if decimals is not None:
        probs = (probs.double() * 10**decimals).round() / 10**decimals
    floors = Floors(probs, torch.arange(n) % k)
    for error in (
        *ERRORS[:2],
        EqualWidthError(1),
        EqualMassError(20, CUTS["reference"]),
        SmoothError(),
        KuiperError(),
    ):
        expected = sum_parts(floors.parts(error))
        for part, other in zip(floors.sums(error), expected, strict=True):
            torch.testing.assert_close(part, other, rtol=1e-12, atol=1e-10)

"""Smooth errors: laws, relplot's definition for few and many examples, the linear program."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from scipy.signal import fftconvolve

from calibench import metrics as M
from calibench.metrics.convolution import (
    even_spectrum,
    interpolate_rows,
    round_to_grid,
    smooth_even,
    smooth_open,
)
from calibench.metrics.self_consistent_width import estimate_self_consistent, solve_self_consistent
from calibench.metrics.smoothing import error_and_width
from calibench.metrics.smoothing_kernels import KERNELS, REFLECTED, Residuals, SmoothingKernel
from calibench.metrics.unbinned import largest_correlation
from tests.metrics.cases import batch
from tests.metrics.test_calibration_error import pairs

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {
    "smooth_ece_logit": (M.SmoothCalibrationError, {"kernel": "logit"}),
}


def relplots_error(confidence: np.ndarray, correct: np.ndarray, width: float) -> float:
    """smECE at one width as relplot defines it, in numpy."""
    points = max(2000, round(20 / width)) // 2 + 1
    place = confidence * (points - 1)
    below = np.minimum(place.astype(int), points - 2)
    offset = np.linspace(0, 1, points) - 0.5
    taps = np.exp(-(offset**2) / (2 * width**2)) / (width * np.sqrt(2 * np.pi))
    at = np.linspace(0, 1, max(round(10 / width), 200))
    smoothed = []
    for weight in (confidence - correct, np.ones(len(place))):
        grid = np.bincount(below, weight * (1 - place + below), points)
        grid += np.bincount(below + 1, weight * (place - below), points)
        mirrored = np.concatenate([grid[:0:-1], grid, grid[-2::-1]])
        whole = fftconvolve(mirrored, taps, "valid")[points // 2 :][:points]
        smoothed.append(np.interp(at, np.linspace(0, 1, points), whole))
    return np.abs(smoothed[0]).sum() / (smoothed[1] + 1e-4).sum()


@pytest.mark.parametrize("rest", [0.3, 1e-2, 1e-4])  # about the mean of 1 - confidence
@pytest.mark.parametrize("n", [500, 20_000])
def test_smooth_error_is_relplots_for_few_and_many_examples(n: int, rest: float) -> None:
    generator = np.random.default_rng(0)
    confidence = (1 - generator.beta(0.2, 0.2 / rest, n)).astype(np.float32)
    correct = generator.random(n) < confidence * (1 - rest / 10)
    low, high, expected = 0.0, 1.0, relplots_error(confidence.astype(float), correct, 1.0)
    for _ in range(10):
        middle = (low + high) / 2
        error = relplots_error(confidence.astype(float), correct, middle)
        if middle < 1e-3 or middle < error:
            low = middle
        else:
            high, expected = middle, error
    found = error_and_width(torch.from_numpy(confidence), torch.from_numpy(correct))
    value = float(found.error)
    assert value == pytest.approx(expected, rel=1e-9, abs=0)


def drawn_residuals(sets: int, excess: float) -> Residuals:
    position = torch.rand(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    hits = torch.bernoulli(
        (position - excess).clamp(0, 1).expand(sets, -1), generator=torch.Generator().manual_seed(1)
    )
    return Residuals.from_weights(
        position, torch.cat([position - hits, torch.ones(1, 400).double()])
    )


@pytest.mark.parametrize("width", [0.01, 1 / 64, 37 / 1024, 1 / 16])
def test_many_sets_have_the_errors_that_each_has_alone(width: float) -> None:
    # By matrix products over the cosines that the kernel leaves over, and by Fourier transforms.
    residuals = drawn_residuals(20, 0.05)
    [(position, weight)] = residuals.pieces()
    each = [Residuals.from_weights(position, weight[[row, -1]]) for row in range(20)]
    expected = torch.cat([REFLECTED.error(one, width) for one in each])
    found = REFLECTED.error(residuals, width)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    some = torch.tensor([3, 7])
    torch.testing.assert_close(
        REFLECTED.error(residuals.select(some), width), expected[some], rtol=1e-12, atol=0
    )


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("excess", [0.0, 0.1, 1.0])
def test_the_width_is_the_one_that_bisection_finds(kernel: SmoothingKernel, excess: float) -> None:
    residuals = drawn_residuals(20, excess)
    found = solve_self_consistent(kernel, residuals)
    for row in range(20):
        one = residuals.select(torch.tensor([row]))
        low, high = 0.0, 1.0
        for _ in range(10):
            middle = (low + high) / 2
            enough = middle >= 1e-3 and float(kernel.error(one, middle)) <= middle
            low, high = (low, middle) if enough else (middle, high)
        assert float(found.width[row]) == high
        assert float(found.error[row]) == pytest.approx(float(kernel.error(one, high)), rel=1e-12)


@pytest.mark.parametrize("near", [1e-4, 0.03, 0.5])
@pytest.mark.parametrize("excess", [0.0, 0.1, 1.0])
def test_estimates_are_near_the_errors(excess: float, near: float) -> None:
    residuals = drawn_residuals(40, excess)
    exact = solve_self_consistent(REFLECTED, residuals).error
    estimate = estimate_self_consistent(REFLECTED, residuals, near)
    torch.testing.assert_close(estimate, exact, rtol=0.15, atol=0)
    torch.testing.assert_close(estimate.mean(), exact.mean(), rtol=0.02, atol=0)


def test_a_residual_that_is_no_number_has_no_error() -> None:
    weight = torch.full((3, 4), torch.nan, dtype=torch.float64)
    residuals = Residuals.from_weights(torch.rand(4).double(), weight)
    found = solve_self_consistent(REFLECTED, residuals)
    assert found.error.isnan().all()
    assert estimate_self_consistent(REFLECTED, residuals, 0.1).isnan().all()
    assert found.width.tolist() == [1.0, 1.0]


def test_convolutions_are_numpys() -> None:
    values = torch.rand(2, 101, dtype=torch.float64)
    offset = np.linspace(0, 1, 101) - 0.5
    taps = np.exp(-(offset**2) / (2 * 0.07**2)) / (0.07 * np.sqrt(2 * np.pi))
    smoothed = smooth_even(even_spectrum(values), 101, 0.07)
    for row, result in zip(values.numpy(), smoothed.numpy(), strict=True):
        mirrored = np.concatenate([row[::-1][:-1], row, row[::-1][1:]])
        expected = np.convolve(mirrored, taps, "valid")[50 : 50 + 101]
        np.testing.assert_allclose(result, expected, atol=1e-10)
    for row, result in zip(values.numpy(), smooth_open(values, 0.07).numpy(), strict=True):
        np.testing.assert_allclose(result, np.convolve(row, taps, "same"), atol=1e-10)


def test_rounding_to_a_grid_keeps_mass_and_mean() -> None:
    position, weight = torch.rand(50, dtype=torch.float64), torch.rand(2, 50, dtype=torch.float64)
    grid = round_to_grid([(position, weight)], 11)
    points = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(grid.sum(1), weight.sum(1))
    torch.testing.assert_close(grid @ points, weight @ position)
    torch.testing.assert_close(interpolate_rows(points[None], position)[0], position)


@pytest.mark.parametrize("accuracy", [0.2, 0.5, 0.9])
def test_lipschitz_error_of_one_confidence_is_the_gap(accuracy: float) -> None:
    hits = int(100 * accuracy)
    preds, target = pairs([0.8] * 100, [1] * hits + [0] * (100 - hits))
    value = float(M.lipschitz_calibration_error(preds, target))
    assert value == pytest.approx(abs(0.8 - accuracy), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_lipschitz_error_is_bounded_by_binned_errors(seed: int) -> None:
    preds, target = batch(400, seed=seed)
    value = float(M.lipschitz_calibration_error(preds, target))
    for n_bins in (5, 15, 50):
        ece = float(M.calibration_error(preds, target, n_bins=n_bins))
        assert 0 <= value <= ece + 1 / n_bins
    confidence, predicted = preds.max(1)
    _, run = confidence.unique(return_inverse=True)
    residual = confidence.double() - (predicted == target).double()
    distinct = torch.zeros(int(run.max()) + 1, dtype=torch.float64).index_add_(0, run, residual)
    assert value <= float(distinct.abs().sum()) / 400 + 1e-12


def linear_program(values: np.ndarray, residuals: np.ndarray) -> float:
    """The same maximum from a general solver."""
    steps = np.diff(np.eye(len(values)), axis=0)
    gaps = np.diff(values)
    bounds = {"A_ub": np.concatenate([steps, -steps]), "b_ub": np.concatenate([gaps, gaps])}
    return -linprog(-residuals, bounds=(-1, 1), method="highs", **bounds).fun


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
def test_dynamic_programming_is_the_linear_program(n: int, spread: float) -> None:
    generator = np.random.default_rng(n)
    for _ in range(10):
        values = spread * np.sort(generator.random(n))
        residuals = generator.normal(size=n) * generator.choice([0.01, 1], n)
        best = largest_correlation(values, residuals)
        assert best == pytest.approx(linear_program(values, residuals), abs=1e-12)
    assert largest_correlation(np.array([0.1, 0.4]), np.array([-1.0, 1.0])) == pytest.approx(0.3)


def test_lipschitz_error_of_many_distinct_confidences_is_exact() -> None:
    """More than a general solver takes in reasonable time; halves of the examples bound each other's sum."""
    preds, target = batch(20_000, seed=3)
    pair = [preds[::2], preds[1::2]], [target[::2], target[1::2]]
    halves = [float(M.lipschitz_calibration_error(p, t)) for p, t in zip(*pair, strict=True)]
    whole = float(M.lipschitz_calibration_error(preds, target))
    assert 0 < whole <= sum(halves) / 2 + 1e-12
    shift = abs(float(M.error_rate(preds, target)) - 1 + float(preds.amax(1).double().mean()))
    assert whole >= shift - 1e-9  # w = 1 or -1 everywhere


def test_ks_depends_on_no_order_among_ties() -> None:
    """The authors' code says 0.1 or 0.025 here, by order."""
    preds, target = pairs([0.9] * 40, [1] * 35 + [0] * 5)
    for order in (torch.arange(40), torch.arange(39, -1, -1)):
        value = float(M.kolmogorov_smirnov_calibration_error(preds[order], target[order]))
        assert value == pytest.approx(0.025, abs=1e-6)

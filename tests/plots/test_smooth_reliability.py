"""The smooth reliability curve: relplot's numbers, and laws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.metrics import smooth_calibration_error
from calibench.plots.smooth_reliability import SmoothReliability, smooth_reliability

RANDOM = np.random.default_rng(0)
CONFIDENCE = np.array([
    0.737, 0.894, 0.786, 0.772, 0.88, 0.535, 0.353, 0.797, 0.485, 0.508, 0.858, 0.846, 0.921, 0.889, 0.809, 0.927,
    0.564, 0.827, 0.686, 0.667, 0.932, 0.815, 0.76, 0.726, 0.647, 0.758, 0.582, 0.627, 0.678, 0.967, 0.928, 0.875,
    0.762, 0.847, 0.349, 0.823, 0.936, 0.858, 0.852, 0.798,
])  # fmt: skip
CORRECT = np.array([*map(int, "1101101110111111011111001000111000011101")], bool)


def test_curve_density_and_width_are_relplots() -> None:
    """relplot 1.0.3: smECE(f, y, return_width=True), ReflectedGaussianKernel(width).smooth(f, y, x) and .kde(f, x)."""
    curve = smooth_reliability(CONFIDENCE, CORRECT)
    at = [100, 140, 180, 200]  # 0.5, 0.7, 0.9 and 1
    assert curve.error == pytest.approx([0.11141322353156038])
    assert curve.width == 0.1123046875
    assert curve.confidence[at] == pytest.approx([0.5, 0.7, 0.9, 1])
    assert curve.accuracy[at] == pytest.approx(
        [0.38279389525655777, 0.6046678462545771, 0.786298176089817, 0.8402613926921173], abs=1e-6
    )
    assert curve.density[at] == pytest.approx(
        [0.704364389052422, 1.7720570709510155, 2.2878549007387825, 2.088925788071147], abs=1e-6
    )
    assert curve.density.mean() == pytest.approx(1, abs=0.01)


def test_it_is_drawn_at_the_metrics_width() -> None:
    probs = torch.tensor(np.c_[CONFIDENCE, 1 - CONFIDENCE], dtype=torch.float32)
    probs = probs[(keep := torch.from_numpy(CONFIDENCE > 0.5))]
    target = 1 - torch.from_numpy(CORRECT)[keep].long()
    kept = keep.numpy()
    curve = smooth_reliability(CONFIDENCE[kept].astype("f4"), CORRECT[kept])
    assert curve.error == pytest.approx([float(smooth_calibration_error(probs, target))])


def covered(curve: SmoothReliability) -> float:
    """Share of the examples where the curve lies between the ends of the consistency band."""
    inside = (curve.calibrated_low <= curve.accuracy) & (curve.accuracy <= curve.calibrated_high)
    return float((inside * curve.density).sum() / curve.density.sum())


@pytest.mark.slow
def test_the_band_holds_calibrated_models_and_no_others() -> None:
    confidence = RANDOM.beta(5, 2, 500)
    calibrated = [
        covered(smooth_reliability(confidence, RANDOM.random(500) < confidence)) for _ in range(8)
    ]
    assert np.mean(calibrated) == pytest.approx(0.95, abs=0.05)
    assert covered(smooth_reliability(confidence, RANDOM.random(500) < confidence**2)) < 0.3


def test_the_interval_is_that_of_a_share_where_confidences_are_equal() -> None:
    curve = smooth_reliability(np.full(900, 0.8), np.arange(900) < 630)
    middle = curve.low[160] / 2 + curve.high[160] / 2
    assert middle == pytest.approx(0.7, abs=0.01)
    normal = 2 * 1.96 * np.sqrt(0.7 * 0.3 / 900)
    assert curve.high[160] - curve.low[160] == pytest.approx(normal, rel=0.15)


def test_runs_on_the_same_examples_are_resampled_together() -> None:
    example, run = np.tile(np.arange(40), 3), np.repeat(range(3), 40)
    pooled = smooth_reliability(
        np.tile(CONFIDENCE, 3), np.tile(CORRECT, 3), example=example, run=run
    )
    one = smooth_reliability(CONFIDENCE, CORRECT)
    assert pooled.accuracy == pytest.approx(one.accuracy, abs=1e-3)
    assert pooled.high == pytest.approx(one.high, abs=2e-3)
    assert pooled.error == pytest.approx(one.error.repeat(3))
    assert pooled.text.startswith(f"smECE {100 * one.error[0]:.1f} ± 0.0 %")


def test_the_curve_ends_where_examples_end() -> None:
    drawn = smooth_reliability(CONFIDENCE, CORRECT).masked_below(5)
    assert np.isnan(drawn.accuracy[:30]).all()
    assert np.isfinite(drawn.accuracy[120:180]).all()
    assert np.isfinite(drawn.density).all()

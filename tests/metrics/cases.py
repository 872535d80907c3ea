"""Every metric with its pure function, and batches to feed them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from calibench import metrics as M

K = 5
COUNTS = [500, 150, 100, 30, 5]

# name: (the class, ready to be built; the function; what the class makes of one batch, as the function does)
CASES: dict[str, tuple[Callable[..., Metric], Callable[..., Any]]] = {
    "ece": (M.CalibrationError, M.calibration_error),
    "ece_20": (partial(M.CalibrationError, 20), partial(M.calibration_error, n_bins=20)),
    "rmsce": (partial(M.CalibrationError, norm="l2"), partial(M.calibration_error, norm="l2")),
    "mce": (partial(M.CalibrationError, norm="max"), partial(M.calibration_error, norm="max")),
    "adaptive": (M.AdaptiveCalibrationError, M.adaptive_calibration_error),
    "adaptive_reference": (
        partial(M.AdaptiveCalibrationError, variant="reference"),
        partial(M.adaptive_calibration_error, variant="reference"),
    ),
    "classwise": (partial(M.ClasswiseCalibrationError, K), M.classwise_calibration_error),
    "classwise_reference": (
        partial(M.ClasswiseCalibrationError, K, variant="reference"),
        partial(M.classwise_calibration_error, variant="reference"),
    ),
    "ace": (
        partial(M.AdaptiveClasswiseCalibrationError, K),
        M.adaptive_classwise_calibration_error,
    ),
    "tace": (
        partial(M.ThresholdedAdaptiveCalibrationError, K),
        M.thresholded_adaptive_calibration_error,
    ),
    "smooth": (M.SmoothCalibrationError, M.smooth_calibration_error),
    "smooth_logit": (
        partial(M.SmoothCalibrationError, "logit"),
        partial(M.smooth_calibration_error, kernel="logit"),
    ),
    "lipschitz": (M.LipschitzCalibrationError, M.lipschitz_calibration_error),
    "ks": (M.KolmogorovSmirnovCalibrationError, M.kolmogorov_smirnov_calibration_error),
    "debiased": (M.DebiasedCalibrationError, M.debiased_calibration_error),
    "debiased_1": (
        partial(M.DebiasedCalibrationError, 1),
        partial(M.debiased_calibration_error, p=1),
    ),
    "debiased_marginal": (
        partial(M.DebiasedCalibrationError, kind="marginal"),
        partial(M.debiased_calibration_error, kind="marginal"),
    ),
    "ece_sweep": (M.SweepCalibrationError, M.sweep_calibration_error),
    "kuiper": (M.KuiperCalibrationError, M.kuiper_calibration_error),
    "spiegelhalter": (M.SpiegelhalterZ, M.spiegelhalter_z),
    "corp": (M.CorpDecomposition, M.corp_decomposition),
    "corp_marginal": (
        partial(M.CorpDecomposition, "marginal"),
        partial(M.corp_decomposition, kind="marginal"),
    ),
    "skce": (M.SquaredKernelCalibrationError, M.squared_kernel_calibration_error),
    "overconfidence": (M.OverconfidenceError, M.overconfidence_error),
    "underconfidence": (M.UnderconfidenceError, M.underconfidence_error),
    "brier": (M.BrierScore, M.brier_score),
    "brier_parts": (partial(M.BrierDecomposition, K), M.brier_decomposition),
    "nll": (M.NegativeLogLikelihood, M.negative_log_likelihood),
    "risk_coverage": (M.RiskCoverage, M.risk_coverage),
    "error": (M.ErrorRate, M.error_rate),
    "confusion": (partial(M.ConfusionMatrix, K), M.confusion_matrix),
    "per_class": (partial(M.PerClassError, K), M.per_class_error),
    "groups": (partial(M.GroupError, COUNTS), partial(M.group_error, class_counts=COUNTS)),
}


def batch(
    n: int, k: int = K, *, seed: int = 0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Over-confident probabilities (n, k) and targets (n,), with some exact ties and saturated rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.randint(k, (n,), generator=generator)
    logits[torch.arange(n), target] += 1.5
    logits[::7] = logits[::7].round()  # equal confidences
    logits[::11] = (
        40 * torch.eye(k, dtype=torch.float64)[target[::11]]
    )  # confidences that round to 1
    return logits.softmax(1).to(dtype), target


def flat(value: Any) -> Tensor:
    """A metric's value (tensor or dict of scalars) as one vector."""
    return torch.stack(list(value.values())) if isinstance(value, dict) else value.reshape(-1)


def computed(metric: Metric, *batches: tuple[Tensor, Tensor]) -> Tensor:
    """The value of a metric after these batches."""
    for preds, target in batches:
        metric.update(preds, target)
    return flat(metric.compute())


def assert_same(actual: Any, expected: Any, *, atol: float = 1e-12) -> None:
    """Equal within `atol`, NaN equal to NaN."""
    torch.testing.assert_close(
        flat(actual).detach().double(), flat(expected).double(), rtol=0, atol=atol, equal_nan=True
    )

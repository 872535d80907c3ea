"""The benchmark's metrics as one collection."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from calibench.binning import check_n_bins
from calibench.metrics.adaptive import AdaptiveCalibrationError
from calibench.metrics.base import (
    check_columns,
    check_num_classes,
    check_probabilities,
    top_label,
)
from calibench.metrics.calibration_error import CalibrationError
from calibench.metrics.classwise import ClasswiseCalibrationError
from calibench.metrics.error_rate import ErrorRate
from calibench.metrics.proper_scores import BrierScore, NegativeLogLikelihood
from calibench.metrics.smooth import SmoothCalibrationError


def calibration_metrics(
    num_classes: int,
    n_bins: Sequence[int] = (15, 20),
    *,
    prefix: str | None = None,
    validate_args: bool = True,
) -> CalibrationMetrics:
    """The benchmark's metrics: error, nll, brier, ece, adaptive_ece, classwise_ece, smooth_ece.

    Args:
        num_classes: K.
        n_bins: Numbers of bins. The binned metrics use the first one; `ece_20`, `adaptive_ece_20`
            and `classwise_ece_20` are added for each further one (20, say). Each has an attribute
            `n_bins`.
        prefix: Put before each name, "val/" say.
        validate_args: Check each batch; see `CalibrationMetric`.
    """
    return CalibrationMetrics(num_classes, n_bins, prefix=prefix, validate_args=validate_args)


class CalibrationMetrics(MetricCollection):
    """The benchmark's metrics, each batch checked once and its maximum taken once (this package).

    Made by `calibration_metrics`. Feed it `update(preds, target)`, or `update(preds=probs,
    target=target, log_probs=log_probs)` for a likelihood that does not underflow.
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: Sequence[int] = (15, 20),
        *,
        prefix: str | None = None,
        validate_args: bool = True,
    ) -> None:
        metrics, groups = _metrics(check_num_classes(num_classes), n_bins)
        super().__init__(metrics, prefix=prefix, compute_groups=groups)
        self.num_classes = num_classes
        self.validate_args = validate_args

    def update(self, preds: Tensor, target: Tensor, log_probs: Tensor | None = None) -> None:  # type: ignore[override]
        """Add a batch.

        Args:
            preds: Probabilities, shape (N, K).
            target: Class indices, shape (N,).
            log_probs: Their logarithms where they are known.
        """
        if self.validate_args:
            check_probabilities(preds, target)
        check_columns(preds, self.num_classes)
        preds = preds.detach().to(torch.promote_types(preds.dtype, torch.float32))
        super().update(
            preds=preds, target=target, log_probs=log_probs, top_label=top_label(preds, target)
        )


def _metrics(
    num_classes: int, n_bins: Sequence[int]
) -> tuple[dict[str, Metric | MetricCollection], list[list[str]]]:
    if len(n_bins) == 0 or len(set(n_bins)) != len(n_bins):
        raise ValueError(f"`n_bins` must hold one or more different numbers, got {tuple(n_bins)}.")
    first, *further = (check_n_bins(number) for number in n_bins)
    metrics: dict[str, Metric | MetricCollection] = {
        "error": ErrorRate(validate_args=False),
        "nll": NegativeLogLikelihood(validate_args=False),
        "brier": BrierScore(validate_args=False),
        **_binned(num_classes, first, ""),
        "smooth_ece": SmoothCalibrationError(validate_args=False),
    }
    for number in further:
        metrics |= _binned(num_classes, number, f"_{number}")
    # Named, because torchmetrics would merge for good what agrees on the first batch.
    shared = [name for name in metrics if name.startswith(("adaptive_ece", "smooth_ece"))]
    return metrics, [shared, *([name] for name in metrics if name not in shared)]


def _binned(num_classes: int, n_bins: int, suffix: str) -> dict[str, Metric | MetricCollection]:
    return {
        f"ece{suffix}": CalibrationError(n_bins, validate_args=False),
        f"adaptive_ece{suffix}": AdaptiveCalibrationError(n_bins, validate_args=False),
        f"classwise_ece{suffix}": ClasswiseCalibrationError(
            num_classes, n_bins, validate_args=False
        ),
    }

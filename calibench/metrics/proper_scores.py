"""Proper scores: Brier score and negative log-likelihood."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from calibench.ground.tensors import check_class_indices
from calibench.metrics.base import MeanMetric
from calibench.metrics.labelled import check_finite_maximum, check_shapes, checked
from calibench.metrics.probabilities import log_softmax
from calibench.metrics.score_sums import brier_sum, true_class


def check_logits_and_target(logits: Tensor, target: Tensor) -> None:
    """Raise unless `logits` (N, K) have a finite largest value and `target` are class indices (N,) below K."""
    check_shapes(logits, target, name="logits")
    check_finite_maximum(logits)
    check_class_indices(target, logits.shape[1])


def brier_score(preds: Tensor, target: Tensor) -> Tensor:
    """Mean of sum_k (p_k - 1[y = k])^2; see `BrierScore`."""
    return brier_sum(*checked(preds, target)) / len(target)


class BrierScore(MeanMetric):
    """Brier score, summed over classes (Brier 1950).

    1/N sum_i sum_k (p_ik - 1[y_i = k])^2. Others divide by K, or keep the true class's term only.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 2]; NaN without examples.
    """

    name = "brier"
    title = "Brier"
    percent = False
    plot_upper_bound = 2.0

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        self.add(brier_sum(*self.receive(preds, target)), len(target))


def negative_log_likelihood(preds: Tensor, target: Tensor, from_logits: bool = False) -> Tensor:
    """Mean of -log p of the true class; see `NegativeLogLikelihood`."""
    if from_logits:
        check_logits_and_target(preds, target)
        log_likelihood = true_class(log_softmax(preds), target.long())
    else:
        log_likelihood = true_class(*checked(preds, target)).log()
    return -log_likelihood.sum(dtype=torch.float64) / len(target)


class NegativeLogLikelihood(MeanMetric):
    """Negative log-likelihood in nats (Good 1952).

    What float32 probabilities lost to underflow cannot be recovered, so give logits or
    log-probabilities where they exist. An exact zero on the true class makes the value infinite,
    and it is reported so.

    Args:
        from_logits: Whether `preds` are logits (or log-probabilities: their log-softmax is
            themselves) instead of probabilities.
        **kwargs: See `CalibrationMetric`.

    Range [0, inf]; NaN without examples.
    """

    name = "nll"
    title = "NLL"
    percent = False

    def __init__(self, from_logits: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_logits = from_logits

    def update(self, preds: Tensor, target: Tensor, log_probs: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: Probabilities, or logits if `from_logits`, shape (N, K).
            target: Class indices, shape (N,).
            log_probs: Log-probabilities (N, K), or those of the true class alone (N,), used instead of
                `preds` where given.
        """
        if log_probs is None:
            log_likelihood = self._log_likelihood(preds, target)
        else:
            log_likelihood = true_class(log_probs, target) if log_probs.dim() > 1 else log_probs
        total = log_likelihood.detach().to(self.device).sum(dtype=torch.float64)
        self.add(-total, len(target))

    def _log_likelihood(self, preds: Tensor, target: Tensor) -> Tensor:
        if not self.from_logits:
            return true_class(*self.receive(preds, target)).log()
        if self.validate_args:
            check_logits_and_target(preds, target)
        return true_class(log_softmax(preds), target.long())

"""Variational calibration error: a lower bound on the L_p error of the whole distribution (Berta et al. 2026)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.evaluation.crossfit import recalibrated
from calibench.evaluation.scoring import log_probabilities
from calibench.ground.arguments import one_of


def _sign(gap: Tensor) -> Tensor:
    return gap.sign()


def _direction(gap: Tensor) -> Tensor:
    size = torch.linalg.vector_norm(gap, dim=1, keepdim=True)
    direction: Tensor = gap / size.clamp(min=torch.finfo(gap.dtype).tiny)
    return direction


# Sub-gradients of the L_p norm of each row.
_SUBGRADIENTS = {1: _sign, 2: _direction}


def variational_terms(
    logits: Tensor,
    target: Tensor,
    *,
    p: Literal[1, 2] = 1,
    folds: int = 5,
    calibrator: Calibrator | None = None,
) -> dict[str, Tensor]:
    """Variational estimate of the L_p calibration error E |E[y | f] - f|_p of the predicted distribution f.

    The mean of <s(g(f) - f), y - f>, with s a sub-gradient of the norm and g a recalibration that has not seen the
    example. Its expectation is at most the error, whatever g is, and equal to it for the best one; so an estimate can
    be negative.

    Args:
        logits: Logits or log-probabilities, shape (N, K), N >= 2.
        target: Class indices, shape (N,).
        p: 1 or 2.
        folds: Number of stratified folds.
        calibrator: The recalibration; temperature scaling with a uniform mixture if None.

    Returns:
        Each example's term of the mean, `error`, (N,) float64, and its summands over the probabilities that g lowers,
        `over`, and raises, `under`.
    """
    subgradient = one_of("p", p, _SUBGRADIENTS)
    probs = log_probabilities(logits.double()).exp()
    gap = recalibrated(logits, target, folds=folds, calibrator=calibrator).exp() - probs
    residual = torch.zeros_like(probs).scatter_(1, target.unsqueeze(1), 1.0) - probs
    terms = subgradient(gap) * residual
    over, under = (terms.where(side, 0).sum(1) for side in (gap < 0, gap > 0))
    return {"error": over + under, "over": over, "under": under}

"""Variational calibration error: a lower bound on the L_p error of the whole distribution (Berta et al. 2026)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibench.arguments import one_of
from calibench.calibrators import Calibrator
from calibench.evaluation.crossfit import recalibrated
from calibench.evaluation.scoring import log_probabilities


def _sign(gap: Tensor) -> Tensor:
    return gap.sign()


def _direction(gap: Tensor) -> Tensor:
    return gap / gap.norm(dim=1, keepdim=True).clamp(min=torch.finfo(gap.dtype).tiny)


# Sub-gradients of the L_p norm of each row.
_SUBGRADIENTS = {1: _sign, 2: _direction}


def variational_error(
    logits: Tensor,
    target: Tensor,
    *,
    p: Literal[1, 2] = 1,
    folds: int = 5,
    calibrator: Calibrator | None = None,
) -> dict[str, float]:
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
        `error`, and its summands over the probabilities that g lowers, `over`, and raises, `under`.
    """
    subgradient = one_of("p", p, _SUBGRADIENTS)
    probs = log_probabilities(logits.double()).exp()
    gap = recalibrated(logits, target, folds=folds, calibrator=calibrator).exp() - probs
    residual = torch.zeros_like(probs).scatter_(1, target.unsqueeze(1), 1.0) - probs
    terms = subgradient(gap) * residual
    over = terms.where(gap < 0, 0).sum(1).mean()
    under = terms.where(gap > 0, 0).sum(1).mean()
    return {"error": float(over + under), "over": float(over), "under": float(under)}

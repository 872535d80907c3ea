"""Logits with masked classes, which an example does not have: -inf in a row, and the probability 0."""

import math

import torch
from torch import Tensor

NEGLIGIBLE = 30.0
"""Distance from the largest logit at which a class counts less than rounding: its probability is 1e-13."""


def find_finite_rows(logits: Tensor) -> Tensor | None:
    """Rows without a masked class, NaN or inf, (N,) bool; None where values cannot be read, or not without waiting."""
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    try:
        if math.isfinite(logits.detach().sum()):
            return torch.ones(len(logits), dtype=torch.bool)
        return logits.detach().isfinite().all(dim=1)
    except RuntimeError:  # torch.func.vmap stands for many
        return None


def replace_masked_logits(logits: Tensor, depth: float = NEGLIGIBLE) -> Tensor:
    """Logits in which masked classes have a finite one, below all others, and rows that hold NaN or inf are 0."""
    top = logits.amax(dim=1, keepdim=True)
    finite = torch.where(logits.isneginf(), torch.inf, logits)
    lowest = torch.minimum(finite.amin(dim=1, keepdim=True), top - depth)
    return torch.where(top.isfinite(), torch.where(logits.isneginf(), lowest, logits), 0.0)


def renormalise_unmasked(log_prob: Tensor, logits: Tensor) -> Tensor:
    """Log-probabilities with 0 for the masked classes, the others renormalised; NaN in rows with NaN or inf.

    Where a calibrator leaves nothing to the other classes, they get what the logits say.
    """
    masked = logits.isneginf()
    remaining = log_prob.masked_fill(masked, -torch.inf)
    total = remaining.logsumexp(dim=1, keepdim=True)
    renormalised = torch.where(total.isneginf(), logits.log_softmax(dim=1), remaining - total)
    unmasked = torch.where(masked.any(dim=1, keepdim=True), renormalised, log_prob)
    return torch.where(logits.amax(dim=1, keepdim=True).isfinite(), unmasked, torch.nan)

"""Generative cross-entropy: which input, given the class; not which class, given the input."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from calibench.losses.arguments import unit_interval
from calibench.losses.base import CalibrationLoss, log_probabilities


def log_class_mass(log_probs: Tensor) -> Tensor:
    """Log S_k, where S_k = sum_i p_ik is the mass that the batch gives class k: (N, K) -> (K,)."""
    top = log_probs.detach().amax(dim=0)  # the largest term, so that no sum underflows
    return (log_probs - top).exp().sum(dim=0).log() + top


def generative_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Batch-coupled: mean of -log(p_i[y_i] / sum_j p_j[y_i]), a scalar; (N, K) and (N,) -> ()."""
    log_probs = log_probabilities(logits)
    # -log p(x|y) is the cross-entropy of log p(y|x) - log p(y), whose rows are not normalised
    log_joint = log_probs - log_class_mass(log_probs)
    loss = F.nll_loss(log_joint, target)
    return loss if smoothing == 0 else loss.lerp(-log_joint.mean(), smoothing)


class GenerativeCrossEntropy(CalibrationLoss):
    """Batch-coupled generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026)."""

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the batch."""
        return generative_cross_entropy(logits, target, smoothing=self.smoothing)

"""Generative cross-entropy: which input, given the class; not which class, given the input."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.losses.arguments import unit_interval
from calibench.losses.base import CalibrationLoss
from calibench.losses.generative import of_generative
from calibench.losses.softmax import log_probabilities


def _identity(ce: Tensor, generative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return generative, torch.zeros_like(ce), torch.ones_like(generative)


def generative_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Batch-coupled: mean of -log(p_i[y_i] / sum_j p_j[y_i]), a scalar: (N, K), (N,) -> ()."""
    loss = of_generative(logits, target, _identity).mean()
    if smoothing:
        log_probs = log_probabilities(logits)
        spread = log_probs.logsumexp(dim=0).mean() - log_probs.mean()
        loss = loss.lerp(spread, smoothing)
    return loss


class GenerativeCrossEntropy(CalibrationLoss):
    """Batch-coupled: generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026, eq. 4-7).

    With p(x_i) = 1/N within the batch, p(x_i | y_i) = p_i[y_i] / S[y_i] where S_k = sum_j p_j[k],
    so the loss is cross-entropy + (1/N) sum_k N_k log S_k, N_k being the number of targets k. It is
    not 0 at perfect predictions but (1/N) sum_k N_k log N_k; a batch of one has loss 0 and no
    gradient; and it cannot be split over micro-batches. It is computed in log space: the ratio
    itself has NaN gradients at logits of +-50 in float32.

    **Blind spot.** The ratios do not change when a class's probabilities are scaled by one factor
    for the whole batch. A class absent from the batch has no ratio at all: any share of every row's
    probability may move to the absent classes at no cost (99% of it, in a test). With K equally
    likely classes (1 - 1/K)^B of them are absent: at B = 128 28% for K = 100 and 53% for K = 200. The
    paper's proof of strict propriety needs every class present. Label smoothing gives the absent
    classes targets, and so fixes how mass is spread *within* them, but not how much of it goes
    there: spread evenly it still is free. What removes the blind spot is a batch with all
    classes, or cross-entropy beside the loss (`WeightedSum`).

    Args:
        smoothing: Label smoothing in [0, 1), spread uniformly over all K classes (eq. 5-6; the
            paper leaves the convention open).
    """

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the batch."""
        return generative_cross_entropy(logits, target, smoothing=self.smoothing)

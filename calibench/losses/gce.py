"""Generative cross-entropy: the probability of an input given its class, within the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.ground.arguments import unit_interval
from calibench.losses.base import CalibrationLoss
from calibench.losses.softmax import log_probabilities


def masked_classes(log_probs: Tensor) -> Tensor:
    """Which classes have probability 0 in the whole batch, their logits being -inf: (N, K) -> (K,)."""
    return log_probs.detach().amax(dim=0) == -torch.inf


def generative_surprisals(log_probs: Tensor) -> Tensor:
    """Batch-coupled: -log(p_ik / S_k) with S_k = sum_j p_jk: (N, K) -> (N, K).

    It is a log-softmax over the rows, so that nothing underflows. For a masked class it is inf,
    without gradient.
    """
    masked = masked_classes(log_probs)
    # log(0 / 0) would have a NaN gradient even where nobody uses its value
    filled = torch.where(masked, 0.0, log_probs)
    return torch.where(masked, torch.inf, -filled.log_softmax(dim=0))


def generative_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Batch-coupled: mean of -log(p_i[y_i] / sum_j p_j[y_i]), a scalar: (N, K), (N,) -> ()."""
    log_probs = log_probabilities(logits)
    surprisals = generative_surprisals(log_probs)
    loss = surprisals.gather(1, target.unsqueeze(1)).mean()
    if smoothing:
        masked = masked_classes(log_probs)
        uniform = torch.where(masked, 0.0, surprisals.mean(dim=0)).sum() / (~masked).sum()
        loss = loss.lerp(uniform, smoothing)
    return loss


class GenerativeCrossEntropy(CalibrationLoss):
    """Batch-coupled: generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026, eq. 4-7).

    (1/N) sum_i -log(p_i[y_i] / S[y_i]) with S_k = sum_j p_j[k]: with p(x_i) = 1/N within the batch
    the ratio is p(x_i | y_i). It is cross-entropy + (1/N) sum_k N_k log S_k, N_k being the number of
    targets k. It is not 0 at perfect predictions but (1/N) sum_k N_k log N_k; a batch of one has
    loss 0 and no gradient; and it cannot be split over micro-batches. It is computed in log space:
    the ratio itself has NaN gradients at logits of +-50 in float32. A class that is masked in the
    whole batch (logits of -inf) counts as if it did not exist.

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

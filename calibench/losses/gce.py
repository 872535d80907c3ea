"""Generative cross-entropy: which input, given the class; not which class, given the input."""

from __future__ import annotations

from torch import Tensor

from calibench.losses.arguments import unit_interval
from calibench.losses.base import CalibrationLoss
from calibench.losses.label_smoothing import label_smoothing_loss
from calibench.losses.softmax import cross_entropy_and_mass


def generative_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Batch-coupled: mean of -log(p_i[y_i] / sum_j p_j[y_i]), a scalar: (N, K), (N,) -> ()."""
    ce, log_mass = cross_entropy_and_mass(logits, target)
    discriminative, class_level = ce.mean(), log_mass.index_select(0, target).mean()
    if smoothing:
        discriminative = label_smoothing_loss(logits, target, smoothing=smoothing).mean()
        class_level = class_level.lerp(log_mass.mean(), smoothing)
    return discriminative + class_level


class GenerativeCrossEntropy(CalibrationLoss):
    """Batch-coupled: generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026, eq. 4-7).

    With p(x_i) = 1/N within the batch, p(x_i | y_i) = p_i[y_i] / S[y_i] where S_k = sum_j p_j[k],
    so the loss is cross-entropy + (1/N) sum_k N_k log S_k, N_k being the number of targets k. It is
    not 0 at perfect predictions but (1/N) sum_k N_k log N_k; a batch of one has loss 0 and no
    gradient; and it cannot be split over micro-batches. It is computed in log space: the ratio
    itself has NaN gradients at logits of +-50 in float32.

    **Blind spot.** A class absent from the batch has N_k = 0: probability moved uniformly onto
    absent classes is free, since every p_i[y_i] / S[y_i] keeps its value. With K equally likely
    classes (1 - 1/K)^B of them are absent: at B = 128 28% for K = 100 and 53% for K = 200. The
    paper's proof of strict propriety needs every class present. `smoothing` > 0 gives every class a
    target and removes the blind spot; so does a batch that holds all classes.

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

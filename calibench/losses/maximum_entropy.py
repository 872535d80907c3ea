"""Maximum entropy under constraints on the mean and the variance of the class number."""

import math
from typing import Literal

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative, one_of
from calibench.losses.class_counts import ClassCountLoss
from calibench.losses.cross_entropy import log_probabilities, surprisal
from calibench.losses.focal import focal_factor

NEWTON_STEPS = 100


def multipliers(features: Tensor, moments: Tensor) -> Tensor:
    """Lagrange multipliers l of each class, (K, M), with sum_k f_k exp(-1 - l f_k) = m.

    They minimise the convex function sum_k exp(-l f_k) + e l m, here by Newton's method with halved steps.

    Args:
        features: f of each class number k, for each class, (K, K, M) float64.
        moments: m of each class, (K, M), positive.

    Raises:
        ValueError: If there are none.
    """

    def weights(of: Tensor) -> Tensor:
        return torch.exp(-(features * of.unsqueeze(1)).sum(2))

    def objective(of: Tensor) -> Tensor:
        return weights(of).sum(1) + math.e * (of * moments).sum(1)

    found = torch.zeros_like(moments)
    for _ in range(NEWTON_STEPS):
        weighted = features * weights(found).unsqueeze(2)
        excess = weighted.sum(1) - math.e * moments
        if bool((excess.abs() <= 1e-9 * math.e * moments).all()):
            return found
        step = torch.linalg.lstsq(features.mT @ weighted, excess.unsqueeze(2)).solution.squeeze(2)
        before = objective(found)
        while bool((worse := ~(objective(found + step) <= before + 1e-12 * before.abs())).any()):
            step[worse] /= 2
        found = found + step
    raise ValueError(
        "`constraint`: these classes have no multipliers for it; take the mean or the variance alone."
    )


class MaxEntLoss(ClassCountLoss):
    """Focal loss + maximum-entropy constraints, MaxEnt loss (Neo, Winkler and Chen 2024).

    The classes are the numbers 0, ..., K - 1, so their order matters: with the mean m = sum_k k p_k of a prediction and
    that of the training set, M, "mean" is -(1 - p_y)^gamma log p_y + l_y (|m - M| + |m - y|). "variance" has k^2 in
    place of k, the mean of squares in place of the mean. "both" adds l'_y (|v - V| + v) to "mean", with the variance v
    of the prediction and V of the training set, and other l_y.

    The Lagrange multipliers are those of the distribution of the largest entropy that has the mean of both targets:
    sum_k k exp(-1 - l_y k) = (M + y) / 2, and alike. The authors' code, which this follows, does not normalise that
    distribution, and takes for the second moment of "both", about c_y = (M + y) / 2, the mean of (y - c_y)^2 and
    of (k - c_k)^2 over the training set. Its Newton iteration ends near these multipliers, or, of few classes, nowhere.

    Args:
        constraint: "mean" (M in the paper), "variance" (V) or "both" (M + V), which two classes cannot have.
        gamma: Focusing parameter >= 0; 1 in the authors' scripts.
    """

    fewest = 0

    def __init__(
        self, *, constraint: Literal["mean", "variance", "both"] = "mean", gamma: float = 1.0
    ) -> None:
        super().__init__()
        self.power = one_of("constraint", constraint, {"mean": 1, "variance": 2, "both": 1})
        self.both = constraint == "both"
        self.gamma = non_negative("gamma", gamma)

    def from_counts(self, counts: Tensor) -> Tensor:
        """Return each class's share of the training set, and its multipliers, (K, 2) or (K, 3)."""
        share, number = counts / counts.sum(), torch.arange(len(counts)).to(counts)
        values = number**self.power
        centre = ((share * values).sum() + values) / 2
        features, moments = [values.expand(len(counts), -1)], [centre]
        if self.both:
            squares = (number - centre).square()
            features.append((number - centre.unsqueeze(1)).square())
            moments.append(((share * squares).sum() + squares) / 2)
        found = multipliers(torch.stack(features, 2), torch.stack(moments, 1))
        return torch.cat([share.unsqueeze(1), found], 1)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        log_probs = log_probabilities(logits)
        share, weight, *weight_of_variance = self.for_classes(log_probs).unbind(1)
        ce, probs = surprisal(log_probs, target), log_probs.exp()
        number = torch.arange(len(share)).to(probs)
        values = number**self.power
        # no matrix products: autocast and TF32 would round them
        mean, mean_of_all = (probs * values).sum(1), (share * values).sum()
        gaps = (mean - mean_of_all).abs() + (mean - values[target]).abs()
        loss = focal_factor(ce, self.gamma) * ce + weight[target] * gaps
        for weight in weight_of_variance:
            variance = (probs * (number - mean.unsqueeze(1)).square()).sum(1)
            variance_of_all = (share * (number - mean_of_all).square()).sum()
            loss = loss + weight[target] * ((variance - variance_of_all).abs() + variance)
        return loss

"""Metrics against known class distributions, batch by batch; their values need no torchmetrics."""

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric
from calibench.metrics.posterior import VALUES, posterior_values


class PosteriorScores(CalibrationMetric):
    """Means of `posterior_values` over all examples.

    Range: [0, inf) for `posterior_nll` and `posterior_kl`, [0, 1] for the others; NaN without examples. State: seven
    numbers.
    """

    sums: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_sum("sums", len(VALUES))
        self.add_sum("count")

    def update(self, log_probs: Tensor, posterior: Tensor) -> None:
        """Add examples: log-probabilities and class distributions, both (N, K)."""
        values = posterior_values(log_probs.detach().to(self.device), posterior.to(self.device))
        self.accumulate("sums", torch.stack([of.sum() for of in values.values()]))
        self.accumulate("count", len(log_probs))

    def compute(self) -> dict[str, Tensor]:
        """The means, by name."""
        return dict(zip(VALUES, self.sums / self.count, strict=True))

"""Cross-entropy against smoothed targets, in the two definitions that the literature mixes up."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from calibench.ground.arguments import one_of, unit_interval
from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


def label_smoothing_loss(logits: Tensor, target: Tensor, *, smoothing: float) -> Tensor:
    """Cross-entropy against (1 - smoothing) Y + smoothing / K: (N, K) and (N,) -> (N,)."""
    return cross_entropy_loss(logits, target, smoothing=smoothing)


class LabelSmoothingLoss(PerExampleLoss):
    """Label smoothing (Szegedy et al. 2016; Mueller et al. 2019).

    "uniform" spreads the smoothing over all K classes, the true one included (Szegedy et al. 2016;
    torch's `label_smoothing`; MbLS's code). "off_target" leaves the true class 1 - smoothing and
    gives each other class smoothing / (K - 1) (the code of MDCA and FCL). The second equals the
    first with smoothing * K / (K - 1), so numbers published under one name differ.

    Args:
        smoothing: Probability mass taken from the true class, in [0, 1).
        mode: Which classes receive it.
    """

    def __init__(
        self, *, smoothing: float = 0.05, mode: Literal["uniform", "off_target"] = "uniform"
    ) -> None:
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)
        self.off_target = one_of("mode", mode, {"uniform": False, "off_target": True})

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's cross-entropy against the smoothed target, (N,)."""
        smoothing, num_classes = self.smoothing, logits.shape[1]
        if self.off_target:  # the uniform definition with a larger smoothing
            smoothing = smoothing * num_classes / (num_classes - 1)
        return label_smoothing_loss(logits, target, smoothing=smoothing)

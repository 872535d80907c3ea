"""The contract of a post-hoc calibrator: fit on logits, give probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor, nn


class Calibrator(nn.Module, ABC):
    """A map from logits to probabilities, fitted on held-out logits.

    Subclasses implement `fit` and `log_prob`; every class can be built without arguments, keeps what it
    fitted in buffers (so it saves, moves and composes like any module), and never owns a network or a
    loader. `preserves_accuracy` says whether the argmax is guaranteed to stay.
    """

    preserves_accuracy: bool = False

    @abstractmethod
    def fit(self, logits: Tensor, target: Tensor) -> Self:
        """Fit on validation logits (N, K) and class indices (N,); returns self."""

    @abstractmethod
    def log_prob(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities, (N, K) -> (N, K), in the dtype and on the device of `logits`."""

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, (N, K) -> (N, K); rows sum to 1."""
        return self.log_prob(logits).exp()

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """What was fitted, as plain numbers for a report, e.g. `{"temperature": 1.7}`."""
        return {}

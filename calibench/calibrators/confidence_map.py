"""Top-label calibration: a map for the confidence of the predicted class; the other classes share the rest."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.confidence import is_correct
from calibench.calibrators.simplex import with_top


class ConfidenceMap(Calibrator):
    """A calibrator of one binary problem, whether the predicted class is right.

    The predicted class gets the calibrated confidence, the others keep their proportions. Where a
    calibrated confidence falls below the runner-up's share the argmax changes.

    Attributes:
        knots: Confidences, (M,).
        values: Calibrated confidences at the knots, (M,).
    """

    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    @abstractmethod
    def _fit_confidence(
        self, confidence: Tensor, correct: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Knots and values from confidences (N,), hits (N,) bool and how much each counts (N,)."""

    @abstractmethod
    def calibrated(self, confidence: Tensor) -> Tensor:
        """The map at confidences of any shape, in [0, 1]."""

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self._fit_map(logits, target, logits.new_ones(len(logits)))

    def _fit_map(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        confidence = logits.softmax(dim=1).amax(dim=1)
        knots, values = self._fit_confidence(confidence, is_correct(logits, target), weight)
        self.knots, self.values = knots.to(logits.device), values.to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(dim=1)
        return with_top(log_probs, self.calibrated(log_probs.amax(dim=1).exp()))

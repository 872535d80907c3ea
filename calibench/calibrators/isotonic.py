"""Isotonic regression: a map per class, one for the top label, or one for all N x K pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.arguments import positive
from calibench.calibrators.base import Calibrator
from calibench.calibrators.confidence_map import ConfidenceMap
from calibench.calibrators.interpolation import interpolate, padded
from calibench.calibrators.one_vs_rest import OneVsRest
from calibench.calibrators.simplex import log_normalised


def fit_isotonic(score: Tensor, hit: Tensor) -> tuple[Tensor, Tensor]:
    """Knots and values, (M,) with M >= 2, of scikit-learn's isotonic regression of hits."""
    from sklearn.isotonic import IsotonicRegression  # a second of imports, pandas among them

    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    regression.fit(score.cpu().numpy(), hit.cpu().double().numpy())
    knots = torch.from_numpy(regression.X_thresholds_)
    values = torch.from_numpy(regression.y_thresholds_)
    return padded([knots], torch.inf, minimum=2)[0], padded([values], minimum=2)[0]


class IsotonicCalibration(OneVsRest):
    """Isotonic regression of each class against the rest (Zadrozny & Elkan 2002).

    scikit-learn's isotonic regression on p_k, linear between its knots, constant outside; rows are
    normalised. An exact 0 stays (log-probability -inf, an infinite NLL if that class is the
    target).

    Public code that differs: Mix-n-Match's IROvA adds 1e-9 p and leaves the rows unnormalised.
    """

    def _fit_class(self, score: Tensor, hit: Tensor) -> tuple[Tensor, Tensor]:
        return fit_isotonic(score, hit)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return interpolate(score, knots, values)


class IsotonicTopLabel(ConfidenceMap):
    """Isotonic regression of the top-label confidence (Zadrozny & Elkan 2002).

    An exact 0 or 1 stays: with confidence 1 the other classes have probability 0.
    """

    def _fit_confidence(self, confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
        return fit_isotonic(confidence, correct)

    def calibrated(self, confidence: Tensor) -> Tensor:
        """The isotonic map at confidences of any shape."""
        return interpolate(confidence, self.knots, self.values)


class IRM(Calibrator):
    """Multi-class isotonic regression, one map for all N x K pairs (Zhang et al. 2020).

    The map is made strictly increasing by `slope` times p, which keeps the argmax, and the rows are
    normalised.

    Public code that differs: Mix-n-Match leaves the rows unnormalised (`unnormalised` gives its values).

    Args:
        slope: What is added to the isotonic map, times p; positive. 1e-9 in the authors' code.

    Attributes:
        knots: Probabilities, (M,).
        values: Calibrated values at the knots, (M,).

    Raises:
        ValueError: If `slope` is not positive.
    """

    preserves_accuracy = True
    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    def __init__(self, *, slope: float = 1e-9) -> None:
        super().__init__()
        positive("slope", slope)
        self.slope = slope

    def unnormalised(self, logits: Tensor) -> Tensor:
        """The map's values before they are normalised: logits (N, K) -> (N, K), float64."""
        probs = logits.double().softmax(dim=1)
        return interpolate(probs, self.knots, self.values) + self.slope * probs

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        hit = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, target.unsqueeze(1), True)
        knots, values = fit_isotonic(logits.softmax(dim=1).flatten(), hit.flatten())
        self.knots, self.values = knots.to(logits.device), values.to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_normalised(self.unnormalised(logits))

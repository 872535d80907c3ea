"""Top-label calibration: a map for the confidence of the predicted class; the other classes share the rest."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.one_vs_rest import (
    interpolate_by_log_odds,
    replace_top,
    share_of_way,
    smooth_values,
    top_log_odds,
)
from calibench.calibrators.temperature import is_correct, reduce_rows
from calibench.messages.checks import integer_from, non_negative, option_named


class ConfidenceMap(Calibrator):
    """A calibrator of one binary problem, whether the predicted class is right.

    The predicted class gets the calibrated confidence, the others keep their proportions. Where a
    calibrated confidence falls below the runner-up's share the argmax changes.

    Attributes:
        knots: Log-odds of confidences, (M,), which tell large logits apart.
        values: Calibrated confidences at the knots, (M,).
    """

    widens_blocks = True
    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    @abstractmethod
    def _fit_confidence(
        self, log_odds: Tensor, correct: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Knots and values from log-odds of confidences (N,), hits (N,) bool and how much each counts (N,)."""

    @abstractmethod
    def _evaluate(self, log_odds: Tensor) -> Tensor:
        """The map at log-odds of confidences, of any shape, in [0, 1]."""

    def calibrated(self, confidence: Tensor) -> Tensor:
        """Calibrated confidences of confidences of any shape, in [0, 1]."""
        largest = torch.finfo(confidence.dtype).max
        return self._evaluate(confidence.logit().clamp(-largest, largest))

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        log_odds = reduce_rows(lambda rows: top_log_odds(rows.log_softmax(dim=1)), logits)
        knots, values = self._fit_confidence(log_odds, is_correct(logits, target), weight)
        self.knots, self.values = knots.to(logits.device), values.to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(dim=1)
        return replace_top(log_probs, self._evaluate(top_log_odds(log_probs)))


def swapped_interpolation(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """The authors' interpolation of log-odds, each neighbour weighted by the distance to *itself*, of probabilities.

    At a knot it gives the value of the knot before; beyond the ends it is constant.
    """
    right = torch.bucketize(x, knots).clamp(1, len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    value = torch.lerp(values[right], values[right - 1], share_of_way(x, low, high))
    value = torch.where(x >= knots[-1], values[-1], value)
    return torch.where(x <= knots[0], values[0], value)


INTERPOLATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "published": interpolate_by_log_odds,
    "reference": swapped_interpolation,
}


class SplineCalibration(ConfidenceMap):
    """Spline calibration of the top-label confidence (Gupta et al. 2021).

    A natural cubic spline is fitted by least squares to the difference of cumulative accuracy and cumulative confidence
    over the sorted scores (by their log-odds, which tell large logits apart); its derivative is what a score is
    corrected by. Between the scores of the calibration set the corrected scores are interpolated,
    and clipped to [0, 1]. Tied scores get the mean of their corrections. The map need not be
    increasing.

    Args:
        n_knots: Knots of the spline, evenly spaced over the percentiles, >= 2; 6 in the authors'
            code.
        variant: `"published"`: linear interpolation. `"reference"`: the authors' code, where the
            two weights of the interpolation are swapped (and tied scores raise a NameError).
        smoothing: Hits and misses that are added to N times each corrected score, which keeps it off 0 and 1, so that
            the NLL is finite; 0 is the method as published.
        shrinkage: As for `Calibrator`.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import SplineCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = SplineCalibration(n_knots=6).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0906, 0.0816, 0.8278],
                [0.0060, 0.5101, 0.4839]])
    """

    takes_weights = False

    def __init__(
        self,
        *,
        n_knots: int = 6,
        variant: Literal["published", "reference"] = "published",
        smoothing: float = 0.0,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        option_named("variant", variant, INTERPOLATIONS)
        self.n_knots = integer_from("n_knots", n_knots, 2)
        self.variant = variant
        self.smoothing = non_negative("smoothing", smoothing)

    def _fit_confidence(
        self, log_odds: Tensor, correct: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        score, order = log_odds.cpu().sort(stable=True)
        confidence = score.sigmoid()
        gap = (correct.cpu()[order].double() - confidence).cumsum(0) / len(score)
        corrected = confidence + natural_spline_slope(gap, self.n_knots)
        knots, group, count = torch.unique_consecutive(
            score, return_inverse=True, return_counts=True
        )
        values = torch.zeros_like(knots).index_add_(0, group, corrected) / count
        if self.smoothing:
            values = smooth_values(values.clamp(0, 1), len(score), self.smoothing)
        if len(knots) == 1:  # a constant
            return torch.cat([knots, knots.new_tensor([torch.inf])]), values.expand(2).clone()
        return knots, values

    def _evaluate(self, log_odds: Tensor) -> Tensor:
        return INTERPOLATIONS[self.variant](log_odds, self.knots, self.values).clamp(0, 1)


def natural_spline_slope(values: Tensor, n_knots: int) -> Tensor:
    """Slope of the least-squares natural cubic spline of values at N even steps of [0, 1], (N,)."""
    from scipy.interpolate import CubicSpline

    position = torch.linspace(0, 1, len(values), dtype=torch.float64).numpy()
    knots = torch.linspace(0, 1, n_knots, dtype=torch.float64).numpy()
    basis = CubicSpline(knots, torch.eye(n_knots, dtype=torch.float64).numpy(), bc_type="natural")
    # With fewer examples than knots: the solution of the smallest norm.
    design = torch.from_numpy(basis(position))
    heights = torch.linalg.lstsq(design, values.unsqueeze(1), driver="gelsd").solution
    slope: Tensor = torch.from_numpy(basis(position, 1)) @ heights
    return slope.squeeze(1)


class MeanReplacement(Calibrator):
    """Every confidence becomes the validation accuracy, whatever the input (Chidambaram & Ge 2024).

    A canary: it keeps the predicted classes and throws everything else away, so it has nearly no calibration error
    and a poor NLL. A ranking that it wins ranks nothing of use. It is no default: who wants to see it asks for it.

    The other classes share the rest equally, so an accuracy below 1 / K is replaced by 1 / K; classes with the same
    largest logit share too. With an accuracy of 1 the others have what `shrinkage` gives them, else probability 0.

    Attributes:
        accuracy: Accuracy on the validation set, a scalar.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import MeanReplacement
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = MeanReplacement().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1344, 0.1344, 0.7312],
                [0.1344, 0.7312, 0.1344]])
    """

    preserves_accuracy = True
    fitted_buffers = reported = ("accuracy",)
    accuracy: Tensor

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.accuracy = is_correct(logits, target).double().mean()

    def _log_prob(self, logits: Tensor) -> Tensor:
        num_classes = logits.shape[1]
        confidence = self.accuracy.clamp(min=1 / num_classes)
        other_share = (1 - confidence) / (num_classes - 1)
        top = logits == logits.amax(dim=1, keepdim=True)
        tied = top.sum(dim=1, keepdim=True)
        return torch.where(top, (confidence + (tied - 1) * other_share) / tied, other_share).log()

"""Isotonic regression: a map per class, one for the top label, or one for all N x K pairs; Venn-Abers prediction."""

from abc import ABC
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.one_vs_rest import (
    LogOddsMap,
    class_log_odds,
    interpolate_by_log_odds,
    normalise_log,
    pad_values,
    smooth_values,
)
from calibench.calibrators.top_label import ConfidenceMap
from calibench.messages.checks import non_negative, positive
from calibench.tensors.arrays import Floats


def fit_isotonic(score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Knots and values, (M,) with M >= 2, of the isotonic regression of hits, which count by `share`: ends of steps."""
    from scipy.optimize import isotonic_regression  # half a second, which only a fit needs

    counts = share.cpu().double()
    knots, place = torch.unique(score.cpu()[counts > 0], return_inverse=True)
    weight = torch.bincount(place, counts[counts > 0])
    hits = torch.bincount(place, (counts * hit.cpu())[counts > 0])
    regression = isotonic_regression((hits / weight).numpy(), weights=weight.numpy())
    values = torch.from_numpy(regression.x)
    inner = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    ends = F.pad(~inner, (1, 1), value=True)[: len(knots)]
    knots, values = knots[ends], values[ends]
    return pad_values([knots], torch.inf, minimum=2)[0], pad_values([values], minimum=2)[0]


def centre_blocks(
    knots: Tensor, values: Tensor, score: Tensor, share: Tensor
) -> tuple[Tensor, Tensor]:
    """Knots and values of an isotonic regression whose level stretches are one point each, at their mean probability.

    Stretches of 0 and of 1 stay level, as there is nothing below or above them (Oron & Flournoy 2017). From what
    `fit_isotonic` gives of log-odds, with these scores (N,) and how much each counts (N,).
    """
    level, stretch = torch.unique_consecutive(values[knots.isfinite()], return_inverse=True)
    last = knots[knots.isfinite()][torch.cat([stretch.diff() > 0, stretch.new_ones(1) > 0])]
    of_score = torch.bucketize(score, last).clamp(max=len(last) - 1)
    mean = _mean_log_odds(score, of_score, share, len(level))
    certain = (level[stretch] == 0) | (level[stretch] == 1)
    points = torch.where(certain, knots[knots.isfinite()], mean[stretch])
    new = torch.cat([points.new_ones(1), points.diff()]) > 0
    at, value = points[new], level[stretch][new]
    return pad_values([at], torch.inf, minimum=2)[0], pad_values([value], minimum=2)[0]


def _mean_log_odds(log_odds: Tensor, group: Tensor, share: Tensor, number: int) -> Tensor:
    """Log-odds of the mean probability of each group, (number,), within those of its members."""

    def log_sum(log_values: Tensor) -> Tensor:
        top = log_values.new_full((number,), -torch.inf)
        top = top.scatter_reduce(0, group, log_values, "amax")
        return group.bincount(share * (log_values - top[group]).exp(), number).log() + top

    mean = log_sum(F.logsigmoid(log_odds)) - log_sum(F.logsigmoid(-log_odds))
    counted = group[share > 0], log_odds[share > 0]
    low = mean.new_full((number,), torch.inf).scatter_reduce(0, *counted, "amin")
    high = mean.new_full((number,), -torch.inf).scatter_reduce(0, *counted, "amax")
    return torch.minimum(torch.maximum(mean, low), high)


class SmoothedCalibrator(Calibrator, ABC):
    """A calibrator whose values are frequencies, which can be kept off 0 and 1.

    Args:
        smoothing: Hits and misses that are added to N times each value, which keeps it off 0 and 1; 0 is the method
            as published.
        shrinkage: As for `Calibrator`.
    """

    def __init__(self, *, smoothing: float = 0.0, shrinkage: bool = True) -> None:
        super().__init__(shrinkage=shrinkage)
        self.smoothing = non_negative("smoothing", smoothing)


class IsotonicCalibration(SmoothedCalibrator, LogOddsMap):
    """Isotonic regression of each class against the rest (Zadrozny & Elkan 2002).

    Isotonic regression on p_k, linear between its knots, constant outside; rows are normalised. Without `shrinkage` an
    exact 0 stays (log-probability -inf, an infinite NLL if that class is the target) unless `smoothing` is positive.

    Public code that differs: Mix-n-Match's IROvA adds 1e-9 p and leaves the rows unnormalised.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import IsotonicCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = IsotonicCalibration().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1020, 0.1522, 0.7458],
                [0.1193, 0.4998, 0.3809]])
    """

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        knots, values = fit_isotonic(score, hit, share)
        return knots, smooth_values(values, len(score), self.smoothing)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return interpolate_by_log_odds(score, knots, values)


class IsotonicTopLabel(SmoothedCalibrator, ConfidenceMap):
    """Isotonic regression of the top-label confidence (Zadrozny & Elkan 2002).

    Confidences are ranked by their log-odds, so that large logits keep their order. Without
    `shrinkage` an exact 0 or 1 stays, unless `smoothing` is positive: with confidence 1 the other classes have
    probability 0.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import IsotonicTopLabel
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = IsotonicTopLabel().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0852, 0.0767, 0.8381],
                [0.0065, 0.4613, 0.5322]])
    """

    def _fit_confidence(
        self, log_odds: Tensor, correct: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        knots, values = fit_isotonic(log_odds, correct, share)
        return knots, smooth_values(values, len(log_odds), self.smoothing)

    def _evaluate(self, log_odds: Tensor) -> Tensor:
        return interpolate_by_log_odds(log_odds, self.knots, self.values)


class CentredIsotonicCalibration(SmoothedCalibrator, LogOddsMap):
    """Centred isotonic regression of each class against the rest (Oron & Flournoy 2017).

    Each level stretch of the isotonic regression becomes one point, at the mean of its probabilities, and the map is
    linear in p between these points: it increases strictly, and two scores of a stretch get two probabilities.
    Stretches of 0 and of 1 stay; rows are normalised. Probabilities are ranked by their log-odds. With `smoothing` no 0
    is left and the NLL is finite.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import CentredIsotonicCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = CentredIsotonicCalibration().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1060, 0.1400, 0.7540],
                [0.0371, 0.5351, 0.4277]])
    """

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        knots, values = centre_blocks(*fit_isotonic(score, hit, share), score, share)
        return knots, smooth_values(values, len(score), self.smoothing)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return interpolate_by_log_odds(score, knots, values)


class IRM(Calibrator):
    """Multi-class isotonic regression, one map for all N x K pairs (Zhang et al. 2020).

    The map is made strictly increasing by `slope` times p, which keeps the argmax, and the rows are
    normalised.

    Public code that differs: Mix-n-Match leaves the rows unnormalised (`unnormalised` gives its values).

    Args:
        slope: What is added to the isotonic map, times p; positive. 1e-9 in the authors' code.
        shrinkage: As for `Calibrator`.

    Attributes:
        knots: Log-odds of probabilities, (M,).
        values: Calibrated values at the knots, (M,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import IRM
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = IRM().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0952, 0.0952, 0.8096],
                [0.0903, 0.4971, 0.4126]])
    """

    preserves_accuracy = True
    masked_depth = None
    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    def __init__(self, *, slope: float = 1e-9, shrinkage: bool = True) -> None:
        super().__init__(shrinkage=shrinkage)
        self.slope = positive("slope", slope)

    def unnormalised(self, logits: Tensor) -> Tensor:
        """The map's values before they are normalised: logits (N, K) -> (N, K), float64."""
        values = interpolate_by_log_odds(class_log_odds(logits), self.knots, self.values)
        return values + self.slope * logits.double().softmax(dim=1)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        hit = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, target.unsqueeze(1), True)
        share = weight.unsqueeze(1) * logits.isneginf().logical_not()  # a masked pair is none
        knots, values = fit_isotonic(
            class_log_odds(logits).flatten(), hit.flatten(), share.flatten()
        )
        self.knots, self.values = knots.to(logits.device), values.to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return normalise_log(self.unnormalised(logits))


Point = tuple[float, float]


class VennAbers(LogOddsMap):
    """Inductive Venn-Abers prediction of each class against the rest (Vovk et al. 2015).

    A new score s has two probabilities: p1 is the isotonic regression at s of the calibration scores and s as a hit,
    p0 with s as a miss. What is given is p1 / (1 - p0 + p1), the minimax of the log loss (section 4), which is never 0
    or 1; rows are normalised.

    Public code that differs: the package `venn-abers` pairs the classes by default (`one_vs_one`).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import VennAbers
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = VennAbers().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1139, 0.1579, 0.7282],
                [0.1195, 0.4797, 0.4008]])
    """

    takes_weights = False

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        knots, of_score = score.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        count = of_score.bincount().double().numpy()
        hits = of_score.bincount(hit.double(), len(knots)).numpy()
        p1 = add_hit(count, hits)
        p0 = 1 - add_hit(count[::-1], (count - hits)[::-1])[::-1]
        # Below, at and above each knot: p1 is that of the knots from s on, p0 that of the knots up to s.
        low, high = np.repeat(p0, 2)[1:], np.repeat(p1, 2)[:-1]
        return knots, torch.from_numpy(high / (1 - low + high))

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots) + torch.bucketize(score, knots, right=True)]


def add_hit(count: Floats, hits: Floats) -> Floats:
    """Isotonic regression at a score with one more hit there, for each score and for one above all, (M + 1,) in (0, 1].

    The regression's value is the slope of the greatest convex minorant of the cumulative sums; the corners of those of
    all M + 1 regressions are found in one sweep (Vovk et al. 2015, algorithms 1 and 2). From the number of examples at
    each of M increasing scores, and the hits among them.
    """
    sums = [(0.0, 0.0), *zip(count.cumsum().tolist(), hits.cumsum().tolist(), strict=True)]
    start = (-1.0, -1.0)
    corners = [start]
    for point in sums:
        while len(corners) > 1 and _cross(corners[-2], corners[-1], point) <= 0:
            corners.pop()
        corners.append(point)
    corners.reverse()
    values = []
    for before, point in pairwise(sums):
        values.append((corners[-2][1] - corners[-1][1]) / (corners[-2][0] - corners[-1][0]))
        # The hit now comes one score later: what lies before it moves by one hit to the left.
        start = (start[0] + point[0] - before[0], start[1] + point[1] - before[1])
        if _cross(corners[-1], corners[-2], start) < 0:
            corners.pop()
            while len(corners) > 1 and _cross(start, corners[-1], corners[-2]) <= 0:
                corners.pop()
            corners.append(start)
    return np.array([*values, 1.0])


def _cross(a: Point, b: Point, c: Point) -> float:
    """Positive where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

"""One-vs-rest calibration: each class's probability has a map, then rows are normalised (Zadrozny & Elkan 2002)."""

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.calibrators.base import Calibrator


def padded(rows: list[Tensor], fill: float | None = None, minimum: int = 0) -> Tensor:
    """Stack 1-D tensors of different lengths, filled up with `fill` or with their last entry."""
    width = max(minimum, *(len(row) for row in rows))
    fills = [row[-1].item() if fill is None else fill for row in rows]
    return torch.stack(
        [F.pad(row, (0, width - len(row)), value=end) for row, end in zip(rows, fills, strict=True)]
    )


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear function through (knots, values), constant outside, at `x` of any shape.

    Knots (M,), M >= 2, increase strictly; trailing inf entries are padding, on which the last value is repeated.
    """
    right = torch.bucketize(x, knots, right=True).clamp(1, len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    share = ((x - low) / (high - low)).clamp(0, 1)
    return torch.lerp(values[right - 1], values[right], share)


def log_normalised(values: Tensor) -> Tensor:
    """Logarithm of non-negative (N, K) values over their row sums; a zero row becomes uniform."""
    empty = values.sum(dim=1, keepdim=True) == 0
    values = torch.where(empty, 1.0, values)
    return (values / values.sum(dim=1, keepdim=True)).log()


def smoothed(frequency: Tensor, n: int, smoothing: float) -> Tensor:
    """Frequencies of N examples with `smoothing` more hits and as many more misses: within (0, 1) if it is positive.

    The least is smoothing / (N + 2 smoothing); the order stays.
    """
    return (n * frequency + smoothing) / (n + 2 * smoothing)


def log_complement(log_probs: Tensor) -> Tensor:
    """Logarithm of 1 - p, (N, K) -> (N, K), exact to rounding for p near 0 and near 1 alike."""
    probs = log_probs.exp()
    # Only the largest p can exceed 1/2; its complement is the sum of the others, not 1 - p.
    others = probs.scatter(1, probs.argmax(dim=1, keepdim=True), 0.0).sum(dim=1, keepdim=True)
    return torch.where(probs > 0.5, others.log(), torch.log1p(-probs.clamp(max=0.5)))


def with_top(log_probs: Tensor, confidence: Tensor) -> Tensor:
    """Give each row's largest probability a new value (N,) and scale the others to what is left: (N, K) -> (N, K).

    The argmax changes where another class now has more.
    """
    top = log_probs.argmax(dim=1, keepdim=True)
    others = log_probs.scatter(1, top, -torch.inf).log_softmax(dim=1)
    rest = others + torch.log1p(-confidence).unsqueeze(1)
    return rest.scatter(1, top, confidence.log().unsqueeze(1))


class OneVsRest(Calibrator):
    """A calibrator of K binary problems, class k against the rest.

    Subclasses fit the map of one class and evaluate it; a map is a row of knots and a row of
    values. Rows are divided by their sum (an all-zero row becomes uniform), so the argmax can
    change.

    Attributes:
        knots: Knots of each class, (K, M), filled up with inf.
        values: Values of each class, (K, M'), the last one repeated.
    """

    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    @abstractmethod
    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Knots and values of the map from scores (N,) in [0, 1], hits (N,) bool and how much each counts (N,)."""

    @abstractmethod
    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        """The map at scores (N,) -> (N,)."""

    def classwise(self, logits: Tensor) -> Tensor:
        """The K maps' values before they are normalised: logits (N, K) -> (N, K), float64."""
        scores = logits.double().softmax(dim=1).T.contiguous()
        maps = zip(scores, self.knots, self.values, strict=True)
        return torch.stack([self._evaluate(*one) for one in maps], dim=1)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        scores = logits.softmax(dim=1).T.contiguous().cpu()
        target, share = target.cpu(), weight.cpu()
        maps = [self._fit_class(score, target == k, share) for k, score in enumerate(scores)]
        self.knots = padded([knots for knots, _ in maps], torch.inf, minimum=2).to(logits.device)
        self.values = padded([values for _, values in maps], minimum=2).to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_normalised(self.classwise(logits))

"""One-vs-rest calibration: each class's probability has a map, then rows are normalised (Zadrozny & Elkan 2002).

Maps by bins are here too: histogram binning, and Bayesian binning into quantiles.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.masked_logits import replace_masked_logits
from calibench.messages.checks import non_negative, option_named, positive_integer
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import equal_mass_ends, equal_width_edges


def pad_values(rows: list[Tensor], fill: float | None = None, minimum: int = 0) -> Tensor:
    """Stack 1-D tensors of different lengths, filled up with `fill` or with their last entry."""
    width = max(minimum, *(len(row) for row in rows))
    fills = [row[-1].item() if fill is None else fill for row in rows]
    return torch.stack(
        [F.pad(row, (0, width - len(row)), value=end) for row, end in zip(rows, fills, strict=True)]
    )


def interpolate_by_log_odds(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Function that is piecewise linear in p, of log-odds `x` of any shape, through (knots, values), constant outside.

    Knots (M,) of log-odds, M >= 2, increase strictly; trailing inf entries are padding, on which the last value is
    repeated. Between knots that are the same p in float64 it is linear in these.
    """
    right = torch.bucketize(x, knots, right=True).clamp(1, len(knots) - 1)
    share = share_of_way(x, knots[right - 1], knots[right]).clamp(0, 1)
    return torch.lerp(values[right - 1], values[right], share)


def share_of_way(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Share of the way from one probability to another at which x lies, all by their log-odds."""
    width = _difference_of_sigmoids(low, high)
    by_probability = _difference_of_sigmoids(low, x) / width
    return torch.where(width > 0, by_probability, (x - low) / (high - low))


def _difference_of_sigmoids(low: Tensor, high: Tensor) -> Tensor:
    """sigmoid(high) - sigmoid(low), from the tail in which both are small."""
    upper = low > 0
    return torch.where(upper, (-low).sigmoid() - (-high).sigmoid(), high.sigmoid() - low.sigmoid())


def normalise_log(values: Tensor) -> Tensor:
    """Logarithm of non-negative (N, K) values over their row sums; a zero row becomes uniform."""
    empty = values.sum(dim=1, keepdim=True) == 0
    values = torch.where(empty, 1.0, values)
    return (values / values.sum(dim=1, keepdim=True)).log()


def smooth_values(frequency: Tensor, n: int, smoothing: float) -> Tensor:
    """Frequencies of N examples with `smoothing` more hits and as many more misses: within (0, 1) if it is positive.

    The least is smoothing / (N + 2 smoothing); the order stays.
    """
    return (n * frequency + smoothing) / (n + 2 * smoothing)


def log_complement(log_probs: Tensor) -> Tensor:
    """Logarithm of 1 - p, (N, K) -> (N, K), exact to rounding for p near 0 and near 1 alike."""
    probs = log_probs.exp()
    # Only the largest p can exceed 1/2; its complement is the sum of the others, not 1 - p.
    top = probs.argmax(dim=1, keepdim=True)
    others = log_probs.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.where(probs > 0.5, others, torch.log1p(-probs.clamp(max=0.5)))


def class_log_odds(logits: Tensor) -> Tensor:
    """Log-odds of each class against the rest, z_k - ln sum_j!=k exp z_j, (N, K) -> (N, K) float64.

    They tell apart what a probability rounds to 0 or 1.
    """
    log_probs = logits.double().log_softmax(dim=1)
    return log_probs - log_complement(log_probs)


def top_log_odds(log_probs: Tensor) -> Tensor:
    """Log-odds of the largest of log-probabilities against the rest, (N, K) -> (N,)."""
    top, place = log_probs.max(dim=1, keepdim=True)
    others = log_probs.scatter(1, place, -torch.inf).logsumexp(dim=1)
    return top.squeeze(1) - others


def replace_top(log_probs: Tensor, confidence: Tensor) -> Tensor:
    """Give each row's largest probability a new value (N,) and scale the others to what is left: (N, K) -> (N, K).

    The argmax changes where another class now has more.
    """
    top = log_probs.argmax(dim=1, keepdim=True)
    others = log_probs.scatter(1, top, -torch.inf).log_softmax(dim=1)
    scaled_others = others + torch.log1p(-confidence).unsqueeze(1)
    return scaled_others.scatter(1, top, confidence.log().unsqueeze(1))


class OneVsRest(Calibrator):
    """A calibrator of K binary problems, class k against the rest.

    Subclasses fit the map of one class and evaluate it; a map is a row of knots and a row of
    values. Rows are divided by their sum (an all-zero row becomes uniform), so the argmax can
    change.

    Attributes:
        knots: Knots of each class, (K, M), filled up with inf: of probabilities, or of log-odds.
        values: Values of each class, (K, M'), the last one repeated.
    """

    masked_depth = None
    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    @property
    def has_class_parameters(self) -> bool:
        """Whether classes have parameters of their own: each has its map."""
        return True

    def _class_scores(self, logits: Tensor) -> Tensor:
        """Scores of which a class's map is a function, (N, K) -> (N, K) float64: its probabilities."""
        return logits.double().softmax(dim=1)

    @abstractmethod
    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Knots and values of the map from scores (N,), hits (N,) bool and how much each counts (N,)."""

    @abstractmethod
    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        """The map at scores (N,) -> (N,)."""

    def classwise(self, logits: Tensor) -> Tensor:
        """The K maps' values before they are normalised: logits (N, K) -> (N, K), float64."""
        scores = self._class_scores(logits).T.contiguous()
        maps = zip(scores, self.knots, self.values, strict=True)
        return torch.stack([self._evaluate(*class_map) for class_map in maps], dim=1)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        masked = logits.isneginf()
        scores = self._class_scores(replace_masked_logits(logits)).T.contiguous().cpu()
        target, share, rows_of_classes = target.cpu(), weight.cpu(), masked.logical_not().T.cpu()
        maps = []
        for k, (score, rows) in enumerate(zip(scores, rows_of_classes, strict=True)):
            if not bool(rows.any()):  # masked in every example: any map will do
                rows = torch.ones_like(rows)
            maps.append(self._fit_class(score[rows], target[rows] == k, share[rows]))
        knots, values = zip(*maps, strict=True)
        self.knots = pad_values([*knots], torch.inf, minimum=2).to(logits.device)
        self.values = pad_values([*values], minimum=2).to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return normalise_log(self.classwise(logits))


class LogOddsMap(OneVsRest, ABC):
    """A calibrator of K binary problems whose maps are functions of log-odds: knots are these."""

    def _class_scores(self, logits: Tensor) -> Tensor:
        return class_log_odds(logits)


def midway_log_odds(low: Tensor, high: Tensor) -> Tensor:
    """Log-odds of the mean of two probabilities, by their log-odds; where both are 0, or 1, the mean of these."""
    middle = (low.sigmoid() + high.sigmoid()).log() - ((-low).sigmoid() + (-high).sigmoid()).log()
    middle = torch.where(middle.isfinite(), middle, (low + high) / 2)
    return torch.minimum(torch.maximum(middle, low), high)


def midway_mass_edges(log_odds: Tensor, n_bins: int) -> Tensor:
    """Inner edges midway between the probabilities of equal parts of sorted log-odds; a bin within a tie is empty."""
    ordered, ends = log_odds.sort().values, equal_mass_ends(len(log_odds), n_bins)
    inner = ends[ends < len(log_odds)]
    return midway_log_odds(ordered[inner - 1], ordered[inner])


def _single_probabilities(logits: Tensor) -> Tensor:
    """Probabilities in the precision in which they are compared with edges, see `equal_width_bin`."""
    return logits.double().softmax(dim=1).float().double()


class BinMode(NamedTuple):
    """Scores that are binned, from logits (N, K), and the inner edges of scores (N,), given a number of bins."""

    scores: Callable[[Tensor], Tensor]
    edges: Callable[[Tensor, int], Tensor]


MODES: dict[str, BinMode] = {
    "equal_width": BinMode(
        _single_probabilities, lambda score, n_bins: equal_width_edges(n_bins)[1:-1]
    ),
    "equal_mass": BinMode(class_log_odds, midway_mass_edges),
}


class HistogramBinning(OneVsRest):
    """Histogram binning of each class against the rest (Zadrozny & Elkan 2001).

    The calibrated p_k is the frequency of class k in the bin of p_k; rows are normalised. A bin
    that saw no example gives 0, as in the code of Guo et al. (2017) (others use its midpoint).
    Without `shrinkage` exact zeros stay (log-probability -inf) unless `smoothing` is positive. Bins of equal mass hold
    equally many examples, whatever these weigh. They are of log-odds, so that large logits keep their order; bins of
    equal width are of probabilities, and what these round to 0 or 1 is alike.

    Args:
        n_bins: Number of right-closed bins, (lower, upper].
        mode: `"equal_width"` bins of [0, 1], or `"equal_mass"` bins of each class's scores.
        smoothing: Added to a bin's hits and to its misses (Laplace); 0 is the method as published.
        shrinkage: As for `Calibrator`.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import HistogramBinning
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = HistogramBinning(n_bins=10).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0658, 0.1011, 0.8331],
                [0.0636, 0.4928, 0.4436]])
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        mode: Literal["equal_width", "equal_mass"] = "equal_width",
        smoothing: float = 0.0,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self.smoothing = non_negative("smoothing", smoothing)
        option_named("mode", mode, MODES)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.mode = mode

    def _class_scores(self, logits: Tensor) -> Tensor:
        return MODES[self.mode].scores(logits)

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        edges = MODES[self.mode].edges(score, self.n_bins)
        bins = torch.bucketize(score, edges)
        count = bins.bincount(share, minlength=len(edges) + 1)
        hits = bins[hit].bincount(share[hit], minlength=len(edges) + 1)
        total = count + 2 * self.smoothing
        frequency = (hits + self.smoothing) / total
        return edges, torch.where(total > 0, frequency, 0.0)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots)]


# The sorted models are cut where the relative score falls by less than this share of its variance.
ELBOW = 0.001
# Bounds of the prior mean of a bin.
LOWEST_PRIOR = 0.005


class BBQ(LogOddsMap):
    """Bayesian binning into quantiles, class against rest (Naeini et al. 2015).

    For each number of bins from max(1, floor(N^(1/3) / 10)) to min(ceil(N / 5), ceil(10 N^(1/3)))
    the scores are cut into equal-mass bins (equal scores stay together). A binning's weight is its
    BDeu marginal likelihood with an equivalent sample size of twice its bins and the bins'
    midpoints as prior means; binnings behind the elbow of the sorted weights are dropped, the
    others' bin estimates averaged. The average is one step function per class; rows are normalised. Scores are ranked
    by their log-odds, which tell large logits apart.

    Follows the authors' `build.m`, which also smooths a bin's estimate towards the mean score of
    its hits. netcal's BBQ differs: equal-width bins, BIC instead of BDeu, another elbow.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import BBQ
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = BBQ().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1166, 0.1396, 0.7438],
                [0.0513, 0.5913, 0.3574]])
    """

    takes_weights = False

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        order = score.argsort(stable=True)
        ordered, hits = score[order], hit[order].double().numpy()
        scores = ordered.numpy()
        smallest = max(1, int(len(scores) ** (1 / 3) / 10))
        largest = min(math.ceil(len(scores) / 5), math.ceil(10 * len(scores) ** (1 / 3)))
        probs = ordered.sigmoid().numpy()
        running = np.cumsum([np.ones_like(hits), hits, hits * probs], axis=1)
        sums = np.pad(running, ((0, 0), (1, 0)))
        numbers = range(smallest, max(largest, smallest) + 1)
        binnings = [_binning(scores, sums, _ends(scores, n)) for n in numbers]
        cuts, values = _average(_before_elbow(binnings))
        return torch.from_numpy(cuts), torch.from_numpy(values)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots, right=True)]


class _Binning(NamedTuple):
    """Inner cuts (B - 1,) of log-odds, estimates (B,) and log marginal likelihood of one binning."""

    cuts: Floats
    values: Floats
    evidence: float


def _ends(scores: Floats, n_bins: int) -> Integers:
    """Ends of equal-mass bins of sorted scores, bins of one score merged; the last end is N."""
    n, size = len(scores), len(scores) // n_bins
    ends = np.append(np.arange(1, n_bins) * size, n)
    starts = np.append(0, ends[:-1])
    # A bin is merged into the one before where all of both is one score.
    same = scores[starts[:-1]] == scores[ends[1:] - 1]
    merged: Integers = ends[~np.append(same, False)]
    return merged


def _binning(scores: Floats, sums: Floats, ends: Integers) -> _Binning:
    """From sorted log-odds, and running sums over them, (3, N + 1): their number, hits and probabilities of hits."""
    from scipy.special import gammaln  # scipy: half a second, which only a fit needs

    of_bins = torch.from_numpy(scores[ends[:-1] - 1]), torch.from_numpy(scores[ends[:-1]])
    cuts = midway_log_odds(*of_bins)
    edges = np.concatenate([[0.0], cuts.sigmoid().numpy(), [1.0]])
    middle = (edges[1:] + edges[:-1]) / 2
    count, hits, hit_scores = np.diff(sums[:, np.append(0, ends)])
    values = (hits + (hit_scores + middle) / (hits + 1)) / (count + 1)
    prior = 2 * middle.clip(LOWEST_PRIOR, 1 - LOWEST_PRIOR)
    terms = (
        gammaln(hits + prior) - gammaln(prior)
        + gammaln(count - hits + 2 - prior) - gammaln(2 - prior)
        + gammaln(2) - gammaln(count + 2)
    )  # fmt: skip
    return _Binning(cuts.numpy(), values, float(terms.sum()))


def _before_elbow(binnings: list[_Binning]) -> list[tuple[float, _Binning]]:
    """Weights relative to the best binning, and the binnings before the elbow, best first."""
    evidence = np.array([binning.evidence for binning in binnings])
    weights = np.exp(evidence - evidence.max())
    order = np.argsort(-weights, kind="stable")
    drops, variance = -np.diff(weights[order]), weights.var()
    if variance == 0:
        return [(1.0, binning) for binning in binnings]
    first = int(np.argmax(drops > 0))
    flat = np.flatnonzero(drops[first:] <= ELBOW * variance)
    last = first + int(flat[0]) if len(flat) else len(drops)
    return [(float(weights[i]), binnings[i]) for i in order[: max(last, 1)]]


def _average(weighted: list[tuple[float, _Binning]]) -> tuple[Floats, Floats]:
    """Cuts and values of the weighted mean of step functions."""
    cuts = np.unique(np.concatenate([binning.cuts for _, binning in weighted]))
    inside = np.append(-np.inf, cuts)
    total = sum(weight for weight, _ in weighted)
    values = np.zeros(len(cuts) + 1)
    for weight, binning in weighted:
        step = np.searchsorted(binning.cuts, inside, side="right")
        values += weight / total * binning.values[step]
    return cuts, values

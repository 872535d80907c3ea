"""Temperatures that depend on the input: of each confidence bin, by entropy, from a small network."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibench.calibrators.base import Calibrator
from calibench.calibrators.likelihood import by_autograd, lbfgs_minimum
from calibench.calibrators.temperature import (
    BOUNDS,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    NUMBERS_IN_BLOCK,
    TopConfidence,
    below_top,
    calibration_error,
    is_bound,
    is_correct,
    iterate_blocks,
    nll_temperature,
    prior_weight,
    raw_confidence,
    reduce_rows,
)
from calibench.messages.checks import integer_from, option_named, positive, positive_integer
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.interpolation import ChebyshevNodes

# The gap from which a step has its full size, and the smallest share of it.
FULL_GAP, SMALLEST_SHARE = 0.1, 0.1

_AT_ONCE = 1 << 17  # confidences that are counted at a time, so that they stay in the cache

_TOGETHER = NUMBERS_IN_BLOCK // 8  # logits of sets that are fitted together: a block of float64

_ROUGH_NODES, _ROUGH_STEPS = 12, 8  # of a rough search, and the steps that it takes at once
_MARGIN = 1.2  # factor by which temperatures may be beyond those of the rough search
_FEWER = 2  # times fewer nodes than rounds, or these are computed
_DIGITS = 30.0  # -ln of the error of nodes
_SMALLEST_REACH = 1e-3
_NEGLIGIBLE = 1e-10  # of confidences
_MOST_INTERPOLATED = 1 << 19  # examples whose confidences at all nodes are kept

Rounds = tuple[Floats, Floats, Floats]
"""Temperatures of some rounds (R, bins), and the confidences and these minus the hits, (R, N) each."""

Rule = Callable[[Floats, Floats, float], Floats]


def _limit(values: Floats, smallest: float, largest: float) -> Floats:
    """`numpy.clip` of a few values, a fifth of its time."""
    limited: Floats = np.minimum(np.maximum(values, smallest), largest)
    return limited


def _share(gap: Floats) -> Floats:
    return np.sign(gap) * _limit(np.abs(gap) / FULL_GAP, SMALLEST_SHARE, 1)


# (temperatures, gaps, step) -> temperatures
RULES: dict[str, Rule] = {
    "linear_clamped": lambda t, gap, step: t + step * _limit(gap / FULL_GAP, -1, 1),
    "clamped": lambda t, gap, step: t + step * _share(gap),
    "clamped_multiplicative": lambda t, gap, step: t * np.exp(step * _share(gap)),
    "sign": lambda t, gap, step: t + step * np.sign(gap),
    "linear": lambda t, gap, step: t + step * gap,
    "multiplicative": lambda t, gap, step: t * np.exp(step * gap),
}

CONTINUOUS = {"linear_clamped", "linear", "multiplicative"}
"""Rules that move temperatures by nearly the same where gaps are nearly the same."""


class AdaptiveTemperatureScaling(Calibrator):
    """Adaptive temperature scaling, one T per confidence bin (Zhan et al. 2026, section 4.4).

    The validation set's confidences at T = 1 are cut into equal-mass bins. In each round every
    bin's temperature moves up if its mean confidence exceeds its accuracy and down otherwise; the
    temperatures of the round with the smallest ECE are kept, the start included. A new example
    belongs to the bin of its confidence at T = 1. The argmax stays; the order of confidences across
    bins may not, so selective and OOD scores can change.

    The text leaves much open (its Algorithm 1 is not in it); each such choice is an argument, the
    defaults are the reading below.

    Args:
        n_bins: Equal-mass bins. The appendix names 10, but the main tables equal its B = 15 row in
            every column (CIFAR-10, ResNet-50, Table 10 against Tables 2, 7 and 8): the default is
            15.
        step: Step size; 0.05 in the text.
        rounds: Rounds; 200 in the text.
        initial_temperature: Start of every bin; its value is lost from the text. See `rule`.
        min_temperature: Lower bound of T; lost from the text.
        max_temperature: Upper bound of T; lost from the text.
        ece_bins: Bins of the ECE that picks the round; the paper's metrics use 20.
        rule: How the gap g = confidence - accuracy moves T; all but one read "scaled by the magnitude of
            the calibration gap and clamped to a small range". `"linear_clamped"`: T + step clip(g / 0.1,
            -1, 1). `"clamped"`: T + step sign(g) clip(|g| / 0.1, 0.1, 1). `"clamped_multiplicative"`: T
            exp(the same). `"sign"`: T + step sign(g). `"linear"`: T + step g. `"multiplicative"`: T
            exp(step g). On halves of 14 real sets `"linear_clamped"` from 1.5 has an NLL of .355 and an
            ECE of .97 %, `"clamped"` from 1 .359 (higher in 11 of 14) and 1.02 %: by `"clamped"` a bin
            whose validation examples are all right sinks as long as rounds last. `"linear"` is still on
            its way at round 200 from 1.
        shrinkage: As for `Calibrator`: the mixture, and the round is kept that has the smallest sum of ECE and the
            prior, the mean over examples of (ln T)^2 / (2 0.5^2 n).

    Former default: `rule="clamped", initial_temperature=1.0`. Results that were recorded with it keep
    those arguments, and tables name them.

    Degenerate sets: bins that hold no example (confidences that are all equal, saturated logits)
    keep `initial_temperature`; if no round improves the ECE, all do.

    Attributes:
        edges: Upper confidence edges of all bins but the last, (n_bins - 1,).
        temperatures: T of each bin, (n_bins,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import AdaptiveTemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = AdaptiveTemperatureScaling(n_bins=10).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0856, 0.0799, 0.8345],
                [0.0280, 0.5752, 0.3968]])
    """

    preserves_accuracy = widens_blocks = True
    fitted_buffers = reported = ("edges", "temperatures")
    edges: Tensor
    temperatures: Tensor

    def __init__(
        self,
        *,
        n_bins: int = 15,
        step: float = 0.05,
        rounds: int = 200,
        initial_temperature: float = 1.5,
        min_temperature: float = 0.1,
        max_temperature: float = 10.0,
        ece_bins: int = 20,
        rule: Literal[
            "linear_clamped",
            "clamped",
            "clamped_multiplicative",
            "sign",
            "linear",
            "multiplicative",
        ] = "linear_clamped",
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        option_named("rule", rule, RULES)
        if not 0 < min_temperature <= initial_temperature <= max_temperature:
            raise ValueError(
                "`min_temperature`, `initial_temperature` and `max_temperature` must be positive and in this order, "
                f"got {min_temperature!r}, {initial_temperature!r} and {max_temperature!r}."
            )
        self.n_bins = positive_integer("n_bins", n_bins)
        self.step = positive("step", step)
        self.rounds = integer_from("rounds", rounds, 0)
        self.initial_temperature = initial_temperature
        self.min_temperature = min_temperature
        self.max_temperature = max_temperature
        self.ece_bins = positive_integer("ece_bins", ece_bins)
        self.rule = rule

    @property
    def at_bound(self) -> bool:
        """Whether the temperature of a bin is the smallest or the largest that is allowed."""
        bounds = (self.min_temperature, self.max_temperature)
        return self.fitted and is_bound(self.temperatures, bounds)

    @torch.no_grad()
    def fit_each(self, sets: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Self]:
        """See `Calibrator.fit_each`: sets that fit into the cache together have their rounds together."""
        for batch in _batch_small_sets(sets):
            models = [copy.deepcopy(self) for _ in batch]
            checked = [model._begin_fit(*part) for model, part in zip(models, batch, strict=True)]
            self._fit_together(models, checked)
            yield from (
                model._end_fit(logits) for model, (logits, _) in zip(models, checked, strict=True)
            )

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self._fit_together([self], [(logits, target)])

    def _fit_together(self, models: Sequence[Self], sets: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Fill the buffers of models, each from its own set: to the rounds all are one set, with the bins of each."""
        bins, hits = [], []
        for number, (model, (logits, target)) in enumerate(zip(models, sets, strict=True)):
            start = raw_confidence(logits)
            levels = torch.arange(1, self.n_bins, dtype=start.dtype, device=start.device)
            model.edges = start.quantile(levels / self.n_bins)
            places = torch.bucketize(start, model.edges).cpu().numpy()
            bins.append(places + number * self.n_bins)
            hits.append(is_correct(logits, target).double().cpu().numpy())
        all_logits = torch.cat([logits for logits, _ in sets]) if len(sets) > 1 else sets[0][0]
        for model, temperatures in zip(models, self._search(all_logits, hits, bins), strict=True):
            model.temperatures = model.edges.new_tensor(temperatures)

    def _search(
        self, logits: Tensor, hits: Sequence[Floats], bins: Sequence[Integers]
    ) -> list[Floats]:
        """The temperatures of the best round of each set, the first of several; sets have bins of their own."""
        best = [np.full(self.n_bins, self.initial_temperature, float) for _ in hits]
        smallest = [np.inf for _ in hits]
        all_bins, all_hits = np.concatenate(bins), np.concatenate(hits)
        order = np.argsort(all_bins, kind="stable")  # sets stay pieces
        binned = _BinnedHits(order, all_hits[order], all_bins[order], len(hits) * self.n_bins)
        ends = np.cumsum([len(of_set) for of_set in hits])
        for tried, confidence, residual in self._try_rounds(logits, binned):
            for number, (end, of_set) in enumerate(zip(ends, hits, strict=True)):
                rows = slice(end - len(of_set), end)
                own = slice(number * self.n_bins, (number + 1) * self.n_bins)
                share = binned.counts[own] / len(of_set)
                prior = prior_weight(len(of_set), self.shrinkage) * share
                errors = calibration_error(confidence[:, rows], residual[:, rows], self.ece_bins)
                errors += np.log(tried[:, own]) ** 2 @ prior / 2
                lowest = int(errors.argmin())
                if errors[lowest] < smallest[number]:
                    best[number], smallest[number] = tried[lowest, own], errors[lowest]
        return best

    def _try_rounds(self, logits: Tensor, binned: _BinnedHits) -> Iterator[Rounds]:
        """Some rounds at a time: from confidences at a few temperatures where these are enough, else one by one."""
        confidence_at = TopConfidence(logits)
        is_apt = self.rule in CONTINUOUS and len(binned.hits) <= _MOST_INTERPOLATED
        for interval in self._list_intervals(confidence_at, binned) if is_apt else ():
            nodes = _choose_nodes(interval, logits.shape[1])
            if _FEWER * len(nodes.at) > self.rounds:
                break
            curves = _Curves.from_nodes(confidence_at, binned, nodes)
            tried = self._follow_bins(curves, binned)
            if _is_within(tried, interval) and nodes.find_error(curves.confidence) < _NEGLIGIBLE:
                yield from _interpolate_rounds(curves, binned, tried, logits.shape[1])
                return
        yield from self._compute_rounds(confidence_at, binned)

    def _list_intervals(
        self, confidence_at: TopConfidence, binned: _BinnedHits
    ) -> Iterator[tuple[float, float]]:
        """Intervals of temperatures in which all rounds may lie: that of a rough search, and all that are allowed."""
        widest = self.min_temperature, self.max_temperature
        if self.rounds >= _FEWER * _ROUGH_NODES:
            centre, reach = _middle(widest)
            nodes = ChebyshevNodes.from_interval(centre, reach, _ROUGH_NODES)
            rough = _Curves.from_nodes(confidence_at, binned, nodes)
            tried = self._follow_bins(rough, binned, _ROUGH_STEPS)
            yield max(widest[0], tried.min() / _MARGIN), min(widest[1], tried.max() * _MARGIN)
        yield widest

    def _follow_bins(self, curves: _Curves, binned: _BinnedHits, at_once: int = 1) -> Floats:
        """The temperatures of all rounds, (R, bins), some steps at once; wrong where they leave the curves."""
        means, accuracy = binned.means(curves.confidence).T, binned.means(binned.hits[None])[0]
        move, tried = RULES[self.rule], np.empty((self.rounds // at_once + 1, len(accuracy)))
        tried[0] = self.initial_temperature
        for row in range(len(tried) - 1):
            gap = curves.nodes.values(np.log(tried[row]), means) - accuracy
            moved = move(tried[row], gap, self.step * at_once)
            tried[row + 1] = _limit(moved, self.min_temperature, self.max_temperature)
        return tried

    def _compute_rounds(
        self, confidence_at: TopConfidence, binned: _BinnedHits
    ) -> Iterator[Rounds]:
        """Rounds that are computed one after the other.

        A round is a matter of a few short arrays, so that each call counts: errors are made of many rounds together.
        """
        n, move, size = len(binned.hits), RULES[self.rule], len(binned.counts)
        count = np.maximum(binned.counts, 1)
        places = np.empty_like(binned.bins)
        places[binned.order] = binned.bins
        temperatures = np.full(size, self.initial_temperature, float)
        at_once = max(1, _AT_ONCE // n)
        for start in range(0, self.rounds + 1, at_once):
            rounds = min(at_once, self.rounds + 1 - start)
            tried = np.empty((rounds, size))
            confidence, residual = np.empty((2, rounds, n))
            for row in range(rounds):
                tried[row] = temperatures
                inverse = (1 / temperatures).take(places)
                confidence[row] = confidence_at.of_rows(inverse)[binned.order]
                np.subtract(confidence[row], binned.hits, out=residual[row])
                gap = np.bincount(binned.bins, residual[row], size) / count
                moved = move(temperatures, gap, self.step)
                temperatures = _limit(moved, self.min_temperature, self.max_temperature)
            yield tried, confidence, residual

    def _log_prob(self, logits: Tensor) -> Tensor:
        bins = torch.bucketize(logits.softmax(dim=1).amax(dim=1), self.edges)
        temperature = self.temperatures[bins]
        return (logits / temperature.unsqueeze(1)).log_softmax(dim=1)


@dataclass(frozen=True)
class _BinnedHits:
    """Examples in the order of their bins.

    Attributes:
        order: The place of each among all, (N,).
        hits: Whether each is right, (N,).
        bins: Its bin, (N,).
        size: The number of bins.
    """

    order: Integers
    hits: Floats
    bins: Integers
    size: int

    @cached_property
    def counts(self) -> Integers:
        """The number of examples in each bin, (bins,)."""
        counts: Integers = np.bincount(self.bins, minlength=self.size)
        return counts

    @cached_property
    def slices(self) -> list[slice]:
        """The examples of each bin."""
        ends = self.counts.cumsum().tolist()
        return [slice(start, end) for start, end in pairwise([0, *ends])]

    def means(self, values: Floats) -> Floats:
        """Means over the examples of each bin, (V, N) -> (V, bins); 0 of none."""
        means, is_filled = np.zeros((len(values), self.size)), self.counts > 0
        starts = (self.counts.cumsum() - self.counts)[is_filled]
        means[:, is_filled] = np.add.reduceat(values, starts, axis=1) / self.counts[is_filled]
        return means


@dataclass(frozen=True)
class _Curves:
    """Confidences as functions of the temperature.

    Attributes:
        nodes: Nodes of ln T.
        confidence: The confidences there, (G, N).
    """

    nodes: ChebyshevNodes
    confidence: Floats

    @classmethod
    def from_nodes(
        cls, confidence_at: TopConfidence, binned: _BinnedHits, nodes: ChebyshevNodes
    ) -> _Curves:
        """Confidences at nodes."""
        rows = [confidence_at.of_all(math.exp(-at))[binned.order] for at in nodes.at]
        return cls(nodes, np.stack(rows))


def _middle(interval: tuple[float, float]) -> tuple[float, float]:
    """The middle of an interval of temperatures on the scale of ln T, and how far its ends are."""
    low, high = map(math.log, interval)
    return (low + high) / 2, max((high - low) / 2, _SMALLEST_REACH)


def _is_within(temperatures: Floats, interval: tuple[float, float]) -> bool:
    low, high = interval
    return bool(low <= temperatures.min() and temperatures.max() <= high)


def _interpolate_rounds(
    curves: _Curves, binned: _BinnedHits, tried: Floats, classes: int
) -> Iterator[Rounds]:
    """The confidences of some rounds at a time: of each bin a product of matrices, by nodes for its temperatures."""
    of_bins = []
    for number, rows in enumerate(binned.slices):
        interval = float(tried[:, number].min()), float(tried[:, number].max())
        nodes = _choose_nodes(interval, classes)
        confidence = curves.nodes.weights(nodes.at) @ curves.confidence[:, rows]
        of_bins.append((nodes.weights(np.log(tried[:, number])), confidence))
    at_once = max(1, _AT_ONCE // len(binned.hits))
    for start in range(0, len(tried), at_once):
        part = slice(start, start + at_once)
        confidence = np.empty((len(tried[part]), len(binned.hits)))
        for rows, (weights, at_nodes) in zip(binned.slices, of_bins, strict=True):
            np.matmul(weights[part], at_nodes, out=confidence[:, rows])
        yield tried[part], confidence, confidence - binned.hits


def _choose_nodes(interval: tuple[float, float], classes: int) -> ChebyshevNodes:
    """Nodes of ln T between which confidences of so many classes are known to 1e-13.

    A sum of exponentials of d / T is 0 where d / T is at least ln(K - 1) + i pi: no nearer to real values of ln T.
    """
    centre, reach = _middle(interval)
    free = math.atan2(math.pi, math.log(classes - 1)) / reach
    return ChebyshevNodes.from_interval(centre, reach, math.ceil(_DIGITS / math.asinh(free)))


def _batch_small_sets(
    sets: Iterable[tuple[Tensor, Tensor]],
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Sets of logits and targets, as many at a time as have few numbers together; a large one alone."""
    batch: list[tuple[Tensor, Tensor]] = []
    for part in sets:
        if batch and sum(logits.numel() for logits, _ in [*batch, part]) > _TOGETHER:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


ENTROPY_ITERATIONS = 200
NETWORK_ITERATIONS = 50
LOWEST_ENTROPY = 1e-12
# The authors' code clips the logits of parameterized temperature scaling here.
LARGEST_LOGIT = 100.0


class TemperatureOfExample(Calibrator):
    """A calibrator that gives each example a temperature of its own, within [0.01, 1e4].

    A fit ended at a bound if it left one of its examples there.
    """

    preserves_accuracy = True

    @abstractmethod
    def _temperatures(self, logits: Tensor) -> Tensor:
        """Temperatures (N, 1) of finite float64 logits (N, K)."""

    def _note_bound(self, logits: Tensor) -> None:
        temperatures = reduce_rows(lambda rows: self._temperatures(rows).squeeze(1), logits)
        self.ended_at_bound = is_bound(temperatures, BOUNDS)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return (logits / self._temperatures(logits)).log_softmax(dim=1)


class EntropyTemperatureScaling(TemperatureOfExample):
    """Entropy-based temperature scaling, T = softplus(w ln H + b) (Balanya et al. 2022).

    H is the entropy of softmax(z) over ln K. w and b minimise the NLL, from w = 0 and the
    temperature of `TemperatureScaling`. With `shrinkage` the logarithm of each example's T has the prior, all of them
    together the weight of one.

    Experimental: recalled from the paper, whose code was not to be had. Here H is at least 1e-12 and T stays in
    [0.01, 1e4].

    Attributes:
        slope: w, a scalar.
        intercept: b, a scalar.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import EntropyTemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = EntropyTemperatureScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1335, 0.1268, 0.7397],
                [0.0421, 0.5541, 0.4038]])
    """

    widens_blocks = True
    fitted_buffers = reported = ("slope", "intercept")
    slope: Tensor
    intercept: Tensor

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        entropy = reduce_rows(lambda rows: _log_entropy(rows).squeeze(1), logits).unsqueeze(1)
        prior = prior_weight(len(target), self.shrinkage)
        temperature = nll_temperature(logits, target, weight, prior)
        start = weight.new_tensor([0.0, temperature + math.log(-math.expm1(-temperature))])

        def objective(parameters: Tensor) -> Tensor:
            slope, intercept = parameters
            of_row = _temperature(entropy, slope, intercept)
            nll = _nll_of_rows(logits, target, of_row)
            return (nll * weight).mean() + _penalty(of_row, weight, prior)

        fitted = lbfgs_minimum(by_autograd(objective), start, max_iter=ENTROPY_ITERATIONS)
        self.slope, self.intercept = fitted.clone().unbind()
        self._note_bound(logits)

    def _temperatures(self, logits: Tensor) -> Tensor:
        return _temperature(_log_entropy(logits), self.slope, self.intercept)


def _nll_of_rows(logits: Tensor, target: Tensor, temperature: Tensor) -> Tensor:
    """NLL of each row (N,), differentiable by its temperature (N, 1) alone: no (N, K) is kept for that."""
    inverse = 1 / temperature.squeeze(1)
    values, slopes = torch.empty_like(inverse), torch.empty_like(inverse)
    parts = (logits, target, inverse.detach(), values, slopes)
    for rows, labels, of_row, value, slope in iterate_blocks(*parts):
        shifted = below_top(rows)
        of_target = shifted.gather(1, labels.unsqueeze(1)).squeeze(1)
        terms = (shifted * of_row.unsqueeze(1)).exp_()
        total = terms.sum(dim=1)
        value.copy_(total.log() - of_target * of_row)
        slope.copy_(terms.mul_(shifted).sum(dim=1) / total - of_target)
    return values + slopes * (inverse - inverse.detach())


def _penalty(temperature: Tensor, weight: Tensor, prior: float) -> Tensor:
    """The prior of temperatures (N, 1), averaged over examples that count by weights (N,)."""
    return prior * (temperature.squeeze(1).log().square() * weight).mean() / 2


def _log_entropy(logits: Tensor) -> Tensor:
    """Logarithm of the normalised entropy of each row, (N, K) -> (N, 1)."""
    entropy = torch.special.entr(logits.softmax(dim=1)).sum(dim=1, keepdim=True)
    share: Tensor = entropy / math.log(logits.shape[1])
    return share.clamp(min=LOWEST_ENTROPY).log()


def _temperature(log_entropy: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
    return softplus(slope * log_entropy + intercept).clamp(MIN_TEMPERATURE, MAX_TEMPERATURE)


class ParameterizedTemperatureScaling(TemperatureOfExample):
    """Parameterized temperature scaling, T from a small network (Tomani et al. 2022).

    An MLP maps the `top_k` largest logits, sorted, to the temperature of that example; it minimises
    the mean squared error of the probabilities, as the authors' code does.

    Experimental: the architecture's sizes are recalled. The authors take 100,000 Adam steps on
    batches of 1,000; this fit takes at most 50 L-BFGS iterations on the whole set, from random
    first layers and a last layer that gives the temperature of `TemperatureScaling`. T stays in
    [0.01, 1e4]; the logits are clipped to +-100 for the network alone. It over-fits: on 2,000
    examples with one true temperature the NLL of new ones grew from 0.73 to above 0.8, with Adam
    too.

    Args:
        top_k: How many logits the network sees; all, if there are fewer.
        width: Units of each of the two hidden layers.
        seed: Seed of the first layers.
        shrinkage: As for `Calibrator`; the prior is that of `EntropyTemperatureScaling`, over K as the error is.

    Attributes:
        first: Weights and biases of the first layer, (top_k + 1, width).
        second: Of the second layer, (width + 1, width).
        last: Of the last layer, (width + 1, 1).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import ParameterizedTemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = ParameterizedTemperatureScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1187, 0.1122, 0.7692],
                [0.0628, 0.5294, 0.4077]])
    """

    fitted_buffers = ("first", "second", "last")
    first: Tensor
    second: Tensor
    last: Tensor

    def __init__(
        self, *, top_k: int = 10, width: int = 5, seed: int = 0, shrinkage: bool = True
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self.top_k = positive_integer("top_k", top_k)
        self.width = positive_integer("width", width)
        self.seed = seed

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        shifted, features = below_top(logits), self._features(logits)
        truth = torch.zeros_like(logits).scatter_(1, target.unsqueeze(1), 1.0)
        prior = prior_weight(len(target), self.shrinkage)
        start = self._start(features, nll_temperature(logits, target, weight, prior))

        def layers_of(flat: Tensor) -> list[Tensor]:
            parts = torch.split(flat, [layer.numel() for layer in start])
            return [part.view_as(layer) for part, layer in zip(parts, start, strict=True)]

        def objective(flat: Tensor) -> Tensor:
            of_row = network(features, layers_of(flat))
            residual = (shifted / of_row).softmax(dim=1) - truth
            error = (residual.square().mean(dim=1) * weight).mean()
            return error + _penalty(of_row, weight, prior) / logits.shape[1]

        flat = torch.cat([layer.flatten() for layer in start])
        fitted = lbfgs_minimum(
            by_autograd(objective), flat, max_iter=NETWORK_ITERATIONS, smooth=False
        )
        self.first, self.second, self.last = (layer.clone() for layer in layers_of(fitted))
        self._note_bound(logits)

    def _features(self, logits: Tensor) -> Tensor:
        clipped = logits.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
        return clipped.topk(min(self.top_k, logits.shape[1]), dim=1).values

    def _start(self, features: Tensor, temperature: float) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        sizes = (features.shape[1], self.width, self.width)
        layers = [
            torch.randn(rows + 1, self.width, generator=generator, dtype=torch.float64) / rows**0.5
            for rows in sizes[:2]
        ]
        last = torch.zeros(self.width + 1, 1, dtype=torch.float64)
        last[-1] = temperature
        return [layer.to(features.device) for layer in (*layers, last)]

    def _temperatures(self, logits: Tensor) -> Tensor:
        return network(self._features(logits), [self.first, self.second, self.last])


def network(features: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """Temperatures (N, 1) of a ReLU network; the last row of each layer holds its biases."""
    hidden = features
    for layer in layers[:-1]:
        hidden = (hidden @ layer[:-1] + layer[-1]).relu()
    score = hidden @ layers[-1][:-1] + layers[-1][-1]
    return score.abs().clamp(MIN_TEMPERATURE, MAX_TEMPERATURE)

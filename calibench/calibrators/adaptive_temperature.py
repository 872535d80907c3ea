"""A temperature of each confidence bin."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.temperature import (
    NUMBERS_IN_BLOCK,
    expected_calibration_errors,
    is_bound,
    is_correct,
    prior_weight,
    raw_confidence,
)
from calibench.calibrators.temperature_rounds import RULES, BinnedHits, TemperatureRounds
from calibench.messages.checks import integer_from, option_named, positive, positive_integer
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.class_softmax import log_softmax_over_classes, softmax_over_classes

_TOGETHER = NUMBERS_IN_BLOCK // 8  # logits of sets that are fitted together: a block of float64


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
        size = len(hits) * self.n_bins
        binned = BinnedHits.from_unordered(np.concatenate(hits), np.concatenate(bins), size)
        bounds = self.min_temperature, self.max_temperature
        rounds = TemperatureRounds(
            self.rule, self.step, self.rounds, self.initial_temperature, bounds
        )
        ends = np.cumsum([len(of_set) for of_set in hits])
        for tried, confidence, residual in rounds.try_all(logits, binned):
            for number, (end, of_set) in enumerate(zip(ends, hits, strict=True)):
                rows = slice(end - len(of_set), end)
                bins_of_set = slice(number * self.n_bins, (number + 1) * self.n_bins)
                share = binned.counts[bins_of_set] / len(of_set)
                prior = prior_weight(len(of_set), self.shrinkage) * share
                errors = expected_calibration_errors(
                    confidence[:, rows], residual[:, rows], self.ece_bins
                )
                errors += np.log(tried[:, bins_of_set]) ** 2 @ prior / 2
                lowest = int(errors.argmin())
                if errors[lowest] < smallest[number]:
                    best[number], smallest[number] = tried[lowest, bins_of_set], errors[lowest]
        return best

    def _temperatures_of(self, logits: Tensor) -> Tensor:
        """Temperatures (N, 1) of the bins in which logits (N, K) lie."""
        bins = torch.bucketize(logits.softmax(dim=1).amax(dim=1), self.edges)
        return self.temperatures[bins].unsqueeze(1)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_softmax_over_classes(logits / self._temperatures_of(logits))

    def _prob(self, logits: Tensor) -> Tensor:
        return softmax_over_classes(logits / self._temperatures_of(logits))


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

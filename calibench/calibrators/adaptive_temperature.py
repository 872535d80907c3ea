"""Adaptive temperature scaling: a temperature for each confidence bin (Zhan et al. 2026, section 4.4)."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.temperature import (
    below_top,
    calibration_errors,
    is_bound,
    is_correct,
    prior_weight,
    top_confidence,
)
from calibench.ground.arguments import integer_from, one_of, positive, positive_integer

# The gap from which a step has its full size, and the smallest share of it.
FULL_GAP, SMALLEST_SHARE = 0.1, 0.1

Rule = Callable[[Tensor, Tensor, float], Tensor]


def _share(gap: Tensor) -> Tensor:
    return gap.sign() * (gap.abs() / FULL_GAP).clamp(SMALLEST_SHARE, 1)


# (temperatures, gaps, step) -> temperatures
RULES: dict[str, Rule] = {
    "linear_clamped": lambda t, gap, step: t + step * (gap / FULL_GAP).clamp(-1, 1),
    "clamped": lambda t, gap, step: t + step * _share(gap),
    "clamped_multiplicative": lambda t, gap, step: t * (step * _share(gap)).exp(),
    "sign": lambda t, gap, step: t + step * gap.sign(),
    "linear": lambda t, gap, step: t + step * gap,
    "multiplicative": lambda t, gap, step: t * (step * gap).exp(),
}


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
    """

    preserves_accuracy = True
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
        one_of("rule", rule, RULES)
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

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        shifted, correct = below_top(logits), is_correct(logits, target)
        start = _raw_confidence(logits)
        levels = torch.arange(1, self.n_bins, dtype=start.dtype, device=start.device) / self.n_bins
        self.edges = start.quantile(levels)
        self.temperatures = self._search(shifted, correct, torch.bucketize(start, self.edges))

    def _search(self, shifted: Tensor, correct: Tensor, bins: Tensor) -> Tensor:
        hits = correct.to(shifted.dtype)
        count = bins.bincount(minlength=self.n_bins).clamp(min=1)
        temperatures = shifted.new_full((self.n_bins,), self.initial_temperature)
        best, smallest = temperatures, shifted.new_tensor(torch.inf)
        prior = prior_weight(len(shifted), self.shrinkage)
        for _ in range(self.rounds + 1):
            confidence = top_confidence(shifted, temperatures.reciprocal()[bins])
            residual = confidence - hits
            error = calibration_errors(confidence[None], residual[None], self.ece_bins)
            error = error + prior * temperatures.log().square()[bins].mean() / 2
            if error < smallest:
                best, smallest = temperatures, error
            gap = shifted.new_zeros(self.n_bins).index_add_(0, bins, residual) / count
            temperatures = RULES[self.rule](temperatures, gap, self.step)
            temperatures = temperatures.clamp(self.min_temperature, self.max_temperature)
        return best

    def _log_prob(self, logits: Tensor) -> Tensor:
        bins = torch.bucketize(_raw_confidence(logits), self.edges)
        temperature = self.temperatures[bins]
        return (logits / temperature.unsqueeze(1)).log_softmax(dim=1)


def _raw_confidence(logits: Tensor) -> Tensor:
    return logits.softmax(dim=1).amax(dim=1)

"""Temperatures that depend on the input; written from memory of the papers, hence experimental."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from calibench.calibrators.base import Calibrator
from calibench.calibrators.likelihood import by_autograd, lbfgs_minimum
from calibench.calibrators.temperature import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    below_top,
    nll_temperature,
    prior_weight,
)
from calibench.ground.arguments import positive_integer

ENTROPY_ITERATIONS = 200
NETWORK_ITERATIONS = 50
LOWEST_ENTROPY = 1e-12
# The authors' code clips the logits of parameterized temperature scaling here.
LARGEST_LOGIT = 100.0


class EntropyTemperatureScaling(Calibrator):
    """Entropy-based temperature scaling, T = softplus(w ln H + b) (Balanya et al. 2022).

    H is the entropy of softmax(z) over ln K. w and b minimise the NLL, from w = 0 and the
    temperature of `TemperatureScaling`. With `shrinkage` the logarithm of each example's T has the prior, all of them
    together the weight of one.

    Experimental: recalled from the paper, whose code was not to be had. Here H is at least 1e-12 and T stays in
    [0.01, 1e4].

    Attributes:
        slope: w, a scalar.
        intercept: b, a scalar.
    """

    preserves_accuracy = True
    fitted_buffers = reported = ("slope", "intercept")
    slope: Tensor
    intercept: Tensor

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        shifted, entropy = below_top(logits), _log_entropy(logits)
        prior = prior_weight(len(target), self.shrinkage)
        temperature = nll_temperature(logits, target, weight, prior)
        start = logits.new_tensor([0.0, temperature + math.log(-math.expm1(-temperature))])

        def objective(parameters: Tensor) -> Tensor:
            slope, intercept = parameters
            of_row = _temperature(entropy, slope, intercept)
            nll = cross_entropy(shifted / of_row, target, reduction="none")
            return (nll * weight).mean() + _penalty(of_row, weight, prior)

        found = lbfgs_minimum(by_autograd(objective), start, max_iter=ENTROPY_ITERATIONS)
        self.slope, self.intercept = found.clone().unbind()

    def _log_prob(self, logits: Tensor) -> Tensor:
        temperature = _temperature(_log_entropy(logits), self.slope, self.intercept)
        return (logits / temperature).log_softmax(dim=1)


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


class ParameterizedTemperatureScaling(Calibrator):
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
    """

    preserves_accuracy = True
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
        found = lbfgs_minimum(
            by_autograd(objective), flat, max_iter=NETWORK_ITERATIONS, smooth=False
        )
        self.first, self.second, self.last = (layer.clone() for layer in layers_of(found))

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

    def _log_prob(self, logits: Tensor) -> Tensor:
        temperature = network(self._features(logits), [self.first, self.second, self.last])
        return (logits / temperature).log_softmax(dim=1)


def network(features: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """Temperatures (N, 1) of a ReLU network; the last row of each layer holds its biases."""
    hidden = features
    for layer in layers[:-1]:
        hidden = (hidden @ layer[:-1] + layer[-1]).relu()
    score = hidden @ layers[-1][:-1] + layers[-1][-1]
    return score.abs().clamp(MIN_TEMPERATURE, MAX_TEMPERATURE)

"""Temperatures of each example: by its entropy, or from a small network."""

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibench.calibrators.base import Calibrator
from calibench.calibrators.likelihood import by_autograd, lbfgs_minimum
from calibench.calibrators.temperature import (
    BOUNDS,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    below_top,
    is_bound,
    iterate_blocks,
    nll_temperature,
    prior_weight,
    reduce_rows,
)
from calibench.messages.checks import positive_integer
from calibench.tensors.class_softmax import log_softmax_over_classes, softmax_over_classes

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
        return log_softmax_over_classes(logits / self._temperatures(logits))

    def _prob(self, logits: Tensor) -> Tensor:
        return softmax_over_classes(logits / self._temperatures(logits))


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

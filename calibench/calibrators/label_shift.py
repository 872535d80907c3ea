"""Label shift: test classes as frequent as on no validation set; known priors, weights, or EM (Saerens et al. 2002)."""

import math
from abc import ABC
from collections.abc import Sequence
from typing import Literal, Self

import torch
from torch import Tensor

from calibench.calibrators.affine import VECTOR_ITERATIONS
from calibench.calibrators.base import Calibrator
from calibench.calibrators.fit_warnings import (
    FewExamplesWarning,
    silence_fits,
    warn_unless_converged,
)
from calibench.calibrators.likelihood import diagonal_nll, lbfgs_minimum
from calibench.calibrators.temperature import iterate_blocks, nll_temperature, prior_weight
from calibench.messages.checks import option_named
from calibench.tensors.arrays import take_any_arrays

EM_ITERATIONS = 2_000
EM_TOLERANCE = 1e-9
TINY = torch.finfo(torch.float64).tiny
# Whether the fit is weighted by the priors' ratio.
CURES = {"after": False, "before": True, "weights": True}


class BiasCorrectedTemperatureScaling(Calibrator):
    """Bias-corrected temperature scaling (BCTS), softmax(z / T + b) (Alexandari et al. 2020).

    The maximum-likelihood solution, by L-BFGS in float64 from temperature scaling's; b is what the biases of a network
    that was trained by other priors need, and EM (`LabelShiftCorrection`) is only as good as they are. The argmax can
    change. A class without examples has no finite b: the search ends after 100 iterations. With `shrinkage` T has the
    prior of temperature scaling and is positive.

    Attributes:
        temperature: T, a scalar; the published one is negative where the logits say the opposite.
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import BiasCorrectedTemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = BiasCorrectedTemperatureScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1389, 0.1423, 0.7188],
                [0.0464, 0.5695, 0.3841]])
    """

    structured_form = "StructuredVectorScaling"
    fitted_buffers = reported = ("temperature", "bias")
    temperature: Tensor
    bias: Tensor

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        prior = prior_weight(len(target), self.shrinkage)
        start = nll_temperature(logits, target, weight, prior)
        scaled, k = logits / start, logits.shape[1]

        def objective(parameters: Tensor) -> tuple[float, Tensor]:
            """With shrinkage, with the prior of T at the logarithm of the slope, so that T is positive."""
            slope = parameters[:1].exp() if self.shrinkage else parameters[:1]
            blocks = iterate_blocks(scaled, target, weight)
            value, (by_slope, by_bias) = diagonal_nll(blocks, slope.expand(k), parameters[1:])
            by_first = by_slope.sum(dim=0, keepdim=True)
            if self.shrinkage:
                log_inverse = parameters[:1] - math.log(start)
                by_first = by_first * slope + prior * log_inverse
                value += prior * float(log_inverse) ** 2 / 2
            return value, torch.cat([by_first, by_bias])

        first = logits.new_zeros(k + 1)
        first[0] = 0 if self.shrinkage else 1
        optimum = lbfgs_minimum(objective, first, max_iter=VECTOR_ITERATIONS)
        slope = optimum[0].exp() if self.shrinkage else optimum[0]
        self.temperature, self.bias = start / slope, optimum[1:].clone()

    def _number_of_parameters(self, k: int) -> int:
        return k + 1

    def _log_prob(self, logits: Tensor) -> Tensor:
        return (logits / self.temperature + self.bias).log_softmax(dim=1)


class LabelShiftCorrection(Calibrator, ABC):
    """A calibrator for test data whose classes are not as frequent as validation's (Saerens et al. 2002, eq. 2.4).

    p'_k is proportional to p_k pi_test_k / pi_val_k. Where the test priors are not known, `adapt` estimates them from
    unlabelled test logits by EM (Saerens et al. 2002, eq. 2.9), best after bias-corrected temperature scaling
    (Alexandari et al. 2020), which is the default calibrator. Never give it the label counts of the test set that it is
    scored on: nobody has these.

    Args:
        calibrator: What is fitted on the validation set; bias-corrected temperature scaling if None.
        priors: Class frequencies pi_test of the test data, (K,), positive where a class can come, with sum 1. None:
            not known; until `adapt` they are validation's.
        cure: `"after"`: the calibrator is fitted as it is, its probabilities are corrected. `"before"`: the logits are
            corrected, the calibrator is fitted on corrected logits, each validation example weighted by
            pi_test / pi_val of its class, so that the set stands for the test data. `"weights"`: the weights alone.
        shrinkage: As for `Calibrator`, of the default calibrator; one that is given has its own, and is mixed here only
            if it is not mixed itself.

    Attributes:
        source_priors: Class frequencies pi_val of the validation set, (K,).
        test_priors: pi_test, given or estimated, (K,).

    Raises:
        ValueError: If `cure` is unknown, needs `priors` that are not given, or `priors` are no distribution.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import LabelShiftCorrection
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = LabelShiftCorrection(priors=[0.8, 0.1, 0.1]).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.5829, 0.0724, 0.3447],
                [0.2914, 0.4331, 0.2754]])
    """

    masked_depth = None
    fitted_buffers = reported = ("source_priors", "test_priors")
    source_priors: Tensor
    test_priors: Tensor

    def __init__(
        self,
        calibrator: Calibrator | None = None,
        *,
        priors: Sequence[float] | None = None,
        cure: Literal["after", "before", "weights"] = "after",
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self._weighted = option_named("cure", cure, CURES)
        if priors is None and self._weighted:
            raise ValueError(f"`cure={cure!r}` weights by `priors`, which are not given.")
        default = BiasCorrectedTemperatureScaling(shrinkage=shrinkage)
        self.calibrator = default if calibrator is None else calibrator
        self.priors = None if priors is None else check_distribution("priors", priors)
        self.cure = cure

    @property
    def fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted state been loaded."""
        return super().fitted and self.calibrator.fitted

    @property
    def has_class_parameters(self) -> bool:
        """Whether classes have parameters of their own: their frequencies."""
        return True

    @property
    def at_bound(self) -> bool:
        """Whether the calibrator's fit ended at a bound."""
        return self.calibrator.at_bound

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """Both priors, and what the calibrator reports."""
        return super().parameters_dict() | self.calibrator.parameters_dict()

    @take_any_arrays
    def adapt(self, logits: Tensor) -> Self:
        """Estimate the test priors from unlabelled test logits (N, K); returns the calibrator itself.

        Raises:
            RuntimeError: If nothing has been fitted.
            ValueError: If the priors are known, or the logits are none.
        """
        if self.priors is not None:
            raise ValueError("`priors` are known: nothing is to be estimated.")
        probs = self.calibrator(logits.double())
        self.test_priors = estimate_priors(probs, self.source_priors)
        return self

    def describe_long_fit(self, n: int, k: int) -> str:
        """The reason of the calibrator that is corrected."""
        return self.calibrator.describe_long_fit(n, k)

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        k = logits.shape[1]
        self.source_priors = target.bincount(minlength=k).double() / len(target)
        are_known = self.priors is not None
        self.test_priors = logits.new_tensor(self.priors) if are_known else self.source_priors
        self._check(k)
        with silence_fits(FewExamplesWarning):  # it has warned of its own parameters
            if not self._weighted:
                self.calibrator.fit(logits, target)
                return
            ratio = self._log_ratio().exp()
            moved = logits + self._log_ratio() if self.cure == "before" else logits
            self.calibrator.fit(moved, target, ratio[target])

    def _share(self, n: int) -> float:
        return 0.0 if self.calibrator.shrinkage else super()._share(n)

    def _check(self, k: int) -> None:
        if len(self.test_priors) != k:
            raise ValueError(
                f"`priors` must hold {k} numbers, one a class, got {len(self.test_priors)}."
            )
        unseen = ((self.source_priors == 0) & (self.test_priors > 0)).nonzero().flatten().tolist()
        if unseen:
            raise ValueError(
                f"`priors` expect class {unseen[0]}, of which there is no validation example: "
                "how its probability changes is not known."
            )
        if self.cure == "before" and not bool((self.test_priors > 0).all()):
            raise ValueError(
                "`cure='before'` needs positive `priors`: it adds their logarithms to logits."
            )

    def _log_ratio(self) -> Tensor:
        """Logarithm of pi_test / pi_val, (K,); classes that validation lacks keep what little they have."""
        is_present = self.source_priors > 0
        return torch.where(
            is_present, self.test_priors / self.source_priors.where(is_present, 1.0), 1.0
        ).log()

    def _log_prob(self, logits: Tensor) -> Tensor:
        if self.cure == "weights":
            return self.calibrator.log_prob(logits)
        if self.cure == "before":
            return self.calibrator.log_prob(logits + self._log_ratio())
        scores = self.calibrator.log_prob(logits) + self._log_ratio()
        # Where the calibrator is certain of a class that cannot come, nothing is known but the priors.
        nothing = scores.amax(dim=1, keepdim=True).isneginf()
        return torch.where(nothing, self.test_priors.log(), scores).log_softmax(dim=1)


def estimate_priors(probs: Tensor, source_priors: Tensor) -> Tensor:
    """Class frequencies (K,) of unlabelled examples, by EM, of maximum likelihood (Saerens et al. 2002, eq. 2.9).

    From calibrated probabilities (N, K), N >= 1, and the class frequencies of the set on which they were calibrated.
    """
    if len(probs) == 0:
        raise ValueError("the priors of no examples cannot be estimated.")
    is_present = source_priors > 0
    likelihood = torch.where(is_present, probs / source_priors.where(is_present, 1.0), 0.0)
    priors, change = source_priors, torch.inf
    for _ in range(EM_ITERATIONS):
        joint = likelihood * priors
        share = (joint / joint.sum(dim=1, keepdim=True).clamp(min=TINY)).sum(dim=0)
        after = share / share.sum()  # a row that no class explains does not count
        priors, change = after, float((after - priors).abs().max())
        if change < EM_TOLERANCE:
            break
    warn_unless_converged("the last change of a prior", change)
    return priors


def check_distribution(name: str, values: Sequence[float]) -> list[float]:
    """Numbers >= 0 with sum 1, up to rounding, as such a list; a ValueError if they are not."""
    numbers = [float(value) for value in values]
    total = sum(numbers)
    if not (all(value >= 0 for value in numbers) and abs(total - 1) < 1e-4):
        raise ValueError(f"`{name}` must be numbers >= 0 with sum 1, got the sum {total:g}.")
    return [value / total for value in numbers]

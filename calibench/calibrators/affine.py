"""Affine maps: vector and matrix scaling (Guo et al. 2017), Dirichlet calibration, structured scaling."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators import likelihood
from calibench.calibrators.base import Calibrator
from calibench.calibrators.likelihood import Objective, Penalty
from calibench.calibrators.masked_logits import NEGLIGIBLE
from calibench.calibrators.preconditioners import (
    BlockCoordinates,
    KroneckerCoordinates,
    SharedCoordinates,
)
from calibench.calibrators.temperature import (
    TemperatureWithMixture,
    iterate_blocks,
    keep_if_few,
    nll_temperature,
    prior_weight,
)
from calibench.calibrators.uniform_mixture import mix_probabilities_with_uniform
from calibench.messages.checks import non_negative, option_named, positive_integer
from calibench.messages.printable_text import count_of
from calibench.tensors.class_softmax import log_softmax_over_classes, softmax_over_classes

# With a handful of examples for each class a set is separable: vector scaling then has no finite optimum, and
# further iterations only over-fit. On 14 real sets it converges in 12 to 87.
VECTOR_ITERATIONS = 100
MATRIX_ITERATIONS = 500
MATRIX_CLASSES = 100  # up to which maps with K^2 parameters are always fitted
LONGEST_FIT = 60.0
PRODUCTS_A_SECOND = (
    2e10  # additions and multiplications of float64 in products of matrices, on one thread
)
STIFF = 1e3  # factor of the penalty that holds a weight where it is: no gradient of a mean NLL moves it by .01


class Affine(Calibrator):
    """Affine calibration, softmax(W f(z) + b), fitted by maximum likelihood; the argmax can change.

    Attributes:
        weight: W, (K, K), or its diagonal, (K,).
        bias: b, (K,).
    """

    structured_form = "StructuredVectorScaling"
    masked_depth = NEGLIGIBLE
    fitted_buffers = ("weight", "bias")
    weight: Tensor
    bias: Tensor

    @abstractmethod
    def _scores(self, features: Tensor) -> Tensor:
        """The calibrated scores W f + b, (N, K) -> (N, K)."""

    def _features(self, logits: Tensor) -> Tensor:
        """The features that the map is applied to: the logits, if not overridden."""
        return logits

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_softmax_over_classes(self._scores(self._features(logits)))

    def _prob(self, logits: Tensor) -> Tensor:
        return softmax_over_classes(self._scores(self._features(logits)))


class DiagonalAffine(Affine):
    """An affine map with one weight and one bias for each class, fitted by penalised likelihood.

    A penalty of all parameters makes the likelihood have one optimum, which Newton's method finds; without one the
    search by L-BFGS is stopped after 100 iterations.
    """

    widens_blocks = True
    reported = ("weight", "bias")

    @abstractmethod
    def _start(self, logits: Tensor, target: Tensor, weight: Tensor) -> float:
        """The weight of every class from which the search begins, its bias being 0."""

    def _penalty(self, n: int, k: int) -> Penalty:
        """The penalty of (w, b), stacked to (2, K), that is added to the mean NLL of N examples; none by default."""
        return Penalty(torch.zeros(2, 1))

    def _scores(self, features: Tensor) -> Tensor:
        return torch.addcmul(self.bias, features, self.weight)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        scale = self._start(logits, target, weight)
        start = weight.new_tensor([[scale], [0.0]]).repeat(1, logits.shape[1])
        penalty = self._penalty(*logits.shape).to(weight)

        def keep_blocks(dtype: torch.dtype) -> Callable[[], likelihood.Blocks]:
            def make_blocks() -> likelihood.Blocks:
                parts = iterate_blocks(logits, target, weight.to(dtype), dtype=dtype)
                return ((self._features(rows), labels, shares) for rows, labels, shares in parts)

            return keep_if_few(make_blocks, logits)  # features of many rows would be another copy

        def penalise(blocks: Callable[[], likelihood.Blocks], dtype: torch.dtype) -> Objective:
            def value_and_gradient(stacked: Tensor) -> tuple[float, Tensor]:
                value, gradient = likelihood.diagonal_nll(blocks(), *stacked.to(dtype))
                penalty_value, penalty_gradient = penalty(stacked)
                return value + penalty_value, gradient + penalty_gradient

            def hessian(stacked: Tensor) -> likelihood.Hessian:
                scale, bias = stacked.to(dtype)

                def make_blocks() -> likelihood.Blocks:
                    for rows, _, shares in blocks():
                        yield rows, torch.addcmul(bias, rows, scale).softmax(dim=1), shares

                product = likelihood.diagonal_hessian(keep_if_few(make_blocks, logits))
                return lambda direction: (
                    product(direction.to(dtype)) + penalty.hessian_product(direction)
                )

            return Objective(value_and_gradient, hessian)

        wide = keep_blocks(torch.float64)
        objective = penalise(wide, torch.float64)
        if not penalty.factors.all():
            coordinates = BlockCoordinates.from_point(wide(), start, penalty)
            search = likelihood.stopped_search
            fitted = search(objective.value_and_gradient, coordinates, start, VECTOR_ITERATIONS)
        else:
            narrow = keep_blocks(torch.float32)
            fitted = likelihood.newton_minimum(
                objective,
                lambda stacked: BlockCoordinates.from_point(narrow(), stacked, penalty),
                start,
                narrow=penalise(narrow, torch.float32),
            )
        self.weight, self.bias = fitted.clone().unbind()


class VectorScaling(DiagonalAffine):
    """Vector scaling, softmax(w * z + b) with one w and b a class (Guo et al. 2017, section 4.2).

    The maximum-likelihood solution by L-BFGS in float64, from temperature scaling's. A weight may
    come out negative; on a separable set there is no finite optimum and the search ends when the
    gradient is below 1e-9 or after 100 iterations.

    Public code that differs: the baselines of Kull et al. (2019) stop BFGS after 100 iterations.

    Attributes:
        weight: w, (K,).
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import VectorScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = VectorScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1365, 0.1625, 0.7010],
                [0.0477, 0.5537, 0.3986]])
    """

    def _start(self, logits: Tensor, target: Tensor, weight: Tensor) -> float:
        return 1 / nll_temperature(logits, target, weight)

    def _number_of_parameters(self, k: int) -> int:
        return 2 * k


class FullAffine(Affine):
    """An affine map of logits with a full matrix, fitted by penalised likelihood from the identity.

    A penalty of all entries makes the likelihood have one optimum, which Newton's method finds. Where it leaves the
    diagonal free, no example tells that of a class without examples: with `shrinkage` it is held at 1 / T of
    temperature scaling, by a stiff penalty of its own; published, it is wherever the search stops. Without a penalty a
    separable set has no optimum, and the search by L-BFGS is stopped early, after `max_iter` iterations.

    Attributes:
        passes: Times that a search of the optimum multiplies the logits twice by a matrix, single precision counting
            half (measured: 60 to 100 times in Dirichlet calibration, 20 in structured scaling); a search that is
            stopped early, `max_iter` times.
        longest_fit: Seconds on a CPU, by an estimate, above which a fit of more than 100 classes is refused.
    """

    max_iter = MATRIX_ITERATIONS
    passes = 100
    structured_form = "StructuredMatrixScaling"
    longest_fit: float = LONGEST_FIT

    def describe_long_fit(self, n: int, k: int) -> str:
        """The estimate of more than 100 classes where it is above `longest_fit` seconds, and a smaller map."""
        if k <= MATRIX_CLASSES:
            return ""
        seconds = self.count_operations(n, k) / (PRODUCTS_A_SECOND * torch.get_num_threads())
        if seconds <= self.longest_fit:
            return ""
        name, threads = type(self).__name__, count_of(torch.get_num_threads(), "thread")
        return (
            f"{name} of {n:,} x {k:,} logits would take about {seconds / 60:,.0f} minutes on {threads}: "
            f"StructuredVectorScaling has {2 * k:,} parameters in place of {k * (k + 1):,}; in Python "
            f"`{name}.longest_fit = math.inf` lets it be fitted."
        )

    def count_operations(self, n: int, k: int) -> float:
        """Multiplications and additions of a fit, estimated: those of its passes."""
        is_searched = self._penalty(n, k).factors.any()
        return 4.0 * n * k**2 * (self.passes if is_searched else self.max_iter)

    @abstractmethod
    def _penalty(self, n: int, k: int) -> Penalty:
        """The penalty that is added to the mean NLL of N examples and K classes."""

    def _number_of_parameters(self, k: int) -> int:
        return k * (k + 1)

    def _scores(self, features: Tensor) -> Tensor:
        return features @ self.weight.T + self.bias

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        features = self._features(logits)
        k = features.shape[1]
        penalty = self._penalty(*features.shape).to(features)
        absent = target.bincount(minlength=k) == 0
        if self.shrinkage and penalty.factors.any() and absent.any():
            prior = prior_weight(len(target), self.shrinkage)
            scale = 1 / nll_temperature(features, target, weight, prior)
            penalty = penalty.with_weights_at(absent, scale, STIFF)
        start = torch.cat([torch.eye(k), torch.zeros(k, 1)], dim=1).to(features)

        def penalise(rows: Tensor) -> Objective:
            shares = weight.to(rows)

            def value_and_gradient(matrix: Tensor) -> tuple[float, Tensor]:
                value, gradient = likelihood.full_nll(rows, target, shares, matrix.to(rows))
                penalty_value, penalty_gradient = penalty(matrix)
                return value + penalty_value, gradient + penalty_gradient

            def hessian(matrix: Tensor) -> likelihood.Hessian:
                product = likelihood.full_hessian(rows, shares, matrix.to(rows))
                return lambda direction: (
                    product(direction.to(rows)) + penalty.hessian_product(direction)
                )

            return Objective(value_and_gradient, hessian)

        objective = penalise(features)
        if not penalty.factors.any():
            coordinates = SharedCoordinates.from_point(features)
            search = likelihood.stopped_search
            fitted = search(objective.value_and_gradient, coordinates, start, self.max_iter)
        else:
            fitted = likelihood.newton_minimum(
                objective,
                lambda matrix: KroneckerCoordinates.from_point(features, weight, matrix, penalty),
                start,
                narrow=penalise(likelihood.narrow_features(features)),
            )
        self.weight, self.bias = fitted[:, :-1].clone(), fitted[:, -1].clone()


class MatrixScaling(FullAffine):
    """Matrix scaling, softmax(W z + b) (Guo et al. 2017, section 4.2; ODIR: Kull et al. 2019).

    Fitted in float64 from the identity. With a penalty the optimum is found (see `FullAffine` for classes without
    examples). Without one, as published, K (K + 1)
    parameters over-fit easily, a separable set has no finite optimum, and `max_iter` is early stopping: what comes out
    then depends on it. On halves of 14 real sets 500 iterations reach the optimum of 10, and the held-out NLL of two
    more to 2e-4; on 20 Newsgroups it rises from .65 (100 iterations) to .69 (500) and .78 (2,000), on MNIST from .27 to
    6 and 730, where after 500 iterations rounding alone decides between 2.7 and 6.

    Args:
        reg_lambda: Weight of the mean square of W's off-diagonal entries; 0 as in Guo et al.
            (2017).
        reg_mu: Weight of the mean square of the biases.
        max_iter: Iterations of L-BFGS after which the search without a penalty is stopped.
        shrinkage: As for `Calibrator`.

    Attributes:
        weight: W, (K, K), rows are outputs.
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import MatrixScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = MatrixScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1313, 0.1654, 0.7033],
                [0.0469, 0.5852, 0.3679]])
    """

    def __init__(
        self,
        *,
        reg_lambda: float = 0.0,
        reg_mu: float = 0.0,
        max_iter: int = MATRIX_ITERATIONS,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self.reg_lambda = non_negative("reg_lambda", reg_lambda)
        self.reg_mu = non_negative("reg_mu", reg_mu)
        self.max_iter = positive_integer("max_iter", max_iter)

    def _penalty(self, n: int, k: int) -> Penalty:
        return likelihood.published_penalty(k, self.reg_lambda, self.reg_mu)


# The authors' package clips probabilities here before it takes their logarithm.
LOWEST_LOG_PROBABILITY = math.log(torch.finfo(torch.float64).tiny)


class DirichletCalibration(FullAffine):
    """Dirichlet calibration, softmax(W ln p + b) with ODIR or L2 (Kull et al. 2019).

    Fitted in float64 from the identity to the optimum, by Newton's method; the argmax can change. Without a penalty
    (weights of 0) there may be none, and the search ends early, as `MatrixScaling` says. ln p is at least -708, as in
    the authors' code: of logits further apart the order is lost.

    Args:
        reg_lambda: Weight of the penalty of W's off-diagonal entries. Kull et al. choose it by
            cross-validation; 100 is the smallest power of ten with which the held-out NLL was below
            temperature scaling's on halves of four real sets (CIFAR-10 twice, CIFAR-100, 20
            Newsgroups; 3,766 to 5,000 examples).
        reg_mu: Weight of the penalty of b; None: one L2 penalty, `reg_lambda`, on all of W and b.
        variant: `"published"`: penalties are mean squares (ODIR: sum of w_ij^2 over K (K - 1), sum
            of b_j^2 over K). `"reference"`: the authors' package `dirichletcal`, which by default
            sums (`reg_norm=False`), after it has subtracted the last row of (W, b) from all rows;
            the penalty then depends on the order of the classes.
        shrinkage: As for `Calibrator`.

    Attributes:
        weight: W, (K, K), rows are outputs.
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import DirichletCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = DirichletCalibration().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1258, 0.1638, 0.7105],
                [0.0439, 0.5698, 0.3863]])
    """

    def __init__(
        self,
        *,
        reg_lambda: float = 100.0,
        reg_mu: float | None = 100.0,
        variant: Literal["published", "reference"] = "published",
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        option_named("variant", variant, likelihood.PENALTIES)
        non_negative("reg_lambda", reg_lambda)
        non_negative("reg_mu", reg_mu or 0)
        self.reg_lambda, self.reg_mu = reg_lambda, reg_mu
        self.variant = variant

    def _penalty(self, n: int, k: int) -> Penalty:
        return likelihood.PENALTIES[self.variant](k, self.reg_lambda, self.reg_mu)

    def _features(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(dim=1).clamp(min=LOWEST_LOG_PROBABILITY)


class Structured(Affine, ABC):
    """An affine map of the log-probabilities of temperature scaling, drawn towards the identity.

    The penalty is ridge: a group of m squared parameters has the factor lambda m^rho / n^tau for n examples.

    Args:
        lambda_intercept: Factor of the biases b.
        lambda_diagonal: Factor of what the diagonal of W departs from 1.
        rho: Exponent of the number of parameters of a group.
        tau: Exponent of the number of examples.
        shrinkage: As for `Calibrator`, of the temperature scaling and of the whole; False: the former is mixed alone.
    """

    def __init__(
        self,
        *,
        lambda_intercept: float = 1.0,
        lambda_diagonal: float = 1.0,
        rho: float = 1.0,
        tau: float = 1.0,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self.lambda_intercept = non_negative("lambda_intercept", lambda_intercept)
        self.lambda_diagonal = non_negative("lambda_diagonal", lambda_diagonal)
        self.rho, self.tau = non_negative("rho", rho), non_negative("tau", tau)
        self.first = TemperatureWithMixture(shrinkage=shrinkage)

    @property
    def fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted state been loaded."""
        return super().fitted and self.first.fitted

    @property
    def at_bound(self) -> bool:
        """Whether the temperature of `first` is the smallest or the largest that is tried."""
        return self.first.at_bound

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """Weights and bias of the affine map, with the temperature and uniform share of `first`."""
        first = self.first.parameters_dict()
        return super().parameters_dict() | {f"first.{name}": value for name, value in first.items()}

    def _number_of_parameters(self, k: int) -> int:
        return 0  # drawn towards the identity, so that few examples tell few of them

    @property
    def has_class_parameters(self) -> bool:
        """Whether classes have parameters of their own: yes, though few examples move them little."""
        return True

    def _features(self, logits: Tensor) -> Tensor:
        # Up to rounding `first.log_prob`, which takes twice the time: a fit makes them in each of its steps.
        probs = softmax_over_classes(logits / self.first.temperature)
        return mix_probabilities_with_uniform(probs, self.first.uniform_share).log()

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        self.first.fit(logits, target, weight)
        super()._fit_weighted(logits, target, weight)  # type: ignore[safe-super]

    def _scale(self, parameters: int, examples: int) -> float:
        return float(parameters**self.rho / examples**self.tau)


class StructuredVectorScaling(Structured, DiagonalAffine):
    """Structured vector scaling (SVS), softmax((1 + v) x + b) (Berta et al. 2026).

    x are the logarithms of the probabilities of `TemperatureWithMixture`; v and b minimise the mean NLL plus
    (K / n) (|b|^2 + |v|^2), a convex problem that is solved to the optimum in float64. The argmax can change.

    Attributes:
        weight: 1 + v, (K,).
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import StructuredVectorScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = StructuredVectorScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1239, 0.1531, 0.7230],
                [0.0451, 0.5464, 0.4086]])
    """

    def _start(self, logits: Tensor, target: Tensor, weight: Tensor) -> float:
        return 1.0

    def _penalty(self, n: int, k: int) -> Penalty:
        factors = torch.tensor([[self.lambda_diagonal], [self.lambda_intercept]])
        return Penalty(factors.double() * self._scale(k, n), centre=torch.tensor([[1.0], [0.0]]))


class StructuredMatrixScaling(Structured, FullAffine):
    """Structured matrix scaling (SMS), softmax((I + diag v + M) x + b) (Berta et al. 2026).

    x are the logarithms of the probabilities of `TemperatureWithMixture`, M has no diagonal; v, M and b
    minimise the mean NLL plus (K / n) (|b|^2 + |v|^2) + (K (K - 1) / n) |M|^2, a convex problem that is solved to the
    optimum in float64. The argmax can change.

    Args:
        lambda_intercept: Factor of |b|^2.
        lambda_diagonal: Factor of |v|^2.
        lambda_off_diagonal: Factor of |M|^2.
        rho: Exponent of the number of parameters of a group, K or K (K - 1).
        tau: Exponent of n.
        shrinkage: As for `Calibrator`, of the temperature scaling and of the whole; False: the former is mixed alone.

    Attributes:
        weight: I + diag v + M, (K, K), rows are outputs.
        bias: b, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import StructuredMatrixScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = StructuredMatrixScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1197, 0.1538, 0.7265],
                [0.0462, 0.5802, 0.3736]])
    """

    passes = 20

    def __init__(
        self,
        *,
        lambda_intercept: float = 1.0,
        lambda_diagonal: float = 1.0,
        lambda_off_diagonal: float = 1.0,
        rho: float = 1.0,
        tau: float = 1.0,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(
            lambda_intercept=lambda_intercept,
            lambda_diagonal=lambda_diagonal,
            rho=rho,
            tau=tau,
            shrinkage=shrinkage,
        )
        self.lambda_off_diagonal = non_negative("lambda_off_diagonal", lambda_off_diagonal)

    def _penalty(self, n: int, k: int) -> Penalty:
        of_each, of_pairs = self._scale(k, n), self._scale(k * (k - 1), n)
        factors = likelihood.off_diagonal_mask(
            k, self.lambda_off_diagonal * of_pairs, self.lambda_intercept * of_each
        )
        factors.fill_diagonal_(self.lambda_diagonal * of_each)
        return Penalty(factors, centre=torch.eye(k, k + 1))

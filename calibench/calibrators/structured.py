"""Structured scaling: penalised vector and matrix scaling after temperature scaling (Berta et al. 2026)."""

from __future__ import annotations

from abc import ABC

import torch
from torch import Tensor

from calibench.calibrators.affine import Affine, DiagonalAffine, FullAffine
from calibench.calibrators.penalties import Penalty, off_diagonal
from calibench.calibrators.temperature import TemperatureWithMixture
from calibench.ground.arguments import non_negative


class Structured(Affine, ABC):
    """An affine map of the log-probabilities of temperature scaling, drawn towards the identity.

    The penalty is ridge: a group of m squared parameters has the factor lambda m^rho / n^tau for n examples.

    Args:
        lambda_intercept: Factor of the biases b.
        lambda_diagonal: Factor of what the diagonal of W departs from 1.
        rho: Exponent of the number of parameters of a group.
        tau: Exponent of the number of examples.
        shrinkage: As for `Calibrator`, of the temperature scaling and of the whole; False: the former is mixed alone.

    Raises:
        ValueError: If an argument is negative.
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

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """Those of the affine map, and the temperature and uniform share of `first`."""
        first = self.first.parameters_dict()
        return super().parameters_dict() | {f"first.{name}": value for name, value in first.items()}

    def _number_of_parameters(self, k: int) -> int:
        return 0  # drawn towards the identity, so that few examples tell few of them

    def _features(self, logits: Tensor) -> Tensor:
        return self.first.log_prob(logits)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        self.first.fit(logits, target, weight)
        super()._fit_weighted(logits, target, weight)  # type: ignore[safe-super]

    def _scale(self, parameters: int, examples: int) -> float:
        return float(parameters**self.rho / examples**self.tau)


class StructuredVectorScaling(Structured, DiagonalAffine):
    """Structured vector scaling (SVS), softmax((1 + v) x + b) (Berta et al. 2026).

    x are the logarithms of the probabilities of `TemperatureWithMixture`; v and b minimise the mean NLL plus
    (K / n) (|b|^2 + |v|^2), a convex problem that is solved to the optimum in float64. The argmax can change.

    Args:
        lambda_intercept: Factor of |b|^2.
        lambda_diagonal: Factor of |v|^2.
        rho: Exponent of K.
        tau: Exponent of n.
        shrinkage: As for `Calibrator`, of the temperature scaling and of the whole; False: the former is mixed alone.

    Attributes:
        weight: 1 + v, (K,).
        bias: b, (K,).

    Raises:
        ValueError: If an argument is negative.
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

    Raises:
        ValueError: If an argument is negative.
    """

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
        factors = off_diagonal(
            k, self.lambda_off_diagonal * of_pairs, self.lambda_intercept * of_each
        )
        factors.fill_diagonal_(self.lambda_diagonal * of_each)
        return Penalty(factors, centre=torch.eye(k, k + 1))

"""Dirichlet calibration (Kull et al. 2019)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators.affine import FullAffine
from calibench.calibrators.penalties import PENALTIES, Penalty
from calibench.ground.arguments import non_negative, one_of

# The authors' package clips probabilities here before it takes their logarithm.
LOWEST = math.log(torch.finfo(torch.float64).tiny)


class DirichletCalibration(FullAffine):
    """Dirichlet calibration, softmax(W ln p + b) with ODIR or L2 (Kull et al. 2019).

    Fitted in float64 from the identity to the optimum, by Newton's method; the argmax can change. Without a penalty
    (weights of 0) there may be none, and the search ends early, as `MatrixScaling` says.

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

    Raises:
        ValueError: If a weight is negative or `variant` is unknown.
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
        one_of("variant", variant, PENALTIES)
        non_negative("reg_lambda", reg_lambda)
        non_negative("reg_mu", reg_mu or 0)
        self.reg_lambda, self.reg_mu = reg_lambda, reg_mu
        self.variant = variant

    def _penalty(self, n: int, k: int) -> Penalty:
        return PENALTIES[self.variant](k, self.reg_lambda, self.reg_mu)

    def _features(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(dim=1).clamp(min=LOWEST)

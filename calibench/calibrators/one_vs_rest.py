"""One-vs-rest calibration: each class's probability has a map, then rows are normalised (Zadrozny & Elkan 2002)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.interpolation import padded
from calibench.calibrators.simplex import log_normalised


class OneVsRest(Calibrator):
    """A calibrator of K binary problems, class k against the rest.

    Subclasses fit the map of one class and evaluate it; a map is a row of knots and a row of
    values. Rows are divided by their sum (an all-zero row becomes uniform), so the argmax can
    change.

    Attributes:
        knots: Knots of each class, (K, M), filled up with inf.
        values: Values of each class, (K, M'), the last one repeated.
    """

    fitted_buffers = ("knots", "values")
    knots: Tensor
    values: Tensor

    @abstractmethod
    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Knots and values of the map from scores (N,) in [0, 1], hits (N,) bool and how much each counts (N,)."""

    @abstractmethod
    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        """The map at scores (N,) -> (N,)."""

    def classwise(self, logits: Tensor) -> Tensor:
        """The K maps' values before they are normalised: logits (N, K) -> (N, K), float64."""
        scores = logits.double().softmax(dim=1).T.contiguous()
        maps = zip(scores, self.knots, self.values, strict=True)
        return torch.stack([self._evaluate(*one) for one in maps], dim=1)

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self._fit_maps(logits, target, logits.new_ones(len(logits)))

    def _fit_maps(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        scores = logits.softmax(dim=1).T.contiguous().cpu()
        target, share = target.cpu(), weight.cpu()
        maps = [self._fit_class(score, target == k, share) for k, score in enumerate(scores)]
        self.knots = padded([knots for knots, _ in maps], torch.inf, minimum=2).to(logits.device)
        self.values = padded([values for _, values in maps], minimum=2).to(logits.device)

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_normalised(self.classwise(logits))


class WeightedOneVsRest(OneVsRest, ABC):
    """A calibrator of K binary problems, each of which minimises a sum over examples that can have weights."""

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        self._fit_maps(logits, target, weight)

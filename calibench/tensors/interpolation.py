"""Interpolation of smooth functions between Chebyshev nodes, by Lagrange's polynomial in its barycentric form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibench.tensors.arrays import Floats

_LAST = 3  # coefficients, among which even or odd ones alone may be none


@dataclass(frozen=True)
class ChebyshevNodes:
    """Chebyshev nodes of an interval, (G,), with their barycentric weights (Berrut and Trefethen 2004).

    Attributes:
        at: The nodes.
        barycentric: Their weights.
    """

    at: Floats
    barycentric: Floats

    @classmethod
    def from_interval(cls, centre: float, reach: float, number: int) -> ChebyshevNodes:
        """Nodes of the interval from `centre - reach` to `centre + reach`, whose ends are none."""
        angle, signs = _angles(number), np.where(np.arange(number) % 2, -1.0, 1.0)
        return cls(centre + reach * np.cos(angle), signs * np.sin(angle))

    def weights(self, places: Floats) -> Floats:
        """Weights of the values at the nodes for other places, (...,) -> (..., G)."""
        terms = self._terms(places)
        terms /= terms.sum(-1, keepdims=True)
        return terms

    def values(self, places: Floats, curves: Floats) -> Floats:
        """Values of curves that are known at the nodes, (P, G), at a place each, (P,)."""
        terms = self._terms(places)
        totals = terms.sum(1)
        terms *= curves
        values: Floats = terms.sum(1) / totals
        return values

    def find_error(self, curves: Floats) -> float:
        """The largest of the last coefficients of curves that are known at the nodes, (G, P): about their error."""
        number = len(self.at)
        orders = np.arange(number - _LAST, number)
        waves = np.cos(orders[:, None] * _angles(number)) * (2 / number)
        return float(np.abs(waves @ curves).max(initial=0))

    def _terms(self, places: Floats) -> Floats:
        distances = places[..., None] - self.at
        distances += 1e-300  # of a place that is a node
        terms: Floats = self.barycentric / distances
        return terms


def _angles(number: int) -> Floats:
    angles: Floats = np.pi * (np.arange(number) + 0.5) / number
    return angles

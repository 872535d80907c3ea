"""Venn-Abers prediction: isotonic regressions with the new example as a hit and as a miss (Vovk et al. 2015)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibench.calibrators.one_vs_rest import OneVsRest

Array = NDArray[np.float64]
Point = tuple[float, float]


class VennAbers(OneVsRest):
    """Inductive Venn-Abers prediction of each class against the rest (Vovk et al. 2015).

    A new score s has two probabilities: p1 is the isotonic regression at s of the calibration scores and s as a hit,
    p0 with s as a miss. What is given is p1 / (1 - p0 + p1), the minimax of the log loss (section 4), which is never 0
    or 1; rows are normalised.

    Public code that differs: the package `venn-abers` pairs the classes by default (`one_vs_one`).
    """

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        knots, of_score = score.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        count = of_score.bincount().double().numpy()
        hits = of_score.bincount(hit.double(), len(knots)).numpy()
        p1 = with_a_hit(count, hits)
        p0 = 1 - with_a_hit(count[::-1], (count - hits)[::-1])[::-1]
        # Below, at and above each knot: p1 is that of the knots from s on, p0 that of the knots up to s.
        low, high = np.repeat(p0, 2)[1:], np.repeat(p1, 2)[:-1]
        return knots, torch.from_numpy(high / (1 - low + high))

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots) + torch.bucketize(score, knots, right=True)]


def with_a_hit(count: Array, hits: Array) -> Array:
    """Isotonic regression at a score with one more hit there, for each score and for one above all.

    The regression's value is the slope of the greatest convex minorant of the cumulative sums; the corners of those of
    all M + 1 regressions are found in one sweep (Vovk et al. 2015, algorithms 1 and 2).

    Args:
        count: Number of examples at each of M increasing scores, (M,).
        hits: Hits among them, (M,).

    Returns:
        Values (M + 1,) in (0, 1].
    """
    sums = [(0.0, 0.0), *zip(count.cumsum().tolist(), hits.cumsum().tolist(), strict=True)]
    start = (-1.0, -1.0)
    corners = [start]
    for point in sums:
        _push(corners, point)
    corners.reverse()
    values = []
    for before, point in pairwise(sums):
        values.append((corners[-2][1] - corners[-1][1]) / (corners[-2][0] - corners[-1][0]))
        # The hit now comes one score later: what lies before it moves by one hit to the left.
        start = (start[0] + point[0] - before[0], start[1] + point[1] - before[1])
        if _cross(corners[-1], corners[-2], start) < 0:
            corners.pop()
            while len(corners) > 1 and _cross(start, corners[-1], corners[-2]) <= 0:
                corners.pop()
            corners.append(start)
    return np.array([*values, 1.0])


def _push(corners: list[Point], point: Point) -> None:
    while len(corners) > 1 and _cross(corners[-2], corners[-1], point) <= 0:
        corners.pop()
    corners.append(point)


def _cross(a: Point, b: Point, c: Point) -> float:
    """Positive where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

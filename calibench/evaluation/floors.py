"""Floors of calibration errors: what a perfectly calibrated model gets, by consistency resampling.

Labels are drawn from the model's own probabilities and the metric is computed again (Broecker and Smith 2007): the mean
of these values is the floor, the share of them at or above the model's own value the p-value of "perfectly calibrated".
Of top-label errors only the correctness is drawn, Bernoulli(confidence). All draws are seeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchmetrics import Metric

from calibench.evaluation.threads import one_thread
from calibench.metrics import CalibrationMetric
from calibench.metrics.cells import Cells
from calibench.statistics import Verdict
from calibench.statistics.poisson_binomial import PoissonBinomial

Floats = npt.NDArray[np.float64]

FEWEST = 99  # draws, however many examples: the smallest p-value is then 0.01
_LABELS = 20_000_000  # draws x examples that are drawn one by one: 2,000 draws of 10,000 examples
_AT_ONCE = 1 << 21  # labels that are looked up at a time
_ROUNDING = 1e-12  # by how much a drawn value may be below the model's own and count as equal


class Floors:
    """Floors of the calibration errors of one set of probabilities.

    Args:
        probs: Probabilities, (N, K).
        seed: Of the draws.
    """

    def __init__(self, probs: Tensor, *, seed: int = 0) -> None:
        self._probs = probs
        self._seed = seed

    def verdict(self, metric: Metric, value: float) -> Verdict | None:
        """Floor and p-value of a metric's value; None for one that is no calibration error, or if it is NaN."""
        values = self.of_calibrated(metric)
        if values is None or np.isnan(value):
            return None
        return Verdict(float(values.mean()), p_value(value, values))

    def of_calibrated(self, metric: Metric) -> Floats | None:
        """Values of the metric for calibrated models with these probabilities, (draws,).

        None for a metric that is no calibration error, and where nothing or nothing finite is known.
        """
        if not isinstance(metric, CalibrationMetric) or len(self._probs) == 0:
            return None
        cells = metric.cells(self._probs)
        if cells is None:
            return None
        count, total = cells.count, cells.total
        with one_thread():
            found = [
                metric.of_cells(count, total, hits) for hits in self._hits(cells, metric.draws)
            ]
        values: Floats = torch.cat(found).double().numpy()
        return values if np.isfinite(values).all() else None

    def _hits(self, cells: Cells, draws: int) -> Iterator[Tensor]:
        """Hits of calibrated models in each cell, in chunks (some draws, *cells.shape)."""
        return (
            self._of_confidence(cells, draws)
            if cells.value.ndim == 1
            else self._of_labels(cells, draws)
        )

    def _of_confidence(self, cells: Cells, draws: int) -> Iterator[Tensor]:
        confidence = cells.value.double().clamp(0, 1).numpy()
        correct = PoissonBinomial(confidence, cells.index.numpy(), cells.size)
        number = affordable(draws, correct.singles)
        yield from map(torch.from_numpy, correct.draws(number, np.random.default_rng(self._seed)))

    def _of_labels(self, cells: Cells, draws: int) -> Iterator[Tensor]:
        labels = self._labels
        number = min(draws, labels.shape[1])
        for some in torch.split(labels[:, :number], max(1, _AT_ONCE // len(labels)), dim=1):
            place = cells.index.gather(1, some.long())
            place += torch.arange(some.shape[1]) * cells.size
            hits = torch.bincount(place.flatten(), minlength=some.shape[1] * cells.size)
            yield hits.view(-1, *cells.shape).double()

    @cached_property
    def _labels(self) -> Tensor:
        """Labels of calibrated models, (N, draws) int32: by inversion of each example's distribution."""
        n, k = self._probs.shape
        random = np.random.default_rng([self._seed, 1])
        number = affordable(CalibrationMetric.draws, n)
        labels = torch.empty(n, number, dtype=torch.int32)
        for rows in torch.split(torch.arange(n), max(1, _AT_ONCE // number)):
            below = self._probs[rows].double().cumsum(1)
            drawn = torch.from_numpy(random.random((len(rows), number))) * below[:, -1:]
            labels[rows] = torch.searchsorted(below, drawn, right=True, out_int32=True).clamp_(
                max=k - 1
            )
        return labels


def affordable(draws: int, examples: int) -> int:
    """How many draws are made of so many examples: fewer of many, at least 99 (or `draws` if that is less)."""
    return min(draws, max(FEWEST, _LABELS // max(1, examples)))


def p_value(value: float, of_calibrated: Floats) -> float:
    """The share of calibrated models whose value is at or above a value, with the value itself among them."""
    above = int((of_calibrated >= value - _ROUNDING).sum())
    return (1 + above) / (1 + len(of_calibrated))

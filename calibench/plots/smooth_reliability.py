"""Smooth reliability: accuracy against confidence under the kernel of the smooth calibration error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from scipy import sparse
from torch import Tensor

from calibench.metrics.smoothing import error_and_width
from calibench.metrics.smoothing_kernels import REFLECTED, SOFTENING, Residuals
from calibench.statistics import LEVEL
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.tensors.arrays import Booleans, Floats, Integers

POINTS = 201  # of a curve
DRAWS = 400  # of calibrated models, and of resampled test sets
_CELLS = 4000  # of the confidences that are resampled: 4 to the narrowest kernel


@dataclass(frozen=True)
class SmoothReliability:
    """The smooth reliability curve of Błasiok and Nakkiran (2024), in which several runs are pooled.

    At each confidence (T,): the accuracy (hits over examples, both smoothed), the density of confidences under the same
    kernel, both ends of the accuracy's interval over resampled examples, and of where a calibrated model's curve would
    lie. Then the kernel's standard deviation, the error of each run (runs,), and the number of predictions.
    """

    confidence: Floats
    accuracy: Floats
    density: Floats
    low: Floats
    high: Floats
    calibrated_low: Floats
    calibrated_high: Floats
    width: float
    error: Floats
    predictions: int

    def masked_below(self, fewest: int) -> SmoothReliability:
        """The curve with NaN where fewer predictions than so many lie under the kernel."""
        predictions_below = self.density * self.predictions * self.width * math.sqrt(math.tau)
        masked: dict[str, Any] = {
            name: np.where(predictions_below >= fewest, getattr(self, name), np.nan)
            for name in _OF_POINTS
            if name not in ("confidence", "density")
        }
        return replace(self, **masked)

    def rows(self) -> Iterator[dict[str, float]]:
        """The curve's numbers as rows of a CSV."""
        for place in range(len(self.confidence)):
            yield {name: getattr(self, name)[place].item() for name in _OF_POINTS}

    @property
    def text(self) -> str:
        """The calibration error in words, with the kernel's width."""
        spread = f" ± {100 * self.error.std(ddof=1):.1f}" if len(self.error) > 1 else ""
        return f"smECE {100 * self.error.mean():.1f}{spread} %\nkernel width {self.width:.3f}"


_OF_POINTS = (
    "confidence", "accuracy", "density", "low", "high", "calibrated_low", "calibrated_high",
)  # fmt: skip


def smooth_reliability(
    confidence: Floats,
    correct: Booleans,
    *,
    lowest: float = 0.0,
    example: Integers | None = None,
    run: Integers | None = None,
) -> SmoothReliability:
    """Compute the smooth reliability curve.

    Kernel and width are those of the smooth calibration error of all predictions, as in the authors' package relplot.
    The interval is of resampled examples; the consistency band (Broecker and Smith 2007) is of calibrated models, whose
    correctness is drawn from the confidences. A wide kernel moves a calibrated model's curve off the diagonal, and its
    band with it.

    Args:
        confidence: Largest probability of each prediction, (N,), N >= 1.
        correct: Whether it is right, (N,).
        lowest: Where the curve begins; of K classes 1 / K, below which no confidence lies, however wide the kernel.
        example: The number of its example, (N,); by default each has its own.
        run: The number of its run, (N,); by default they are one.
    """
    example = np.arange(len(confidence)) if example is None else example
    run = np.zeros_like(example) if run is None else run
    exact, hit = torch.from_numpy(confidence.astype(np.float64)), torch.from_numpy(correct)
    width = float(error_and_width(exact, hit).width)
    at = torch.linspace(lowest, 1, POINTS, dtype=torch.float64)

    def smoothed(position: Tensor, weight: Tensor) -> Tensor:
        return REFLECTED.smoothed(
            Residuals.from_weights(REFLECTED.coordinate(position), weight), width, at
        )

    hits, mass = smoothed(exact, torch.stack([hit.double(), torch.ones_like(exact)]))
    random = np.random.default_rng(0)
    low, high = _interval(confidence, correct, example, smoothed, random)
    expected, band = _consistency_band(exact, smoothed, random)
    runs_an_example = len(example) / len(np.unique(example))
    wide_low, wide_high = (expected + np.sqrt(runs_an_example) * (band - expected)).clip(0, 1)
    errors = [
        float(error_and_width(exact[of_run], hit[of_run]).error)
        for of_run in (torch.from_numpy(run == run_number) for run_number in np.unique(run))
    ]
    accuracy = (hits / (mass + SOFTENING)).numpy()
    density = (mass / len(confidence)).numpy()
    ends = low, high, wide_low, wide_high
    of_kernel = width, np.array(errors), len(confidence)
    return SmoothReliability(at.numpy(), accuracy, density, *ends, *of_kernel)


# sums of weights (M, N) of confidences (N,), under the kernel
_Smoothed = Callable[[Tensor, Tensor], Tensor]


def _ends(curves: Tensor) -> Floats:
    ends: Floats = np.quantile(curves.numpy(), [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    return ends


def _interval(
    confidence: Floats, correct: Booleans, example: Integers, smoothed: _Smoothed, random: Generator
) -> Floats:
    """Where the accuracy lies on resampled examples, (2, T): the runs of an example come and go together."""
    _, number = np.unique(example, return_inverse=True)
    examples = number.max() + 1
    cell = np.rint(confidence * _CELLS).astype(np.int64)
    cells, place = np.unique(cell, return_inverse=True)
    shape = (examples, len(cells))
    all_of = sparse.csr_array((np.ones(len(number)), (number, place)), shape)
    right = sparse.csr_array((correct.astype(np.float64), (number, place)), shape)
    draws = random.multinomial(examples, np.full(examples, 1 / examples), DRAWS)
    weight = torch.from_numpy(np.concatenate([draws @ right, draws @ all_of]))
    hits, mass = smoothed(torch.from_numpy(cells / _CELLS), weight).chunk(2)
    return _ends(hits / (mass + SOFTENING))


def _consistency_band(
    confidence: Tensor, smoothed: _Smoothed, random: Generator
) -> tuple[Floats, Floats]:
    """The curve that a calibrated model is expected to have, (T,), and where it lies, (2, T)."""
    cell = (confidence * _CELLS).round().long()
    cells, place = torch.unique(cell, return_inverse=True)
    model = PoissonBinomial(confidence.numpy().clip(0, 1), place.numpy(), len(cells))
    draws = torch.from_numpy(np.concatenate([*model.draws(DRAWS, random)]))
    count = torch.bincount(place, minlength=len(cells)).double()
    expected = torch.bincount(place, confidence, minlength=len(cells))
    weight = torch.cat([draws, torch.stack([expected, count])])
    *hits, mean, mass = smoothed(cells / _CELLS, weight)
    below = mass + SOFTENING
    return (mean / below).numpy(), _ends(torch.stack(hits) / below)

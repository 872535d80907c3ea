"""Top-label calibration errors of resampled test sets, from counts of sorted examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.evaluation.threads import one_thread
from calibench.ground.binning import equal_mass_ends, equal_width_bin
from calibench.metrics.labelled import top_label
from calibench.metrics.packed import pack
from calibench.metrics.smooth_error import smooth_error
from calibench.metrics.smooth_kernels import REFLECTED

Floats = npt.NDArray[np.float64]
_WIDTHS = 1024  # smECE's bisection stops at multiples of 1 / 1024


class TopLabelResamples:
    """Confidence and correctness of each test example, sorted once for all resamples.

    Args:
        probs: Probabilities (N, K).
        target: Class indices (N,).
    """

    def __init__(self, probs: Tensor, target: Tensor) -> None:
        confidence, correct = top_label(probs, target)
        self._order = torch.argsort(confidence, stable=True).numpy()
        self._confidence = confidence[self._order]
        residual = confidence.double() - correct.double()
        self._residual: Floats = residual.numpy()[self._order]
        ordered = self._confidence.numpy()
        self._tie_end = np.searchsorted(ordered, ordered, side="right")
        self._unordered = residual
        self._position = REFLECTED.coordinate(confidence)
        self._packed = pack(confidence, correct)

    def weighted(self, counts: Floats) -> Weighted:
        """A chunk of resamples, counts (R, N) of the examples in their original order."""
        ordered = counts[:, self._order]
        sums = running_sums(ordered), running_sums(ordered * self._residual)
        return Weighted(*sums, self._confidence, self._tie_end)

    @cached_property
    def _width(self) -> float:
        """The kernel width of the whole set."""
        value = float(smooth_error(self._packed, REFLECTED))
        return max(1, math.ceil(value * _WIDTHS)) / _WIDTHS

    @cached_property
    def _share(self) -> Tensor:
        """How much of each example's mass the smoothed mass holds at that width."""
        return REFLECTED.shares(self._position, self._width)

    def smooth(self, counts: Floats) -> Floats:
        """The smECE of resamples (R,), at the kernel width of the whole set.

        The width of each resample would cost ten times as much. As smECE falls with the width, a fixed one lets it
        vary a little more: the intervals err on the wide side.
        """
        mass = torch.from_numpy(counts)
        with one_thread():
            found = REFLECTED.errors(
                self._position, mass * self._unordered, mass, self._width, self._share
            )
        errors: Floats = found.numpy()
        return errors


@dataclass(frozen=True)
class Weighted:
    """Running sums over sorted examples, each starting with 0; the sum of a bin is a difference of two.

    Attributes:
        count: Of draws, (R, N + 1).
        residual: Of confidence - correct, (R, N + 1).
        confidence: Sorted confidences, (N,).
        tie_end: Where the run of equal confidences that holds each example ends, (N,).
    """

    count: Floats
    residual: Floats
    confidence: Tensor
    tie_end: npt.NDArray[np.int64]

    def equal_width(self, n_bins: int) -> Floats:
        """ECE of each resample, (R,)."""
        bins = equal_width_bin(self.confidence, n_bins).numpy()
        ends = np.searchsorted(bins, np.arange(n_bins), side="right")
        return self._gaps(self.residual[:, ends])

    def equal_mass(self, n_bins: int) -> Floats:
        """AdaECE of each resample, (R,), in the equal-mass bins of that resample; no tie is split."""
        ends = equal_mass_ends(len(self.confidence), n_bins).double()
        last = torch.searchsorted(
            torch.from_numpy(self.count[:, 1:]).contiguous(),
            ends.expand(len(self.count), -1).contiguous(),
        )
        last.clamp_(max=len(self.tie_end) - 1)  # weights may sum to a little less than N
        return self._gaps(np.take_along_axis(self.residual, self.tie_end[last.numpy()], axis=1))

    def _gaps(self, until: Floats) -> Floats:
        """Summed sizes of the steps of a running sum."""
        steps = np.diff(until, axis=1, prepend=0.0)
        gaps: Floats = np.abs(steps).sum(axis=1) / len(self.confidence)
        return gaps


def running_sums(values: Floats) -> Floats:
    """Running sums along rows, each starting with 0: (R, N) -> (R, N + 1)."""
    sums = torch.from_numpy(values).cumsum(1)  # in a third of numpy's time
    return F.pad(sums, (1, 0)).numpy()

"""Calibration errors of the top label without bins: cumulative gaps, suprema over functions, swept bins."""

from abc import ABC
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.messages.checks import option_named
from calibench.metrics.base import TopLabelMetric, compute_once
from calibench.metrics.calibration_errors import DistinctCells, KuiperError
from calibench.metrics.self_consistent_width import solve_self_consistent
from calibench.metrics.smoothing import SmoothError
from calibench.metrics.smoothing_kernels import KERNELS, residuals_of_pairs
from calibench.metrics.titles import Titles, rate
from calibench.tensors.binning import equal_mass_cuts
from calibench.tensors.scores import running_sums

_ENTRIES = 1 << 22  # of the matrix of sets and confidences that are held at once


class UnbinnedError(DistinctCells, TopLabelMetric, ABC):
    """The base of top-label calibration errors without bins: each distinct confidence is a cell (this package)."""

    def compute(self) -> Tensor:
        """The calibration error, a float64 scalar."""
        return self.error_of_pairs(*self.pairs())


class KolmogorovSmirnovCalibrationError(UnbinnedError):
    """Kolmogorov-Smirnov calibration error, KS (Gupta et al. 2021).

    The largest gap between the cumulative confidence and the cumulative accuracy of the examples
    sorted by confidence, max_t 1/N |sum_{c_i <= t} (c_i - a_i)|. It is evaluated at distinct
    confidences only; the authors' code evaluates at each example, so its value depends on the order
    among ties.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import KolmogorovSmirnovCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = KolmogorovSmirnovCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.0750, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"ks": rate("KS")}

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest cumulative |total - hits| over N; see `ErrorOfCells.error_of_cells`."""
        return running_sums(total - hits).abs().amax(-1) / count.sum()


def kolmogorov_smirnov_calibration_error(
    preds: Tensor, target: Tensor, *, ignore_index: int | None = None
) -> Tensor:
    """Kolmogorov-Smirnov calibration error, KS (Gupta et al. 2021).

    The value for a single set; see `KolmogorovSmirnovCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import kolmogorov_smirnov_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> kolmogorov_smirnov_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.0750, dtype=torch.float64)
    """
    return compute_once(KolmogorovSmirnovCalibrationError, preds, target, ignore_index=ignore_index)


class KuiperCalibrationError(KuiperError, UnbinnedError):
    """Kuiper calibration error, ECCE-R (Arrieta-Ibarra et al. 2022).

    The largest minus the smallest of the cumulative gaps 1/N sum_{c_i <= q} (a_i - c_i) over q, the empty sum 0 among
    them: the largest gap of any interval of confidences, weighted by its share of the examples.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import KuiperCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = KuiperCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.1250, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"kuiper": rate("Kuiper")}


def kuiper_calibration_error(
    preds: Tensor, target: Tensor, *, ignore_index: int | None = None
) -> Tensor:
    """Kuiper calibration error, ECCE-R (Arrieta-Ibarra et al. 2022).

    The value for a single set; see `KuiperCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import kuiper_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> kuiper_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.1250, dtype=torch.float64)
    """
    return compute_once(KuiperCalibrationError, preds, target, ignore_index=ignore_index)


class SmoothCalibrationError(TopLabelMetric):
    """Smooth calibration error, smECE (Błasiok and Nakkiran 2024).

    Residuals confidence - correct are smoothed with a Gaussian kernel; its width is the smallest
    (to 2^-10) that is not below the resulting error, so there are no bins to choose.

    Args:
        kernel: "reflected": Gaussian on the confidence, reflected at 0 and 1, as in the authors'
            package relplot, whose values it gives. "logit": Gaussian on the logit of the
            confidence clipped to [0.001, 0.999], relplot's other kernel.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import SmoothCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = SmoothCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.0992, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"smooth_ece": rate("smECE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "logit": {"smooth_ece_logit": rate("smECE of logits")}
    }

    draws = SmoothError.draws

    formula: SmoothError

    def __init__(
        self, *, kernel: Literal["reflected", "logit"] = "reflected", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.formula = SmoothError(option_named("kernel", kernel, KERNELS))
        self.take_variant_name(kernel)

    def compute(self) -> Tensor:
        """The smooth calibration error, a float64 scalar."""
        packed, kernel = self.rows("packed"), self.formula.kernel
        if len(packed) == 0:
            return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
        return solve_self_consistent(kernel, residuals_of_pairs(self.pieces, kernel)).error.squeeze(
            0
        )


def smooth_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    kernel: Literal["reflected", "logit"] = "reflected",
    ignore_index: int | None = None,
) -> Tensor:
    """Smooth calibration error, smECE (Błasiok and Nakkiran 2024).

    The value for a single set; see `SmoothCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        kernel: "reflected": Gaussian on the confidence, reflected at 0 and 1, as in the authors' package
            relplot, whose values it gives. "logit": Gaussian on the logit of the confidence clipped to [0.001,
            0.999], relplot's other kernel.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import smooth_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> smooth_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.0992, dtype=torch.float64)
    """
    return compute_once(
        SmoothCalibrationError, preds, target, kernel=kernel, ignore_index=ignore_index
    )


def largest_correlation(values: np.ndarray, residuals: np.ndarray) -> float:
    """Max of sum_j w_j r_j over |w_j| <= 1, |w_{j+1} - w_j| <= v_{j+1} - v_j.

    A linear program whose constraints form a chain: dynamic programming over the sorted values v, on the best sum so
    far as a function of the last w, solves it exactly in about n log n steps. That function is concave and piecewise
    linear, f(w) = best - sum_left s max(p - w, 0) - sum_right s max(w - p, 0) over the kinks (p, s) on either side of
    its maximum. Each side is a heap of (position outwards, s): -p on the left and p on the right, less what all moved.
    """
    best, moved = 0.0, 0.0
    left: list[tuple[float, float]] = []
    right: list[tuple[float, float]] = []
    for step, residual in zip(np.diff(values, prepend=values[0]), residuals, strict=True):
        moved += float(step)  # the value at w becomes the maximum over [w - step, w + step]
        # r w is |r| - |r| max(1 - w, 0) or its mirror image: a kink at the far end. Two kinks of one size that overlap,
        # left p > right q, are worth size * (p - q) less and change places; at or beyond the end there is none.
        size = abs(float(residual))
        best += size
        gaining, losing = (left, right) if residual > 0 else (right, left)
        while size > 0 and losing and losing[0][0] + moved < 1:
            position, its_size = heappop(losing)
            position += moved
            moved_size = min(size, its_size)
            best -= moved_size * (1 - position)
            heappush(gaining, (-position - moved, moved_size))
            if its_size > moved_size:
                heappush(losing, (position - moved, its_size - moved_size))
            size -= moved_size
        if size > 0:
            heappush(gaining, (-1 - moved, size))
    return best


class LipschitzCalibrationError(UnbinnedError):
    """Lipschitz ("smooth") calibration error, smCE (Kakade and Foster 2008; Błasiok et al. 2023).

    smCE = max of 1/N sum_i w(c_i) (a_i - c_i) over 1-Lipschitz w: [0, 1] -> [-1, 1], with
    confidence c_i and hit a_i: a linear program over the distinct confidences, solved exactly. The
    FCL paper defines this (its Definition 2.2) and reports smECE, `SmoothCalibrationError`, in its
    place.

    Range [0, 1], and at most the binned error plus the bins' width; NaN without examples.
    State: 4 bytes an example. `compute` runs on the CPU.

    Examples:
        >>> import torch
        >>> from calibench.metrics import LipschitzCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = LipschitzCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.0800, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"lipschitz_ce": rate("smCE")}

    draws = 39  # each takes some hundred times as long as of other metrics

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest correlation with each set's residuals; see `ErrorOfCells.error_of_cells`."""
        values, residuals = (total / count).cpu().numpy(), (hits - total) / count.sum()
        errors = [largest_correlation(values, row) for row in residuals.cpu().numpy()]
        return torch.tensor(errors, dtype=torch.float64, device=hits.device)


def lipschitz_calibration_error(
    preds: Tensor, target: Tensor, *, ignore_index: int | None = None
) -> Tensor:
    """Lipschitz ("smooth") calibration error, smCE (Kakade and Foster 2008; Błasiok et al. 2023).

    The value for a single set; see `LipschitzCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1], and at most the binned error plus the bins' width; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import lipschitz_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> lipschitz_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.0800, dtype=torch.float64)
    """
    return compute_once(LipschitzCalibrationError, preds, target, ignore_index=ignore_index)


class Sweep:
    """Equal-mass bins of distinct confidences, for one number of bins after the other.

    From the number of examples with each confidence, ascending, and what these sum to, (M,) each.
    """

    def __init__(self, count: Tensor, total: Tensor) -> None:
        self._until = _prefix_sums(count.numpy())
        self._total = _prefix_sums(total.numpy())
        places = torch.arange(len(count))
        self._ordered = places.repeat_interleave(count.long())
        self._ends_by_number: dict[int, np.ndarray] = {}

    def errors(self, hits: np.ndarray) -> np.ndarray:
        """The error of each set, (R,), given its hits among the examples with each confidence, (R, M)."""
        until, n = _prefix_sums(hits), len(self._ordered)
        is_monotonic = self._rises(until, n)  # so do the accuracies of all wider bins, then
        numbers, rising = np.where(is_monotonic, n, 1), np.flatnonzero(~is_monotonic)
        for n_bins in range(2, n):
            rising = rising[self._rises(until[rising], n_bins)]
            if not len(rising):
                break
            numbers[rising] = n_bins
        errors = np.empty(len(hits))
        for number in np.unique(numbers):
            ends, is_number = self._ends(number), numbers == number
            gaps = np.diff(self._total[ends]) - np.diff(until[is_number][:, ends])
            errors[is_number] = np.abs(gaps).sum(axis=1) / n
        return errors

    def _ends(self, n_bins: int) -> np.ndarray:
        """Where the bins that hold something begin and end among the distinct confidences."""
        if n_bins not in self._ends_by_number:
            cuts = np.unique(equal_mass_cuts(self._ordered, n_bins))
            self._ends_by_number[n_bins] = np.searchsorted(self._until, cuts)
        return self._ends_by_number[n_bins]

    def _rises(self, hits: np.ndarray, n_bins: int) -> np.ndarray:
        ends = self._ends(n_bins)
        accuracy = np.diff(hits[:, ends]) / np.diff(self._until[ends])
        is_rising: np.ndarray = (accuracy[:, 1:] >= accuracy[:, :-1]).all(axis=1)
        return is_rising


def _prefix_sums(values: np.ndarray) -> np.ndarray:
    sums = values.cumsum(axis=-1)
    return np.concatenate([np.zeros(sums[..., :1].shape), sums], axis=-1)


class SweepCalibrationError(UnbinnedError):
    """Calibration error with monotonic sweep, ECE_sweep (Roelofs et al. 2022, eq. 8).

    The calibration error over equal-mass bins, of which there are as many as possible without the accuracy falling from
    one bin to the next, for this number of bins and for all smaller ones. Equal confidences share a bin.

    Range [0, 1]; NaN without examples. State: 4 bytes an example. `compute` sums on the CPU.

    Examples:
        >>> import torch
        >>> from calibench.metrics import SweepCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = SweepCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.1750, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"ece_sweep": rate("ECE sweep")}

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The error of each set in the bins that its own hits allow; see `ErrorOfCells.error_of_cells`."""
        sweep = Sweep(count.cpu(), total.cpu())
        rows, size = hits.cpu().numpy(), max(1, _ENTRIES // max(1, len(count)))
        blocks = [sweep.errors(rows[start : start + size]) for start in range(0, len(rows), size)]
        return torch.from_numpy(np.concatenate(blocks)).to(hits.device)


def sweep_calibration_error(
    preds: Tensor, target: Tensor, *, ignore_index: int | None = None
) -> Tensor:
    """Calibration error with monotonic sweep, ECE_sweep (Roelofs et al. 2022, eq. 8).

    The value for a single set; see `SweepCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import sweep_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> sweep_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.1750, dtype=torch.float64)
    """
    return compute_once(SweepCalibrationError, preds, target, ignore_index=ignore_index)

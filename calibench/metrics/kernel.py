"""Kernel calibration error: an unbiased estimate over pairs of examples, with its p-value."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from calibench.messages.checks import integer_from, positive
from calibench.metrics.base import PackedColumnsMetric, compute_once
from calibench.metrics.probability_batches import unpack
from calibench.metrics.titles import NEITHER, Title, Titles

_ENTRIES = 1 << 22  # of the matrix of pairs that are held at once
_REPLICATES = 200
_MOST, _BLOCK = 20_000, 1_000  # all pairs of more examples take minutes


def kernel_terms(probs: Tensor, residuals: Tensor, rows: slice, bandwidth: float) -> Tensor:
    """h_ij = k(p_i, p_j) (e_i - p_i)'(e_j - p_j) for some i and all j, 0 where i = j: (n, K) x 2 -> (rows, n)."""
    kernel = (torch.cdist(probs[rows], probs) / -bandwidth).exp_()
    products = kernel.mul_(residuals[rows] @ residuals.T)
    products.diagonal(rows.start).zero_()
    return products


def estimate_and_p(probs: Tensor, residuals: Tensor, bandwidth: float) -> Tensor:
    """The unbiased estimate over all pairs, and its p-value by a bootstrap of the degenerate U-statistic, (2,)."""
    n = len(probs)
    generator = torch.Generator(probs.device).manual_seed(0)
    draws = torch.randint(n, (_REPLICATES, n), generator=generator, device=probs.device)
    counts = torch.zeros(_REPLICATES, n, dtype=probs.dtype, device=probs.device)
    weights = counts.scatter_add_(1, draws, torch.ones_like(counts)).sub_(1).T
    total, replicates = probs.new_zeros(()), probs.new_zeros(_REPLICATES)
    step = max(1, _ENTRIES // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        products = kernel_terms(probs, residuals, rows, bandwidth)
        total += products.sum()
        replicates += (weights[rows] * (products @ weights)).sum(0)
    # Rounding must not decide between values that are equal.
    above = (replicates >= total - 1e-12 * total.abs()).sum()
    return torch.stack([total / (n * (n - 1)), (1 + above) / (1 + _REPLICATES)])


def block_estimate_and_p(probs: Tensor, residuals: Tensor, bandwidth: float, size: int) -> Tensor:
    """The mean of the unbiased estimates within blocks of rows, with its p-value under a normal distribution, (2,)."""
    blocks = zip(torch.split(probs, size), torch.split(residuals, size), strict=True)
    means = [
        kernel_terms(p, r, slice(0, len(p)), bandwidth).sum() / (size * (size - 1))
        for p, r in blocks
        if len(p) == size
    ]
    each = torch.stack(means) if means else probs.new_full((1,), torch.nan)
    mean = each.mean()
    variance = (each - mean).square().sum() / (len(each) - 1)  # NaN of a single block
    z = mean / (variance / len(each)).sqrt()
    return torch.stack([mean, torch.where(mean == 0, 1.0, torch.erfc(z / 2**0.5) / 2)])


def _shuffled(packed: Tensor) -> Tensor:
    """A random order of the rows that does not depend on the one in which they came."""
    order = torch.arange(len(packed), device=packed.device)
    for column in packed.unbind(1):
        order = order[column[order].argsort(stable=True)]
    generator = torch.Generator().manual_seed(0)
    return order[torch.randperm(len(order), generator=generator).to(order.device)]


class SquaredKernelCalibrationError(PackedColumnsMetric):
    """Squared kernel calibration error, SKCE, unbiased (Widmann et al. 2019, table 1).

    SKCE = 2 / (n (n - 1)) sum_{i<j} k(p_i, p_j) (e_{y_i} - p_i)'(e_{y_j} - p_j) with the exponential kernel k(p, q) =
    exp(-|p - q| / bandwidth): 0 in expectation for a network that is calibrated in the strongest sense, so an estimate
    can be negative.

    Args:
        bandwidth: Of the kernel; probabilities of two classes that are certain lie 2^0.5 apart.
        block_size: B: the mean over random blocks of B examples, n B K steps, with more variance than that over all
            pairs, n^2 (K + 200) steps. None: all pairs up to 20,000 examples, blocks of 1,000 above.

    `compute` returns a dict of float64 scalars: `skce` and `p`, the p-value of perfect calibration: by 200 bootstrap
    replicates of the degenerate U-statistic (Arcones and Gine 1992) for all pairs, by the normal distribution for
    blocks. NaN below two examples, and for blocks where there is none. State: **all probabilities**, 4 K bytes an
    example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import SquaredKernelCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = SquaredKernelCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'skce': -0.0466, 'p': 0.9303}
    """

    titles: ClassVar[Titles] = {"skce": Title("SKCE"), "skce_p": Title("SKCE p", NEITHER)}

    def __init__(
        self, *, bandwidth: float = 1.0, block_size: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(kind="marginal", **kwargs)
        self.bandwidth = positive("bandwidth", bandwidth)
        self.block_size = (
            integer_from("block_size", block_size, 2) if block_size is not None else None
        )

    def compute(self) -> dict[str, Tensor]:
        """The estimate and its p-value, see the class."""
        packed = self.packed_columns()
        values = torch.full((2,), torch.nan, dtype=torch.float64, device=packed.device)
        if len(packed) > 1:
            probs, outcome = (part.double() for part in unpack(packed[_shuffled(packed)]))
            size = self.block_size or (_BLOCK if len(packed) > _MOST else None)
            if size is None:
                values = estimate_and_p(probs, outcome - probs, self.bandwidth)
            else:
                values = block_estimate_and_p(probs, outcome - probs, self.bandwidth, size)
        return dict(zip(("skce", "p"), values, strict=True))


def squared_kernel_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    bandwidth: float = 1.0,
    block_size: int | None = None,
    ignore_index: int | None = None,
) -> dict[str, Tensor]:
    """Squared kernel calibration error, SKCE, unbiased (Widmann et al. 2019, table 1).

    The value for a single set; see `SquaredKernelCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        bandwidth: Of the kernel; probabilities of two classes that are certain lie 2^0.5 apart.
        block_size: B: the mean over random blocks of B examples, n B K steps, with more variance than that over
            all pairs, n^2 (K + 200) steps. None: all pairs up to 20,000 examples, blocks of 1,000 above.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Float64 scalars `skce` and `p`, the p-value of perfect calibration; NaN below two examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import squared_kernel_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> squared_kernel_calibration_error(preds, torch.tensor([0, 1, 1, 2]))["p"]
        tensor(0.9303, dtype=torch.float64)
    """
    return compute_once(
        SquaredKernelCalibrationError,
        preds,
        target,
        bandwidth=bandwidth,
        block_size=block_size,
        ignore_index=ignore_index,
    )

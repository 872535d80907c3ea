"""Norm of the gradient of each example's loss with respect to the last linear layer, without a backward per example.

With z = W h + b, the gradient of l with respect to W is (dl/dz) h^T and to b it is dl/dz, so that its norm is
||dl/dz|| sqrt(||h||^2 + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from calibench.analyses.last_layer import outputs_of
from calibench.data import Batch
from calibench.ground.binning import equal_width_bin

Loss = Callable[[Tensor, Tensor], Tensor]

N_BINS = 20
ALONE = 8  # examples that are compared with themselves in a batch of one
SAME = 1e-6


class Norms(NamedTuple):
    """Uncertainty and gradient norm of every example.

    Attributes:
        target: The classes (N,) int64.
        brier: Brier scores sum_k (p_k - Y_k)^2 (N,) float64, in [0, 2].
        norm: Norms (N,) float64.
        coupled: Whether the loss couples the examples of a batch.
    """

    target: Tensor
    brier: Tensor
    norm: Tensor
    coupled: bool


class RunNorms(NamedTuple):
    """The norms of a run after an epoch."""

    label: str
    epoch: int
    norms: Norms


class NormSummary(NamedTuple):
    """How closely the norm follows the Brier score.

    Attributes:
        pearson: Pearson's correlation.
        spearman: Spearman's.
        spread: Mean over bins of the Brier score of the standard deviation of the norm within a bin.
        relative: The same in units of the standard deviation of all norms: scaling a loss does not change it.
        bins: Bins with two examples or more.
    """

    pearson: float
    spearman: float
    spread: float
    relative: float
    bins: int


def gradient_norms(
    network: nn.Module, loss: Loss, batches: Iterable[Batch], *, batch_size: int
) -> Norms:
    """Gradient norms of all examples with respect to the last linear layer.

    For a loss that couples the examples of a batch they are N times the row of the gradient of the mean loss of N
    examples, of random batches.

    Args:
        network: A network that ends in a linear layer.
        loss: From logits (N, K) and classes (N,) to the mean loss.
        batches: The examples.
        batch_size: N of a loss that couples examples.

    Raises:
        UsageError: If the network does not end in a linear layer.
    """
    parts = []
    for features, logits, target, bias in outputs_of(network, batches):
        scale = (features.double().square().sum(1) + bias).sqrt()
        parts.append((scale, logits.double(), target))
    scale, logits, target = (torch.cat(part) for part in zip(*parts, strict=True))
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))
    of_logits = torch.empty_like(scale)
    for rows in torch.split(order, batch_size):
        of_logits[rows] = _rows_of_gradient(loss, logits[rows], target[rows]).norm(dim=1)
    first = order[: min(batch_size, len(order))]
    brier = (logits.softmax(1) - F.one_hot(target, logits.shape[1])).square().sum(1)
    coupled = is_coupled(loss, logits[first], target[first])
    return Norms(target, brier, of_logits * scale, coupled)


def _rows_of_gradient(loss: Loss, logits: Tensor, target: Tensor) -> Tensor:
    """N times the gradient of the mean loss of N examples, (N, K)."""
    leaf = logits.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, target), leaf)
    return gradient * len(target)


def is_coupled(loss: Loss, logits: Tensor, target: Tensor) -> bool:
    """Whether the gradient of some example differs from that of the same example in a batch of one."""
    together = _rows_of_gradient(loss, logits, target)[:ALONE]
    rows = [slice(row, row + 1) for row in range(len(together))]
    alone = torch.cat([_rows_of_gradient(loss, logits[row], target[row]) for row in rows])
    return float((alone - together).abs().max()) > SAME * float(together.abs().max())


def summary(norms: Norms) -> NormSummary:
    """Correlations of norm and Brier score, and the spread of the norm within 20 bins of the Brier score's [0, 2]."""
    brier, norm = norms.brier.numpy(), norms.norm.numpy()
    bins = equal_width_bin(norms.brier / 2, N_BINS)
    groups = [group for b in range(N_BINS) if len(group := norms.norm[bins == b]) > 1]
    spread = float(torch.stack([group.std() for group in groups]).mean()) if groups else torch.nan
    return NormSummary(
        float(stats.pearsonr(brier, norm).statistic),
        float(stats.spearmanr(brier, norm).statistic),
        spread,
        spread / float(norms.norm.std()),
        len(groups),
    )

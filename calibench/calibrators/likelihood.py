"""Weighted mean NLL of softmax(W f + b), its gradient and its Hessian, in blocks of rows that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from calibench.calibrators.confidence import in_blocks


def diagonal_nll(
    features: Tensor, target: Tensor, share: Tensor, weight: Tensor, bias: Tensor
) -> tuple[float, Tensor]:
    """Mean NLL of softmax(w * f + b), examples counted by `share` (N,), and its gradient (2, K) by w and b."""
    value, gradient = 0.0, torch.zeros_like(torch.stack([weight, bias]))
    for rows, labels, shares in in_blocks(features, target, share):
        loss, residual = _nll_and_residual(torch.addcmul(bias, rows, weight), labels, shares)
        value += loss
        gradient[0] += residual.mul(rows).sum(dim=0)
        gradient[1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def full_nll(
    features: Tensor, target: Tensor, share: Tensor, matrix: Tensor
) -> tuple[float, Tensor]:
    """Mean NLL of softmax(W f + b), as in `diagonal_nll`, and its gradient by the matrix (W, b), (K, K + 1)."""
    value, gradient = 0.0, torch.zeros_like(matrix)
    for rows, labels, shares in in_blocks(features, target, share):
        loss, residual = _nll_and_residual(affine_scores(rows, matrix), labels, shares)
        value += loss
        gradient[:, :-1] += residual.T @ rows
        gradient[:, -1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def full_hessian(features: Tensor, share: Tensor, matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """The Hessian of `full_nll` at a matrix (K, K + 1), as its product with a direction (K, K + 1)."""
    probs = affine_scores(features, matrix).softmax(dim=1)

    def product(direction: Tensor) -> Tensor:
        total = torch.zeros_like(direction)
        for rows, weights, shares in in_blocks(features, probs, share):
            change = affine_scores(rows, direction).mul_(weights)
            change.addcmul_(weights, change.sum(dim=1, keepdim=True), value=-1)
            change.mul_(shares.unsqueeze(1))
            total[:, :-1] += change.T @ rows
            total[:, -1] += change.sum(dim=0)
        return total / len(features)

    return product


def affine_scores(features: Tensor, matrix: Tensor) -> Tensor:
    """W f + b of each row, (N, K), for a matrix (W, b), (K, K + 1)."""
    return features @ matrix[:, :-1].T + matrix[:, -1]


def _nll_and_residual(scores: Tensor, target: Tensor, share: Tensor) -> tuple[float, Tensor]:
    """Summed NLL of a block, and probabilities minus one-hot targets, both times the share of the row."""
    log_probs = scores.log_softmax(dim=1)
    index = target.unsqueeze(1)
    loss = -(log_probs.gather(1, index).squeeze(1) @ share).item()
    one = scores.new_ones(index.shape)
    return loss, log_probs.exp_().scatter_add_(1, index, -one).mul_(share.unsqueeze(1))

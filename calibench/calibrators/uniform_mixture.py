"""The mixture of probabilities with the uniform distribution, (1 - c) p + c / K, which rules no class out."""

import math

import torch
from torch import Tensor


def mix_with_uniform(log_prob: Tensor, share: Tensor) -> Tensor:
    """Logarithms of (1 - c) p + c / K, for log-probabilities (N, K) and a share c in [0, 1)."""
    uniform = share.log() - math.log(log_prob.shape[1])
    return torch.logaddexp(log_prob + torch.log1p(-share), uniform)


def mix_probabilities_with_uniform(prob: Tensor, share: Tensor) -> Tensor:
    """(1 - c) p + c / K, for probabilities (N, K) and a share c in [0, 1)."""
    k = prob.shape[1]
    share = share.to(prob.dtype).expand(k)  # a row: torch takes three times as long to add a scalar
    return torch.addcmul(share / k, prob, 1 - share)

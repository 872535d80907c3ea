"""What losses are made of, in at least float32: log-probabilities, confidence, entropy, surprisal, residual."""

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.tensors.scores import at_least_float32

# torch leaves out the targets that equal `ignore_index`, -100 by default, and says nothing.
# Nobody means this number, so a target of -100 is refused as out of range.
NO_CLASS = torch.iinfo(torch.int64).min


def log_softmax(logits: Tensor) -> Tensor:
    """Log-softmax of (N, K) logits."""
    return at_least_float32(logits).log_softmax(1)


def confidence_and_correctness(log_probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence of the prediction and whether it is right, both (N,); ties go to the first class."""
    log_confidence, prediction = log_probs.max(dim=1)
    return log_confidence.exp(), prediction == target


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each prediction in nats: (N, K) -> (N,)."""
    log_probs = log_softmax(logits)
    # a masked class adds 0, not 0 * inf
    return -(log_probs.exp() * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(1)


def root(square: Tensor) -> Tensor:
    """Square root whose gradient at 0 is 0, where that of `sqrt` is infinite."""
    somewhere = square > 0
    return torch.where(somewhere, torch.where(somewhere, square, 1.0).sqrt(), 0.0)


def surprisal(log_probs: Tensor, target: Tensor) -> Tensor:
    """-log p_y of each example: (N, K) and (N,) -> (N,)."""
    return F.nll_loss(log_probs, target, reduction="none", ignore_index=NO_CLASS)


def residual(log_probs: Tensor, target: Tensor) -> Tensor:
    """Probabilities minus the one-hot target, p - Y: (N, K) and (N,) -> (N, K)."""
    index = target.unsqueeze(1)
    # p_y - 1 as expm1(log p_y): 0 exactly where -log p_y is
    return log_probs.exp().scatter(1, index, torch.expm1(log_probs.gather(1, index)))

"""Your own loss: a function of logits (N, K) and class numbers (N,), one value per example or their mean."""

import torch
import torch.nn.functional as F


def poly_loss(logits: torch.Tensor, target: torch.Tensor, epsilon: float = 1.0) -> torch.Tensor:
    """Poly-1 (Leng et al. 2022): cross-entropy + epsilon * (1 - p_y)."""
    cross_entropy = F.cross_entropy(logits, target, reduction="none")
    return cross_entropy + epsilon * (1 - torch.exp(-cross_entropy))


# A loss that wants to know more (class counts, the epoch, the examples, the validation logits) is a class:
#
#     class MyLoss(calibench.losses.CalibrationLoss):
#         def on_train_epoch_start(self, epoch, total_epochs): ...
#         def forward(self, logits, target): ...

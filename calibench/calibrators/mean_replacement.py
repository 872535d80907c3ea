"""Mean replacement: a calibrator that nobody should use, to see which tables it would win."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.confidence import is_correct


class MeanReplacement(Calibrator):
    """Every confidence becomes the validation accuracy, whatever the input (Chidambaram & Ge 2024).

    A canary: it keeps the predicted classes and throws everything else away, so it has nearly no calibration error
    and a poor NLL. A ranking that it wins ranks nothing of use. It is no default: who wants to see it asks for it.

    The other classes share the rest equally, so an accuracy below 1 / K is replaced by 1 / K; classes with the same
    largest logit share too. With an accuracy of 1 the others have what `shrinkage` gives them, else probability 0.

    Attributes:
        accuracy: Accuracy on the validation set, a scalar.
    """

    preserves_accuracy = True
    fitted_buffers = reported = ("accuracy",)
    accuracy: Tensor

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.accuracy = is_correct(logits, target).double().mean()

    def _log_prob(self, logits: Tensor) -> Tensor:
        num_classes = logits.shape[1]
        confidence = self.accuracy.clamp(min=1 / num_classes)
        rest = (1 - confidence) / (num_classes - 1)
        top = logits == logits.amax(dim=1, keepdim=True)
        tied = top.sum(dim=1, keepdim=True)
        return torch.where(top, (confidence + (tied - 1) * rest) / tied, rest).log()

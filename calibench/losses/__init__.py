"""Training losses: `loss(logits, target)` is a scalar, the mean over the batch."""

from calibench.losses.base import CalibrationLoss, PerExampleLoss, cross_entropy
from calibench.losses.brier import BrierLoss, brier_loss
from calibench.losses.cross_entropy import CrossEntropyLoss
from calibench.losses.dual_focal import DualFocalLoss, dual_focal_loss
from calibench.losses.flsd import FLSDLoss, flsd_loss
from calibench.losses.focal import FocalLoss, focal_loss
from calibench.losses.gce import GenerativeCrossEntropy, generative_cross_entropy
from calibench.losses.label_smoothing import LabelSmoothingLoss, label_smoothing_loss

__all__ = [
    "BrierLoss",
    "CalibrationLoss",
    "CrossEntropyLoss",
    "DualFocalLoss",
    "FLSDLoss",
    "FocalLoss",
    "GenerativeCrossEntropy",
    "LabelSmoothingLoss",
    "PerExampleLoss",
    "brier_loss",
    "cross_entropy",
    "dual_focal_loss",
    "flsd_loss",
    "focal_loss",
    "generative_cross_entropy",
    "label_smoothing_loss",
]

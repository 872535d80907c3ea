"""Training losses: `loss(logits, target)` is a scalar, the mean over the batch."""

from calibench.losses.adafocal import AdaFocalLoss, signed_focal_loss
from calibench.losses.base import CalibrationLoss, PerExampleLoss
from calibench.losses.brier import BrierLoss, brier_loss
from calibench.losses.brier_weighted import BrierWeightedLoss, BSCEGRALoss, brier_weighted_loss
from calibench.losses.class_balanced import ClassBalancedLoss
from calibench.losses.composite import WeightedSum
from calibench.losses.cross_entropy import CrossEntropyLoss
from calibench.losses.dual_focal import DualFocalLoss, dual_focal_loss
from calibench.losses.ece_weighted import ECEWeightedLoss
from calibench.losses.flsd import FLSDLoss, flsd_loss
from calibench.losses.focal import FocalLoss, focal_loss
from calibench.losses.focal_calibration import FocalCalibrationLoss, focal_calibration_loss
from calibench.losses.gce import GenerativeCrossEntropy, generative_cross_entropy
from calibench.losses.generative_focal import GenerativeFocalLoss, generative_focal_loss
from calibench.losses.gradient_reweighting import (
    DualFocalGRALoss,
    FLSDGRALoss,
    FocalGRALoss,
    dual_focal_gra_loss,
    flsd_gra_loss,
    focal_gra_loss,
)
from calibench.losses.imported import ImportedLoss
from calibench.losses.inverse_focal import InverseFocalLoss, inverse_focal_loss
from calibench.losses.label_smoothing import LabelSmoothingLoss, label_smoothing_loss
from calibench.losses.ldam import LDAMLoss, ldam_loss
from calibench.losses.logit_adjustment import (
    BalancedSoftmaxLoss,
    LogitAdjustedLoss,
    logit_adjusted_loss,
)
from calibench.losses.margin import MarginLoss, margin_loss
from calibench.losses.mdca import DCALoss, MDCALoss, dca_penalty, mdca_penalty
from calibench.losses.mmce import MMCELoss, WeightedMMCELoss, mmce_penalty, weighted_mmce_penalty
from calibench.losses.softmax import cross_entropy_loss

__all__ = [
    "AdaFocalLoss",
    "BSCEGRALoss",
    "BalancedSoftmaxLoss",
    "BrierLoss",
    "BrierWeightedLoss",
    "CalibrationLoss",
    "ClassBalancedLoss",
    "CrossEntropyLoss",
    "DCALoss",
    "DualFocalGRALoss",
    "DualFocalLoss",
    "ECEWeightedLoss",
    "FLSDGRALoss",
    "FLSDLoss",
    "FocalCalibrationLoss",
    "FocalGRALoss",
    "FocalLoss",
    "GenerativeCrossEntropy",
    "GenerativeFocalLoss",
    "ImportedLoss",
    "InverseFocalLoss",
    "LDAMLoss",
    "LabelSmoothingLoss",
    "LogitAdjustedLoss",
    "MDCALoss",
    "MMCELoss",
    "MarginLoss",
    "PerExampleLoss",
    "WeightedMMCELoss",
    "WeightedSum",
    "brier_loss",
    "brier_weighted_loss",
    "cross_entropy_loss",
    "dca_penalty",
    "dual_focal_gra_loss",
    "dual_focal_loss",
    "flsd_gra_loss",
    "flsd_loss",
    "focal_calibration_loss",
    "focal_gra_loss",
    "focal_loss",
    "generative_cross_entropy",
    "generative_focal_loss",
    "inverse_focal_loss",
    "label_smoothing_loss",
    "ldam_loss",
    "logit_adjusted_loss",
    "margin_loss",
    "mdca_penalty",
    "mmce_penalty",
    "signed_focal_loss",
    "weighted_mmce_penalty",
]

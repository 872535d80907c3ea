"""Training losses: `loss(logits, target)` is a scalar, the mean over the batch."""

from typing import TYPE_CHECKING

from calibench.ground.family import Family
from calibench.ground.lazily import lazy, lines_on_classes

if TYPE_CHECKING:
    from calibench.losses.base import CalibrationLoss as CalibrationLoss
    from calibench.losses.base import ImportedLoss as ImportedLoss
    from calibench.losses.base import PerExampleLoss as PerExampleLoss
    from calibench.losses.base import WeightedSum as WeightedSum
    from calibench.losses.batch_penalties import DCALoss as DCALoss
    from calibench.losses.batch_penalties import MDCALoss as MDCALoss
    from calibench.losses.batch_penalties import MMCELoss as MMCELoss
    from calibench.losses.batch_penalties import WeightedMMCELoss as WeightedMMCELoss
    from calibench.losses.batch_penalties import dca_penalty as dca_penalty
    from calibench.losses.batch_penalties import mdca_penalty as mdca_penalty
    from calibench.losses.batch_penalties import mmce_penalty as mmce_penalty
    from calibench.losses.batch_penalties import weighted_mmce_penalty as weighted_mmce_penalty
    from calibench.losses.class_counts import BalancedSoftmaxLoss as BalancedSoftmaxLoss
    from calibench.losses.class_counts import ClassBalancedLoss as ClassBalancedLoss
    from calibench.losses.class_counts import LDAMLoss as LDAMLoss
    from calibench.losses.class_counts import LogitAdjustedLoss as LogitAdjustedLoss
    from calibench.losses.class_counts import MaxEntLoss as MaxEntLoss
    from calibench.losses.class_counts import ldam_loss as ldam_loss
    from calibench.losses.class_counts import logit_adjusted_loss as logit_adjusted_loss
    from calibench.losses.cross_entropy import ACLSLoss as ACLSLoss
    from calibench.losses.cross_entropy import BrierLoss as BrierLoss
    from calibench.losses.cross_entropy import ConfidencePenaltyLoss as ConfidencePenaltyLoss
    from calibench.losses.cross_entropy import CrossEntropyLoss as CrossEntropyLoss
    from calibench.losses.cross_entropy import LabelSmoothingLoss as LabelSmoothingLoss
    from calibench.losses.cross_entropy import LogitNormLoss as LogitNormLoss
    from calibench.losses.cross_entropy import MarginLoss as MarginLoss
    from calibench.losses.cross_entropy import PolyLoss as PolyLoss
    from calibench.losses.cross_entropy import acls_loss as acls_loss
    from calibench.losses.cross_entropy import brier_loss as brier_loss
    from calibench.losses.cross_entropy import cross_entropy_loss as cross_entropy_loss
    from calibench.losses.cross_entropy import label_smoothing_loss as label_smoothing_loss
    from calibench.losses.cross_entropy import logit_norm_loss as logit_norm_loss
    from calibench.losses.cross_entropy import margin_loss as margin_loss
    from calibench.losses.cross_entropy import poly_loss as poly_loss
    from calibench.losses.focal import DualFocalLoss as DualFocalLoss
    from calibench.losses.focal import FLSDLoss as FLSDLoss
    from calibench.losses.focal import FocalCalibrationLoss as FocalCalibrationLoss
    from calibench.losses.focal import FocalLoss as FocalLoss
    from calibench.losses.focal import InverseFocalLoss as InverseFocalLoss
    from calibench.losses.focal import dual_focal_loss as dual_focal_loss
    from calibench.losses.focal import flsd_loss as flsd_loss
    from calibench.losses.focal import focal_calibration_loss as focal_calibration_loss
    from calibench.losses.focal import focal_loss as focal_loss
    from calibench.losses.focal import inverse_focal_loss as inverse_focal_loss
    from calibench.losses.gce import GenerativeCrossEntropy as GenerativeCrossEntropy
    from calibench.losses.gce import GenerativeFocalLoss as GenerativeFocalLoss
    from calibench.losses.gce import generative_cross_entropy as generative_cross_entropy
    from calibench.losses.gce import generative_focal_loss as generative_focal_loss
    from calibench.losses.gradient_reweighting import BrierWeightedLoss as BrierWeightedLoss
    from calibench.losses.gradient_reweighting import BSCEGRALoss as BSCEGRALoss
    from calibench.losses.gradient_reweighting import DualFocalGRALoss as DualFocalGRALoss
    from calibench.losses.gradient_reweighting import FLSDGRALoss as FLSDGRALoss
    from calibench.losses.gradient_reweighting import FocalGRALoss as FocalGRALoss
    from calibench.losses.gradient_reweighting import brier_weighted_loss as brier_weighted_loss
    from calibench.losses.gradient_reweighting import dual_focal_gra_loss as dual_focal_gra_loss
    from calibench.losses.gradient_reweighting import flsd_gra_loss as flsd_gra_loss
    from calibench.losses.gradient_reweighting import focal_gra_loss as focal_gra_loss
    from calibench.losses.soft_calibration import AURCLoss as AURCLoss
    from calibench.losses.soft_calibration import AvUCLoss as AvUCLoss
    from calibench.losses.soft_calibration import CorrectnessRankingLoss as CorrectnessRankingLoss
    from calibench.losses.soft_calibration import SoftAvUCLoss as SoftAvUCLoss
    from calibench.losses.soft_calibration import SoftBinnedECELoss as SoftBinnedECELoss
    from calibench.losses.validation_steered import AdaFocalLoss as AdaFocalLoss
    from calibench.losses.validation_steered import ECEWeightedLoss as ECEWeightedLoss
    from calibench.losses.validation_steered import signed_focal_loss as signed_focal_loss


LOSSES = Family("losses", "CalibrationLoss", lines_on_classes(__name__))


lazy(__name__, any_arrays=True)

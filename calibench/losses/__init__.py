"""Training losses: `loss(logits, target)` is a scalar, the mean over the batch."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.losses.base import CalibrationLoss as CalibrationLoss
    from calibench.losses.base import PerExampleLoss as PerExampleLoss
    from calibench.losses.base import attach as attach
    from calibench.losses.batch_penalties import DCALoss as DCALoss
    from calibench.losses.batch_penalties import MDCALoss as MDCALoss
    from calibench.losses.batch_penalties import MMCELoss as MMCELoss
    from calibench.losses.batch_penalties import WeightedMMCELoss as WeightedMMCELoss
    from calibench.losses.batch_penalties import dca_penalty as dca_penalty
    from calibench.losses.batch_penalties import mdca_penalty as mdca_penalty
    from calibench.losses.batch_penalties import mmce_penalty as mmce_penalty
    from calibench.losses.batch_penalties import weighted_mmce_penalty as weighted_mmce_penalty
    from calibench.losses.brier import BrierLoss as BrierLoss
    from calibench.losses.brier import brier_loss as brier_loss
    from calibench.losses.class_counts import BalancedSoftmaxLoss as BalancedSoftmaxLoss
    from calibench.losses.class_counts import ClassBalancedLoss as ClassBalancedLoss
    from calibench.losses.class_counts import LDAMLoss as LDAMLoss
    from calibench.losses.class_counts import LogitAdjustedLoss as LogitAdjustedLoss
    from calibench.losses.class_counts import MaxEntLoss as MaxEntLoss
    from calibench.losses.class_counts import ldam_loss as ldam_loss
    from calibench.losses.class_counts import logit_adjusted_loss as logit_adjusted_loss
    from calibench.losses.composite import WeightedSum as WeightedSum
    from calibench.losses.cross_entropy import ConfidencePenaltyLoss as ConfidencePenaltyLoss
    from calibench.losses.cross_entropy import CrossEntropyLoss as CrossEntropyLoss
    from calibench.losses.cross_entropy import LabelSmoothingLoss as LabelSmoothingLoss
    from calibench.losses.cross_entropy import LogitNormLoss as LogitNormLoss
    from calibench.losses.cross_entropy import PolyLoss as PolyLoss
    from calibench.losses.cross_entropy import cross_entropy_loss as cross_entropy_loss
    from calibench.losses.cross_entropy import label_smoothing_loss as label_smoothing_loss
    from calibench.losses.cross_entropy import logit_norm_loss as logit_norm_loss
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
    from calibench.losses.imported import ImportedLoss as ImportedLoss
    from calibench.losses.margins import ACLSLoss as ACLSLoss
    from calibench.losses.margins import MarginLoss as MarginLoss
    from calibench.losses.margins import acls_loss as acls_loss
    from calibench.losses.margins import margin_loss as margin_loss
    from calibench.losses.soft_calibration import AURCLoss as AURCLoss
    from calibench.losses.soft_calibration import AvUCLoss as AvUCLoss
    from calibench.losses.soft_calibration import CorrectnessRankingLoss as CorrectnessRankingLoss
    from calibench.losses.soft_calibration import SoftAvUCLoss as SoftAvUCLoss
    from calibench.losses.soft_calibration import SoftBinnedECELoss as SoftBinnedECELoss
    from calibench.losses.validation_steered import AdaFocalLoss as AdaFocalLoss
    from calibench.losses.validation_steered import ECEWeightedLoss as ECEWeightedLoss
    from calibench.losses.validation_steered import signed_focal_loss as signed_focal_loss

__all__ = [
    "ACLSLoss",
    "AURCLoss",
    "AdaFocalLoss",
    "AvUCLoss",
    "BSCEGRALoss",
    "BalancedSoftmaxLoss",
    "BrierLoss",
    "BrierWeightedLoss",
    "CalibrationLoss",
    "ClassBalancedLoss",
    "ConfidencePenaltyLoss",
    "CorrectnessRankingLoss",
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
    "LogitNormLoss",
    "MDCALoss",
    "MMCELoss",
    "MarginLoss",
    "MaxEntLoss",
    "PerExampleLoss",
    "PolyLoss",
    "SoftAvUCLoss",
    "SoftBinnedECELoss",
    "WeightedMMCELoss",
    "WeightedSum",
    "acls_loss",
    "attach",
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
    "logit_norm_loss",
    "margin_loss",
    "mdca_penalty",
    "mmce_penalty",
    "poly_loss",
    "signed_focal_loss",
    "weighted_mmce_penalty",
]

# What each is, and where it is from: the first line of its docstring.
LOSSES = Family(
    "losses",
    "CalibrationLoss",
    dict(
        ACLSLoss="Adaptive and conditional label smoothing, ACLS (Park et al. 2023).",
        AURCLoss="Batch-coupled: cross-entropy weighted by the rank of confidence, AURC (Zhou et al. 2025).",
        AdaFocalLoss="AdaFocal: focal loss whose gamma follows each bin's calibration (Ghosh et al. 2022).",
        AvUCLoss="Batch-coupled: cross-entropy + weight * AvUC, hard threshold (Krishnan and Tickoo 2020).",
        BSCEGRALoss="BSCE-GRA: cross-entropy's gradient weighted by a constant Brier norm (Lin et al. 2025).",
        BalancedSoftmaxLoss="Balanced softmax cross-entropy, logit adjustment with tau = 1 (Ren et al. 2020, eq. 3).",
        BrierLoss="Brier score, sum_k (p_k - Y_k)^2, in [0, 2]; strictly proper (Brier 1950).",
        BrierWeightedLoss="Brier-score-weighted cross-entropy, BSCE (Lin et al. 2025).",
        ClassBalancedLoss="Class-balanced cross-entropy, -w_y log p_y (Rajpurkar et al. 2017, CheXNet, section 2.1).",
        ConfidencePenaltyLoss="Confidence penalty, cross-entropy - weight * entropy (Pereyra et al. 2017).",
        CorrectnessRankingLoss="Batch-coupled: cross-entropy + weight * correctness ranking, CRL (Moon et al. 2020, "
        "eq. 2).",
        CrossEntropyLoss="Cross-entropy, -log p_y (torch.nn.functional.cross_entropy).",
        DCALoss="Batch-coupled: cross-entropy + weight * |mean confidence - accuracy| (Liang et al. 2020).",
        DualFocalGRALoss="DFL-GRA: dual focal loss with a constant factor (Lin et al. 2025).",
        DualFocalLoss="Dual focal loss, -(1 - p_y + p_j)^gamma log p_y (Tao et al. 2023).",
        ECEWeightedLoss="Batch-coupled: ECE-CE, cross-entropy weighted by calibration error (Lin et al. 2025).",
        FLSDGRALoss="FLSD-GRA: sample-dependent focal loss with a constant factor (Lin et al. 2025).",
        FLSDLoss="Sample-dependent focal loss, FLSD-53 (Mukhoti et al. 2020).",
        FocalCalibrationLoss="Focal calibration loss, focal + weight * ||p - Y||^2 (Liang et al. 2024, eq. 10-12).",
        FocalGRALoss="FL-GRA: focal loss with a constant factor (Lin et al. 2025).",
        FocalLoss="Focal loss, -(1 - p_y)^gamma log p_y (Lin et al. 2017; Mukhoti et al. 2020).",
        GenerativeCrossEntropy="Batch-coupled: generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026, eq. "
        "4-7).",
        GenerativeFocalLoss="Batch-coupled: GCE with focal modulation, AFL+GCE (Zhan, Zhou and Shen 2026, eq. 9 and "
        "16).",
        ImportedLoss="Any loss by import path: a function of (logits, target), or a class of such (this package).",
        InverseFocalLoss="Inverse focal loss, -(1 + p_y)^gamma log p_y (Wang, Feng and Zhang 2021).",
        LDAMLoss="Label-distribution-aware margin loss, LDAM (Cao et al. 2019, eq. 12-13).",
        LabelSmoothingLoss="Label smoothing (Szegedy et al. 2016; Mueller et al. 2019).",
        LogitAdjustedLoss="Logit-adjusted cross-entropy for long-tailed data (Menon et al. 2021, eq. 10).",
        LogitNormLoss="Logit normalisation, LogitNorm (Wei et al. 2022, eq. 5).",
        MDCALoss="Batch-coupled: any loss + MDCA, class by class (Hebbalaguppe et al. 2022).",
        MMCELoss="Batch-coupled: cross-entropy + weight * MMCE squared (Kumar et al. 2018).",
        MarginLoss="Margin-based label smoothing, MbLS (Liu et al. 2022).",
        MaxEntLoss="Focal loss + maximum-entropy constraints, MaxEnt loss (Neo, Winkler and Chen 2024).",
        PolyLoss="Poly-1, -log p_y + epsilon (1 - p_y) (Leng et al. 2022, eq. 5).",
        SoftAvUCLoss="Batch-coupled: cross-entropy + weight * S-AvUC, soft AvUC (Karandikar et al. 2021).",
        SoftBinnedECELoss="Batch-coupled: cross-entropy + weight * SB-ECE, soft-binned ECE (Karandikar et al. 2021).",
        WeightedMMCELoss="Batch-coupled: cross-entropy + weight * weighted MMCE (Kumar et al. 2018).",
        WeightedSum="Weighted sum of losses, sum_l weight_l loss_l (this package).",
    ),
    aliases={
        "mse": "BrierLoss",
        "mseloss": "BrierLoss",
        "meansquarederror": "BrierLoss",
        "l2": "BrierLoss",
        "gceloss": "GenerativeCrossEntropy",
        "ce": "CrossEntropyLoss",
        "celoss": "CrossEntropyLoss",
        "nll": "CrossEntropyLoss",
        "nllloss": "CrossEntropyLoss",
        "softmax": "CrossEntropyLoss",
        "logloss": "CrossEntropyLoss",
        "labelsmoothingcrossentropy": "LabelSmoothingLoss",
        "smoothing": "LabelSmoothingLoss",
    },
    remedies={
        "functional": "functions stand beside the classes: `calibench.losses.focal_loss(logits, target, gamma=3)`"
    },
)

_MODULES = {
    "ACLSLoss": "calibench.losses.margins",
    "AURCLoss": "calibench.losses.soft_calibration",
    "AdaFocalLoss": "calibench.losses.validation_steered",
    "AvUCLoss": "calibench.losses.soft_calibration",
    "BSCEGRALoss": "calibench.losses.gradient_reweighting",
    "BalancedSoftmaxLoss": "calibench.losses.class_counts",
    "BrierLoss": "calibench.losses.brier",
    "BrierWeightedLoss": "calibench.losses.gradient_reweighting",
    "CalibrationLoss": "calibench.losses.base",
    "ClassBalancedLoss": "calibench.losses.class_counts",
    "ConfidencePenaltyLoss": "calibench.losses.cross_entropy",
    "CorrectnessRankingLoss": "calibench.losses.soft_calibration",
    "CrossEntropyLoss": "calibench.losses.cross_entropy",
    "DCALoss": "calibench.losses.batch_penalties",
    "DualFocalGRALoss": "calibench.losses.gradient_reweighting",
    "DualFocalLoss": "calibench.losses.focal",
    "ECEWeightedLoss": "calibench.losses.validation_steered",
    "FLSDGRALoss": "calibench.losses.gradient_reweighting",
    "FLSDLoss": "calibench.losses.focal",
    "FocalCalibrationLoss": "calibench.losses.focal",
    "FocalGRALoss": "calibench.losses.gradient_reweighting",
    "FocalLoss": "calibench.losses.focal",
    "GenerativeCrossEntropy": "calibench.losses.gce",
    "GenerativeFocalLoss": "calibench.losses.gce",
    "ImportedLoss": "calibench.losses.imported",
    "InverseFocalLoss": "calibench.losses.focal",
    "LDAMLoss": "calibench.losses.class_counts",
    "LabelSmoothingLoss": "calibench.losses.cross_entropy",
    "LogitAdjustedLoss": "calibench.losses.class_counts",
    "LogitNormLoss": "calibench.losses.cross_entropy",
    "MDCALoss": "calibench.losses.batch_penalties",
    "MMCELoss": "calibench.losses.batch_penalties",
    "MarginLoss": "calibench.losses.margins",
    "MaxEntLoss": "calibench.losses.class_counts",
    "PerExampleLoss": "calibench.losses.base",
    "PolyLoss": "calibench.losses.cross_entropy",
    "SoftAvUCLoss": "calibench.losses.soft_calibration",
    "SoftBinnedECELoss": "calibench.losses.soft_calibration",
    "WeightedMMCELoss": "calibench.losses.batch_penalties",
    "WeightedSum": "calibench.losses.composite",
    "acls_loss": "calibench.losses.margins",
    "attach": "calibench.losses.base",
    "brier_loss": "calibench.losses.brier",
    "brier_weighted_loss": "calibench.losses.gradient_reweighting",
    "cross_entropy_loss": "calibench.losses.cross_entropy",
    "dca_penalty": "calibench.losses.batch_penalties",
    "dual_focal_gra_loss": "calibench.losses.gradient_reweighting",
    "dual_focal_loss": "calibench.losses.focal",
    "flsd_gra_loss": "calibench.losses.gradient_reweighting",
    "flsd_loss": "calibench.losses.focal",
    "focal_calibration_loss": "calibench.losses.focal",
    "focal_gra_loss": "calibench.losses.gradient_reweighting",
    "focal_loss": "calibench.losses.focal",
    "generative_cross_entropy": "calibench.losses.gce",
    "generative_focal_loss": "calibench.losses.gce",
    "inverse_focal_loss": "calibench.losses.focal",
    "label_smoothing_loss": "calibench.losses.cross_entropy",
    "ldam_loss": "calibench.losses.class_counts",
    "logit_adjusted_loss": "calibench.losses.class_counts",
    "logit_norm_loss": "calibench.losses.cross_entropy",
    "margin_loss": "calibench.losses.margins",
    "mdca_penalty": "calibench.losses.batch_penalties",
    "mmce_penalty": "calibench.losses.batch_penalties",
    "poly_loss": "calibench.losses.cross_entropy",
    "signed_focal_loss": "calibench.losses.validation_steered",
    "weighted_mmce_penalty": "calibench.losses.batch_penalties",
}

# What tables print, `CrossEntropy`, beside the class.
if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(
        __name__,
        _MODULES,
        aliases={name.removesuffix("Loss"): name for name in _MODULES if name in LOSSES.lines},
        any_arrays=True,
        family=LOSSES,
    )

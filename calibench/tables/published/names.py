"""Names of losses, networks and datasets in the papers, where this package calls them otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# FCL's tables call cross-entropy with the protocol's weight decay "Weight Decay".
LOSSES = {
    "CrossEntropyLoss": ("cross_entropy", "weight_decay"),
    "BrierLoss": ("brier",),
    "WeightedMMCELoss": ("mmce",),  # what the papers' code trains in their MMCE rows
    "FocalLoss": ("focal",),
    "FLSDLoss": ("flsd53",),
    "DualFocalLoss": ("dual_focal",),
    "AdaFocalLoss": ("adafocal",),
    "LabelSmoothingLoss": ("label_smoothing",),
    "GenerativeCrossEntropy": ("gce",),
    "GenerativeFocalLoss": ("gce_adafocal",),
    "FocalCalibrationLoss": ("fcl",),
    "BrierWeightedLoss": ("bsce",),
    "BSCEGRALoss": ("bsce_gra",),
    "FLSDGRALoss": ("flsd53_gra",),
    "DualFocalGRALoss": ("dual_focal_gra",),
}

# The reference code's "Wide-ResNet-28-10" builds depth 26; the papers print either number.
MODELS = {
    "CIFARResNet50": ("resnet50",),
    "TinyImageNetResNet50": ("resnet50",),
    "CIFARResNet110": ("resnet110",),
    "TinyImageNetResNet110": ("resnet110",),
    "WideResNet26x10": ("wide_resnet26_10", "wide_resnet28_10"),
    "CIFARDenseNet121": ("densenet121",),
    "DenseNet121": ("densenet121",),
    "GlobalPoolingCNN": ("global_pooling_cnn",),
}

DATASETS = {"newsgroups": "20newsgroups"}

STAGES = {"raw": "pre", "TemperatureScaling": "post_ts", "AdaptiveTemperatureScaling": "post_ats"}


def loss_names(loss: str) -> tuple[str, ...]:
    """The names that the papers use for a loss class; its own name if no paper has it."""
    return LOSSES.get(loss, (loss,))


def model_names(backbone: str) -> tuple[str, ...]:
    """The names that the papers use for a backbone."""
    return MODELS.get(backbone, (backbone,))


def dataset_of(benchmark: str, settings: Mapping[str, Any]) -> str:
    """The name that the papers use for a benchmark: `cifar10_lt` with imbalance factor 10 is `cifar10_lt10`."""
    if not benchmark.endswith("_lt"):
        return DATASETS.get(benchmark, benchmark)
    factor = settings.get("data.init_args.imbalance_factor")
    return f"{benchmark}{factor:g}" if isinstance(factor, int | float) else benchmark

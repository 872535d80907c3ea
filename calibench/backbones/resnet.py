"""Residual networks for CIFAR and Tiny-ImageNet, with the parameter counts of the papers' code.

The reference is `Net/` of focal_calibration (Mukhoti et al. 2020), which the GCE, FCL and BSCE-GRA
papers use as well: 3x3 stride-1 stem, no max pooling, no temperature. Images of any size are pooled
globally, so 32x32 is a choice of the benchmark, not of the network.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone


class _Pooled(Backbone, ABC):
    """Features, average pooling to `pool` x `pool`, one linear layer."""

    pool: ClassVar[int] = 1
    features: nn.Module
    fc: nn.Linear

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        pooled = F.adaptive_avg_pool2d(self.features(inputs), self.pool)
        logits: Tensor = self.fc(pooled.flatten(1))
        return logits


class _BottleneckResNet(_Pooled, ABC):
    """Four stages of bottlenecks, 64 to 512 planes, PyTorch's default initialisation."""

    depths: ClassVar[tuple[int, ...]]

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        from calibench.backbones.residual import Bottleneck, residual_features

        super().__init__()
        self.num_classes = num_classes
        self.features = residual_features(
            Bottleneck,
            stem=64,
            planes=(64, 128, 256, 512),
            depths=self.depths,
            in_channels=in_channels,
        )
        self.fc = nn.Linear(2048 * self.pool**2, num_classes)


class CIFARResNet50(_BottleneckResNet):
    """ResNet-50 with a 3x3 stem for 32x32 images (He et al. 2016; Mukhoti et al. 2020).

    23,520,842 parameters with 10 classes, 23,705,252 with 100.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depths = (3, 4, 6, 3)


class CIFARResNet110(_BottleneckResNet):
    """The calibration papers' ResNet-110: bottlenecks [3, 4, 26, 3] (Mukhoti et al. 2020).

    45,864,522 parameters with 10 classes, 46,048,932 with 100; not the 1.7-million-parameter CIFAR
    ResNet-110 of He et al. (2016).

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depths = (3, 4, 26, 3)


class _TinyImageNetResNet(_BottleneckResNet, ABC):
    """A bottleneck network with 2x2 pooling and He initialisation."""

    pool = 2

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels)
        _initialise_he(self)


class TinyImageNetResNet50(_TinyImageNetResNet):
    """ResNet-50 for 64x64 images: 3x3 stem, 2x2 pooling, 8192 features (Mukhoti et al. 2020).

    25,138,952 parameters with 200 classes.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depths = (3, 4, 6, 3)


class TinyImageNetResNet110(_TinyImageNetResNet):
    """ResNet-110 [3, 4, 26, 3] for 64x64 images, 2x2 pooling (Mukhoti et al. 2020).

    47,482,632 parameters with 200 classes.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depths = (3, 4, 26, 3)


class WideResNet26x10(_Pooled):
    """Wide-ResNet-26-10, post-activation: the papers' "28-10" (Mukhoti et al. 2020).

    36,481,434 parameters with 10 classes, 36,539,124 with 100 (Zagoruyko and Komodakis 2016). Four
    blocks a stage as in WRN-28-10, but convolution, normalisation, activation in this order, 1x1
    convolution shortcuts and no dropout.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        from calibench.backbones.residual import BasicBlock, residual_features

        super().__init__()
        self.num_classes = num_classes
        self.features = residual_features(
            BasicBlock, stem=16, planes=(160, 320, 640), depths=(4, 4, 4), in_channels=in_channels
        )
        self.fc = nn.Linear(640, num_classes)
        _initialise_he(self)


class _ThinResNet(_Pooled, ABC):
    """Three stages of 16, 32 and 64 planes with shortcuts without parameters."""

    depth: ClassVar[int]

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        from calibench.backbones.residual import BasicBlock, PaddedShortcut, residual_features

        super().__init__()
        self.num_classes = num_classes
        self.features = residual_features(
            BasicBlock,
            stem=16,
            planes=(16, 32, 64),
            depths=(self.depth,) * 3,
            in_channels=in_channels,
            shortcut=PaddedShortcut,
        )
        self.fc = nn.Linear(64, num_classes)
        _initialise_he(self)


class CIFARResNet20(_ThinResNet):
    """The CIFAR ResNet-20: 6n + 2 layers with n = 3 (He et al. 2016, section 4.2).

    269,722 parameters with 10 classes.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depth = 3


class CIFARResNet8(_ThinResNet):
    """The smallest CIFAR ResNet, 6n + 2 layers with n = 1, for CPUs (He et al. 2016, section 4.2).

    75,290 parameters with 10 classes.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    depth = 1


def _initialise_he(network: nn.Module) -> None:
    """Draw convolutions from N(0, 2 / (k * k * out_channels)) (He et al. 2015, fan-out)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

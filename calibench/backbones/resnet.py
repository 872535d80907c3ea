"""Residual networks for CIFAR and Tiny-ImageNet, with the parameter counts of the papers' code.

The reference is `Net/` of focal_calibration (Mukhoti et al. 2020), which the GCE, FCL and BSCE-GRA
papers use as well: 3x3 stride-1 stem, no max pooling, no temperature. Images of any size are pooled
globally, so 32x32 is a choice of the benchmark, not of the network.
"""

from abc import ABC
from itertools import pairwise, product
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone


def _projection(channels: int, out_channels: int, stride: int) -> nn.Module:
    """A shortcut by a strided 1x1 convolution and batch normalisation (He et al.'s option B)."""
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class _PaddedShortcut(nn.Module):
    """A shortcut without parameters: subsampling and zeros (He et al.'s option A)."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride, self.added = stride, out_channels - channels

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C', H / stride, W / stride)."""
        thinned = inputs[:, :, :: self.stride, :: self.stride]
        return F.pad(thinned, [0, 0, 0, 0, 0, self.added])


class _ResNet(Backbone, ABC):
    """A 3x3 stem, stages of residual blocks, average pooling to `pool` x `pool`, one linear layer.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.

    Attributes:
        depths: Blocks of each stage.
        planes: Channels of each stage, before a bottleneck's expansion.
        stem: Channels after the stem.
        bottlenecks: Whether a block is a bottleneck or has two 3x3 convolutions.
        padded: Whether shortcuts are without parameters.
        pool: Side of what is left of an image.
        he: Whether convolutions are initialised as by He et al. 2015 (fan-out), not as by PyTorch.
    """

    depths: ClassVar[tuple[int, ...]]
    planes: ClassVar[tuple[int, ...]] = (64, 128, 256, 512)
    stem: ClassVar[int] = 64
    bottlenecks: ClassVar[bool] = True
    padded: ClassVar[bool] = False
    pool: ClassVar[int] = 1
    he: ClassVar[bool] = False

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        from timm.models.resnet import BasicBlock, Bottleneck  # seconds

        super().__init__()
        self.num_classes = num_classes
        block = Bottleneck if self.bottlenecks else BasicBlock
        self.features = self._layers(block, in_channels)
        self.fc = nn.Linear(self.planes[-1] * block.expansion * self.pool**2, num_classes)
        for module in self.modules():
            if self.he and isinstance(module, nn.Conv2d):  # N(0, 2 / (k * k * out_channels))
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        pooled = average_pool(self.features(inputs), self.pool)
        logits: Tensor = self.fc(pooled)
        return logits

    def _layers(self, block: Any, in_channels: int) -> nn.Sequential:
        """A 3x3 stride-1 stem and stages of timm's residual blocks, each after the first halving the image."""
        shortcut = _PaddedShortcut if self.padded else _projection
        layers: list[nn.Module] = [
            nn.Conv2d(in_channels, self.stem, 3, padding=1, bias=False),
            nn.BatchNorm2d(self.stem),
            nn.ReLU(inplace=True),
        ]
        channels = [self.stem, *(block.expansion * width for width in self.planes)]
        for number, (before, after) in enumerate(pairwise(channels)):
            stride, width = 1 if number == 0 else 2, self.planes[number]
            change = shortcut(before, after, stride) if stride > 1 or before != after else None
            blocks = [block(before, width, stride, change)]
            blocks += [block(after, width) for _ in range(self.depths[number] - 1)]
            layers.append(nn.Sequential(*blocks))
        return nn.Sequential(*layers)


class CIFARResNet50(_ResNet):
    """ResNet-50 with a 3x3 stem for 32x32 images (He et al. 2016; Mukhoti et al. 2020).

    23,520,842 parameters with 10 classes, 23,705,252 with 100.
    """

    depths = (3, 4, 6, 3)


class CIFARResNet110(_ResNet):
    """The calibration papers' ResNet-110: bottlenecks [3, 4, 26, 3] (Mukhoti et al. 2020).

    45,864,522 parameters with 10 classes, 46,048,932 with 100; not the 1.7-million-parameter CIFAR
    ResNet-110 of He et al. (2016).
    """

    depths = (3, 4, 26, 3)


class TinyImageNetResNet50(_ResNet):
    """ResNet-50 for 64x64 images: 3x3 stem, 2x2 pooling, 8192 features (Mukhoti et al. 2020).

    25,138,952 parameters with 200 classes.
    """

    depths = (3, 4, 6, 3)
    pool, he = 2, True


class TinyImageNetResNet110(_ResNet):
    """ResNet-110 [3, 4, 26, 3] for 64x64 images, 2x2 pooling (Mukhoti et al. 2020).

    47,482,632 parameters with 200 classes.
    """

    depths = (3, 4, 26, 3)
    pool, he = 2, True


class WideResNet26x10(_ResNet):
    """Wide-ResNet-26-10, post-activation: the papers' "28-10" (Mukhoti et al. 2020).

    36,481,434 parameters with 10 classes, 36,539,124 with 100 (Zagoruyko and Komodakis 2016). Four
    blocks a stage as in WRN-28-10, but convolution, normalisation, activation in this order, 1x1
    convolution shortcuts and no dropout.
    """

    depths, stem, planes = (4, 4, 4), 16, (160, 320, 640)
    bottlenecks, he = False, True


class CIFARResNet20(_ResNet):
    """The CIFAR ResNet-20: 6n + 2 layers with n = 3 (He et al. 2016, section 4.2).

    269,722 parameters with 10 classes.
    """

    depths = (3, 3, 3)
    stem, planes = 16, (16, 32, 64)
    bottlenecks, padded, he = False, True, True


class CIFARResNet8(_ResNet):
    """The smallest CIFAR ResNet, 6n + 2 layers with n = 1, for CPUs (He et al. 2016, section 4.2).

    75,290 parameters with 10 classes.
    """

    depths = (1, 1, 1)
    stem, planes = 16, (16, 32, 64)
    bottlenecks, padded, he = False, True, True


def average_pool(maps: Tensor, side: int) -> Tensor:
    """Adaptive average pooling of maps (N, C, H, W) to `side` x `side`, flat (N, C * side * side).

    `torch.nn.functional.adaptive_avg_pool2d` has no backward pass that is deterministic on a GPU.
    """
    windows = [
        [slice(size * i // side, -(-size * (i + 1) // side)) for i in range(side)]
        for size in maps.shape[2:]
    ]
    means = [maps[:, :, rows, columns].mean((2, 3)) for rows, columns in product(*windows)]
    return torch.stack(means, dim=2).flatten(1)

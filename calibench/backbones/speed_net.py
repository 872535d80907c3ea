"""A convolutional network that trains on CIFAR-10 in minutes of a CPU core."""

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.messages.checks import positive_integer
from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_key

_IMAGES = 5_000  # as many as the whitening is estimated from
_LEAST_SIDE = 9  # three halvings of what the 2x2 convolution leaves
_RIDGE = 5e-4  # added to the variances, so that what hardly varies is not blown up


class SpeedNet(Backbone):
    """Whitening convolution and three blocks of two convolutions (Jordan 2024, airbench).

    A 2x2 convolution whose weights whiten the patches of the training images, and are never trained, is followed by
    blocks of convolution, max-pooling, batch normalisation, GELU, convolution, batch normalisation and GELU, a global
    max-pooling and a linear layer without bias whose logits are divided by 9. The other convolutions start as the
    identity on their first channels; batch normalisation has no scale. Takes images from 9x9 on.

    Args:
        num_classes: Number of logits.
        widths: Channels of each block; (64, 256, 256) as published, (32, 64, 128) for a CPU in a hurry.
        in_channels: Channels of the images.
    """

    def __init__(
        self, *, num_classes: int, widths: Sequence[int] = (64, 256, 256), in_channels: int = 3
    ) -> None:
        super().__init__()
        positive_integer("in_channels", in_channels)
        if len(widths) != 3:
            raise ValueError(f"`widths` must be three channel counts, got {list(widths)}.")
        for width in widths:
            positive_integer("widths", width)
        self.num_classes = num_classes
        whitened = 2 * 4 * in_channels
        self.whiten = nn.Conv2d(in_channels, whitened, 2)
        self.whiten.weight.requires_grad_(False)
        self.whiten.bias = nn.Parameter(torch.zeros(whitened))
        self.blocks = nn.Sequential(*map(_Block, (whitened, *widths), widths))
        self.head = nn.Linear(widths[-1], num_classes, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        features = self.blocks(F.gelu(self.whiten(inputs)))
        logits: Tensor = self.head(features.amax((2, 3))) / 9
        return logits

    def on_training_inputs(self, inputs: Iterable[Tensor]) -> None:
        """Set the first convolution to what whitens the patches of up to 5,000 images.

        Its filters are the eigenvectors of the patches' covariance, each over the square root of its eigenvalue plus
        5e-4, and their negatives. Raises a UsageError for other inputs than images of `in_channels` channels.
        """
        variances, directions = torch.linalg.eigh(_covariance(self._images(inputs)))
        filters = directions.T / (variances + _RIDGE).sqrt()[:, None]
        with torch.no_grad():
            filters_and_negatives = torch.cat([filters, -filters])
            self.whiten.weight.copy_(filters_and_negatives.view(self.whiten.weight.shape))

    def _images(self, inputs: Iterable[Tensor]) -> Iterator[Tensor]:
        """The first images, in batches."""
        left = _IMAGES
        for batch in inputs:
            self._check(batch)
            yield batch[:left]
            left -= len(batch)
            if left <= 0:
                return

    def _check(self, inputs: Tensor) -> None:
        shape, channels = tuple(inputs.shape[1:]), self.whiten.in_channels
        are_images = len(shape) == 3 and min(shape[1:]) >= _LEAST_SIDE
        if are_images and shape[0] == channels:
            return
        remedy = f": {spell_key('model.backbone.in_channels', shape[0])}" if are_images else ""
        raise UsageError(
            f"SpeedNet takes images of {channels} channels, from {_LEAST_SIDE}x{_LEAST_SIDE} pixels on, and the "
            f"training inputs are {shape}{remedy}."
        )


def _covariance(batches: Iterable[Tensor]) -> Tensor:
    """Covariance of the 2x2 patches of images (N, C, H, W), (4 C, 4 C) float64."""
    moments = []
    for images in (
        images_at_once for batch in batches for images_at_once in torch.split(batch, 128)
    ):
        patches = F.unfold(images.double(), 2).transpose(0, 1).flatten(1)
        with_ones = F.pad(patches, (0, 0, 0, 1), value=1.0)  # whose products count and sum
        moments.append(with_ones @ with_ones.T)
    second = torch.stack(moments).sum(0)
    second /= second[-1, -1].clone()
    return second[:-1, :-1] - second[-1, :-1].outer(second[-1, :-1])


class _Block(nn.Module):
    """Two convolutions, the first with max-pooling, each with batch normalisation and GELU."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _identity_conv(channels, width), _shift(width)
        self.conv2, self.norm2 = _identity_conv(width, width), _shift(width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features of half the height and width."""
        pooled = F.max_pool2d(self.conv1(inputs), 2)
        return F.gelu(self.norm2(self.conv2(F.gelu(self.norm1(pooled)))))


def _identity_conv(channels: int, width: int) -> nn.Conv2d:
    conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(conv.weight[:channels])
    return conv


def _shift(width: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(width, eps=1e-12, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm

"""Any model of timm, by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.backbones.hub import one_line_of, without_retries
from calibench.ground.errors import near_matches

_SMALL = 64  # pixels; below, a stem that reduces fourfold leaves a ResNet next to nothing


class TimmBackbone(Backbone):
    """Any image model of timm, by its name (Wightman 2019, timm).

    Args:
        num_classes: Number of logits; a pretrained classifier is replaced.
        name: timm's name of the model, `resnet18` for instance.
        pretrained: Load timm's pretrained weights (from its cache, or downloaded).
        cifar_stem: Replace a ResNet's 7x7 stride-2 stem and max pooling by a 3x3 stride-1
            convolution, for 32x32 images.
        in_channels: Channels of the images.
        resize: Side in pixels to which images are resized (bilinear) before the model; None for
            no resizing. A vision transformer of 224 pixels runs on CIFAR with 224.
        options: Further arguments of `timm.create_model`; `{img_size: 32, patch_size: 4}` makes a
            vision transformer for 32x32 images.

    Raises:
        ValueError: timm has no such model, its weights cannot be loaded, or `cifar_stem` is asked
            of a model without a ResNet's stem.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        name: str,
        pretrained: bool = False,
        cifar_stem: bool = False,
        in_channels: int = 3,
        resize: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.name, self.resize = num_classes, name, resize
        self.network = _create(
            name, pretrained, num_classes=num_classes, in_chans=in_channels, **(options or {})
        )
        if cifar_stem:
            _use_cifar_stem(self.network, name)
        self._warn_if_small = _has_imagenet_stem(self.network)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        if self.resize is not None:
            size = (self.resize, self.resize)
            inputs = F.interpolate(inputs, size, mode="bilinear", antialias=True)
        if self._warn_if_small and inputs.shape[-1] < _SMALL:
            self._warn_if_small = False
            warnings.warn(
                f"`{self.name}` reduces {inputs.shape[-1]}-pixel images fourfold in its ImageNet "
                "stem; `cifar_stem: true` keeps their resolution.",
                stacklevel=2,
            )
        logits: Tensor = self.network(inputs)
        return logits


def _create(name: str, pretrained: bool, **options: Any) -> nn.Module:
    import timm  # seconds, and only this backbone needs it

    if not timm.is_model(name.split(".")[0]):
        raise ValueError(f"timm has no model `{name}`{near_matches(name, timm.list_models())}.")
    # The hub client's errors differ by version and by what is missing: network, file, rights.
    errors = (Exception,) if pretrained else ()
    here = without_retries() if pretrained else nullcontext()
    with one_line_of(f"the pretrained weights of `{name}` cannot be loaded", *errors), here:
        network: nn.Module = timm.create_model(name, pretrained=pretrained, **options)
    return network


def _has_imagenet_stem(network: nn.Module) -> bool:
    stem = getattr(network, "conv1", None)
    return isinstance(stem, nn.Conv2d) and isinstance(
        getattr(network, "maxpool", None), nn.MaxPool2d
    )


def _use_cifar_stem(network: nn.Module, name: str) -> None:
    stem = getattr(network, "conv1", None)
    if not isinstance(stem, nn.Conv2d) or not hasattr(network, "maxpool"):
        raise ValueError(f"`cifar_stem` is for ResNets; timm's `{name}` has no such stem.")
    conv1 = nn.Conv2d(stem.in_channels, stem.out_channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv1.weight, mode="fan_out", nonlinearity="relu")
    network.conv1, network.maxpool = conv1, nn.Identity()

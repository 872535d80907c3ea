"""Grad-CAM maps of any network with convolutions (Selvaraju et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.ground.errors import UsageError, near_matches

AUTO = "auto"


class Maps(NamedTuple):
    """Grad-CAM maps (N, h, w), >= 0, of the size of the feature map, and the class (N,) int64 that each is of."""

    maps: Tensor
    classes: Tensor


@contextmanager
def _outputs(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The output of each layer of the passes inside, by the layer's name, in the order in which they ended."""
    found: dict[str, Tensor] = {}

    def keep(name: str, layer: nn.Module, inputs: object, output: object) -> None:
        found.pop(name, None)
        if isinstance(output, Tensor):
            found[name] = output

    layers = [(name, layer) for name, layer in network.named_modules() if name]
    handles = [layer.register_forward_hook(partial(keep, name)) for name, layer in layers]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def feature_layer(network: nn.Module, inputs: Tensor, layer: str = AUTO) -> str:
    """Name of the layer whose feature map is taken.

    Args:
        network: The network, in evaluation mode.
        inputs: Images (N, C, H, W).
        layer: A name of `network.named_modules()`, or `auto` for the last layer whose output has more than one
            position: DenseNet's `features`, the last stage of a ResNet.

    Raises:
        UsageError: The layer is not there, or gives no feature map (N, C, h, w).
    """
    with torch.no_grad(), _outputs(network) as outputs:
        network(inputs)
    maps = {name: out.dim() == 4 for name, out in outputs.items() if _positions(out) > 1}
    if layer != AUTO:
        if layer not in outputs:
            near = near_matches(layer, maps)
            raise UsageError(f"`--layer {layer}`: the network has no such layer{near}.")
        if outputs[layer].dim() != 4:
            raise UsageError(f"`--layer {layer}` gives no feature map (N, C, height, width).")
        return layer
    last = next(reversed(maps), None)
    if last is None or not maps[last]:  # the patches that a transformer begins with are no features
        said = "the network ends in no feature map of several positions"
        raise UsageError(f"{said}: name a layer by `--layer`.")
    return last


def _positions(output: Tensor) -> int:
    """Positions in an image of a layer's output: of (N, C, h, w), or of tokens (N, T, C)."""
    shape = output.shape
    return {4: shape[2:].numel(), 3: shape[1]}.get(output.dim(), 1)


def grad_cam(network: nn.Module, inputs: Tensor, classes: Tensor, layer: str) -> Maps:
    """Grad-CAM maps, ReLU(sum_k alpha_k A_k) with alpha_k = mean over positions of dz_c / dA_k.

    Selvaraju et al. (2017), equations 1 and 2. Where a network's last feature map goes through global average pooling
    and one linear layer, alpha_k is w_ck / (h w): the class activation map of Zhou et al. (2016). A layer whose output
    is changed in place afterwards counts as changed: DenseNet's `features` with the ReLU that follows.

    Args:
        network: The network, in evaluation mode, whose rows do not depend on each other.
        inputs: Images (N, C, H, W) as the network takes them.
        classes: The class c of each image (N,) int64; -1 for that with the largest logit.
        layer: Name of the layer whose output is A.
    """
    with torch.enable_grad(), _outputs(network) as outputs:
        logits = network(inputs.detach().requires_grad_())
        features = outputs[layer]
        chosen = torch.where(classes < 0, logits.argmax(1), classes)
        score = logits.gather(1, chosen[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, features)
    alpha = gradient.mean((2, 3), keepdim=True)
    return Maps((alpha * features).sum(1).relu().detach(), chosen)


def enlarged(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps (N, h, w) at the size (H, W) of the images, bilinear, each divided by its maximum; one of zeros stays so."""
    large = F.interpolate(maps[:, None], size, mode="bilinear", align_corners=False)[:, 0]
    return large / large.amax((1, 2), keepdim=True).clamp_min(torch.finfo(large.dtype).tiny)

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibench.backbones import CIFARDenseNet121


# Counted on the instantiated network of focal_calibration (Net/densenet.py, 475422a).
@pytest.mark.parametrize(("num_classes", "count"), [(10, 6_956_298), (100, 7_048_548)])
def test_parameter_count(num_classes: int, count: int) -> None:
    with torch.device("meta"):
        network = CIFARDenseNet121(num_classes=num_classes)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_stem_keeps_the_resolution_and_the_initialisation_is_pytorchs() -> None:
    network = CIFARDenseNet121(num_classes=10)
    features = network.network.features
    assert features.conv0(torch.zeros(1, 3, 32, 32)).shape == (1, 64, 32, 32)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan_in = module.kernel_size[0] ** 2 * module.in_channels
            assert float(module.weight.detach().abs().max()) <= fan_in**-0.5

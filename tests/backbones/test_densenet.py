from __future__ import annotations

import pytest
import torch
from torch import nn

from calibench.backbones import CIFARDenseNet121, DenseNet121


# Counted on the instantiated network of focal_calibration (Net/densenet.py, 475422a).
@pytest.mark.parametrize(
    ("num_classes", "count"),
    [(10, 6_956_298), pytest.param(100, 7_048_548, marks=pytest.mark.slow)],
)
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


def test_chexnets_network_has_its_parameters() -> None:
    with torch.device("meta"):
        network = DenseNet121(num_classes=14, pretrained=False)
    assert sum(parameter.numel() for parameter in network.parameters()) == 6_968_206


def test_weights_that_cannot_be_had_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torchvision.models.densenet121", unreachable)
    with pytest.raises(
        ValueError, match=r"`options={\"model.backbone.pretrained\": False}` goes .*: no network$"
    ):
        DenseNet121(num_classes=14)

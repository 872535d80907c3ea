from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from calibench.backbones import (
    CIFARResNet8,
    CIFARResNet20,
    CIFARResNet50,
    CIFARResNet110,
    TinyImageNetResNet50,
    TinyImageNetResNet110,
    WideResNet26x10,
)
from calibench.backbones.resnet import average_pool

# Counted on the instantiated networks of focal_calibration (Net/, 475422a); ResNet-20 is the
# "0.27M" of He et al. with parameter-free shortcuts.
PARAMETERS = [
    (CIFARResNet50, 10, 23_520_842),
    (CIFARResNet50, 100, 23_705_252),
    (CIFARResNet110, 10, 45_864_522),
    (CIFARResNet110, 100, 46_048_932),
    (WideResNet26x10, 10, 36_481_434),
    (WideResNet26x10, 100, 36_539_124),
    (TinyImageNetResNet50, 200, 25_138_952),
    (TinyImageNetResNet110, 200, 47_482_632),
    (CIFARResNet20, 10, 269_722),
    (CIFARResNet8, 10, 75_290),
]


@pytest.mark.parametrize(("cls", "num_classes", "count"), PARAMETERS)
def test_parameter_count(cls, num_classes: int, count: int) -> None:
    with torch.device("meta"):
        network = cls(num_classes=num_classes)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


@pytest.mark.parametrize(
    ("cls", "side", "shape"),
    [
        pytest.param(CIFARResNet50, 32, (2048, 4, 4), marks=pytest.mark.slow),
        (WideResNet26x10, 32, (640, 8, 8)),
        (TinyImageNetResNet50, 64, (2048, 8, 8)),
        (CIFARResNet20, 32, (64, 8, 8)),
    ],
)
def test_last_feature_map(cls, side: int, shape: tuple[int, ...]) -> None:
    with torch.device("meta"):
        network = cls(num_classes=10)
        assert network.features(torch.zeros(1, 3, side, side)).shape == (1, *shape)


@pytest.mark.parametrize(
    "cls",
    [
        pytest.param(WideResNet26x10, marks=pytest.mark.slow),
        TinyImageNetResNet50,
        CIFARResNet8,
    ],
)
def test_he_initialisation(cls) -> None:
    for module in cls(num_classes=10).modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 20_000:
            fan_out = module.kernel_size[0] ** 2 * module.out_channels
            drawn = float(module.weight.detach().std())
            assert drawn == pytest.approx((2 / fan_out) ** 0.5, rel=0.03)


def test_cifar_resnet50_keeps_pytorchs_initialisation() -> None:
    for module in CIFARResNet50(num_classes=10).modules():
        if isinstance(module, nn.Conv2d):
            fan_in = module.kernel_size[0] ** 2 * module.in_channels
            assert float(module.weight.detach().abs().max()) <= fan_in**-0.5
        if isinstance(module, nn.BatchNorm2d):
            assert bool((module.weight == 1).all())  # no zero-initialised last normalisation


def test_one_residual_block_by_hand() -> None:
    block = CIFARResNet8(num_classes=10).features[4][0]  # stride 2, 16 -> 32 channels
    inputs = torch.randn(2, 16, 8, 8)
    branch = block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(inputs)))))
    shortcut = torch.cat([inputs[:, :, ::2, ::2], torch.zeros(2, 16, 4, 4)], dim=1)
    torch.testing.assert_close(block(inputs), torch.relu(branch + shortcut))


@pytest.mark.parametrize(("size", "side"), [((8, 8), 2), ((7, 9), 2), ((5, 3), 1), ((2, 7), 3)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_average_pooling_is_torchs(
    size: tuple[int, int], side: int, layout: torch.memory_format
) -> None:
    maps = torch.randn(3, 4, *size, dtype=torch.float64).contiguous(memory_format=layout)
    maps.requires_grad_()
    ours, theirs = average_pool(maps, side), F.adaptive_avg_pool2d(maps, side).flatten(1)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    weight = torch.randn_like(ours)
    grads = [torch.autograd.grad((of * weight).sum(), maps)[0] for of in (ours, theirs)]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)


def test_networks_of_one_pool_give_the_bits_of_torchs() -> None:
    maps = torch.randn(3, 16, 8, 8)
    for of in (maps, maps.contiguous(memory_format=torch.channels_last)):
        assert torch.equal(average_pool(of, 1), F.adaptive_avg_pool2d(of, 1).flatten(1))

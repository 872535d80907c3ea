"""SpeedNet: what its first convolution whitens, where its weights start, and which images it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones import SpeedNet
from calibench.messages.errors import UsageError

_RIDGE = 5e-4


def coloured(n: int, channels: int = 3, side: int = 12) -> Tensor:
    """Images whose neighbouring pixels and channels are correlated, with a mean that is not 0."""
    noise = torch.randn(n, channels, side + 1, side + 1, generator=torch.Generator().manual_seed(0))
    smooth = noise[:, :, 1:, 1:] + noise[:, :, :-1, 1:] + 0.5 * noise[:, :, 1:, :-1]
    return smooth + 0.7 * smooth.roll(1, dims=1) + 0.3


def patches_of(images: Tensor) -> Tensor:
    """Every 2x2 patch, one by one, as a row (channel, row, column)."""
    n, _, height, width = images.shape
    rows = [
        images[k, :, i : i + 2, j : j + 2].flatten()
        for k in range(n)
        for i in range(height - 1)
        for j in range(width - 1)
    ]
    return torch.stack(rows).double()


@pytest.mark.parametrize("channels", [1, 3])
def test_whitened_patches_have_unit_covariance(channels: int) -> None:
    images = coloured(150, channels)
    network = SpeedNet(num_classes=4, widths=(8, 8, 8), in_channels=channels)
    network.on_training_inputs([images[:100], images[100:]])
    half = 4 * channels
    whitened = network.whiten(images).detach().double().transpose(0, 1).flatten(1)
    assert torch.allclose(whitened[:half], -whitened[half:])
    covariance = whitened[:half].cov(correction=0)
    assert torch.allclose(covariance, torch.eye(half).double(), atol=0.02)


def test_filters_are_eigenvectors_over_the_root_of_their_eigenvalues() -> None:
    images = coloured(20)
    network = SpeedNet(num_classes=4, widths=(8, 8, 8))
    network.on_training_inputs([images])
    covariance = patches_of(images).T.cov(correction=0)
    filters = network.whiten.weight.detach().double().flatten(1)[:12]
    unit = F.normalize(filters)
    values = (1 / filters.square().sum(1)) - _RIDGE
    assert torch.allclose(covariance @ unit.T, unit.T * values, atol=1e-5)
    assert torch.allclose(values, torch.linalg.eigvalsh(covariance), rtol=1e-4, atol=1e-6)


def test_grey_images_in_three_channels_are_whitened_too() -> None:
    network = SpeedNet(num_classes=4, widths=(8, 8, 8))
    network.on_training_inputs([coloured(20, 1).expand(-1, 3, -1, -1)])
    assert network.whiten.weight.isfinite().all()


def test_no_more_than_5000_images_are_asked_for() -> None:
    network, asked = SpeedNet(num_classes=4, widths=(8, 8, 8)), []

    def batches() -> Iterator[Tensor]:
        for number in range(10):
            asked.append(number)
            yield coloured(2000, side=9)

    network.on_training_inputs(batches())
    assert asked == [0, 1, 2]


def test_convolutions_start_as_the_identity_and_batch_norm_has_no_scale() -> None:
    network = SpeedNet(num_classes=4, widths=(8, 30, 16))
    images = torch.randn(2, 24, 6, 6)
    for block, width in zip(network.blocks, (8, 30, 16), strict=True):
        first, second = block.conv1, block.conv2
        inputs = images[:, :1].expand(-1, first.in_channels, -1, -1)
        same = min(width, first.in_channels)
        assert torch.allclose(first(inputs)[:, :same], inputs[:, :same], atol=1e-6)
        assert torch.equal(second.weight, nn.init.dirac_(torch.empty_like(second.weight)))
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    assert [(norm.eps, norm.momentum, norm.weight.requires_grad) for norm in norms] == [
        (1e-12, 0.4, False)
    ] * 6
    trained = {name for name, value in network.named_parameters() if value.requires_grad}
    assert "whiten.weight" not in trained
    assert "whiten.bias" in trained
    assert "head.bias" not in trained


def test_a_second_convolution_of_more_channels_than_it_gets_keeps_its_own_start_for_the_rest() -> (
    None
):
    network = SpeedNet(num_classes=4, widths=(30, 8, 8))
    weight = network.blocks[0].conv1.weight
    assert weight[24:].std() > 0.01


def test_logits_are_a_ninth_of_the_linear_layer() -> None:
    network = SpeedNet(num_classes=4, widths=(8, 8, 8)).eval()
    images = coloured(3, side=32)
    seen: list[Tensor] = []
    network.head.register_forward_hook(lambda _, inputs, outputs: seen.append(outputs))
    assert torch.equal(network(images), seen[0] / 9)


@pytest.mark.parametrize("side", [9, 15, 16, 28, 32, 64])
def test_images_from_9_pixels_on_are_taken(side: int) -> None:
    network = SpeedNet(num_classes=4, widths=(8, 8, 8))
    network.on_training_inputs([coloured(4, side=side)])
    assert network(coloured(4, side=side)).shape == (4, 4)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (torch.randn(3, 3, 8, 8), r"from 9x9 pixels on, .* are \(3, 8, 8\)\.$"),
        (
            torch.randn(3, 1, 28, 28),
            r"3 channels, .*\(1, 28, 28\): `options=\{\"model.backbone.in_channels\": 1\}`",
        ),
        (torch.randn(3, 13), r"images .* the training inputs are \(13,\)\.$"),
        (torch.zeros(3, 20, dtype=torch.long), r"images .* the training inputs are \(20,\)\.$"),
    ],
    ids=["small", "grey", "table", "tokens"],
)
def test_what_cannot_be_whitened_is_refused_in_a_line(inputs: Tensor, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SpeedNet(num_classes=4).on_training_inputs([inputs])


@pytest.mark.parametrize("widths", [(8, 8), (8, 8, 8, 8), (8, 0, 8)])
def test_widths_are_three_positive_integers(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="`widths`"):
        SpeedNet(num_classes=4, widths=widths)

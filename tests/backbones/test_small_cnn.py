from __future__ import annotations

import pytest
import torch

from calibench.backbones import SmallCNN


@pytest.mark.parametrize("side", [4, 8, 28, 32])
def test_any_image_size(side: int) -> None:
    assert SmallCNN(num_classes=10, width=4)(torch.randn(2, 1, side, side)).shape == (2, 10)


def test_parameter_count() -> None:
    # convolutions 9 * (1*32 + 32*64 + 64*128), normalisation 2 * (32 + 64 + 128), 128*10 + 10
    network = SmallCNN(num_classes=10)
    assert sum(p.numel() for p in network.parameters()) == 92_448 + 448 + 1_290


def test_dropout_acts_in_training_only() -> None:
    network = SmallCNN(num_classes=10, width=4, dropout=0.5)
    inputs = torch.randn(8, 1, 8, 8)
    assert not torch.equal(network(inputs), network(inputs))
    network.eval()
    assert torch.equal(network(inputs), network(inputs))

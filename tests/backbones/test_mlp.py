from __future__ import annotations

import torch

from calibench.backbones import MLP


def test_layers_follow_the_widths() -> None:
    network = MLP(num_classes=3, in_features=10, hidden=(5, 4))
    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() == 2]
    assert shapes == [(5, 10), (4, 5), (3, 4)]


def test_without_hidden_layers_it_is_linear() -> None:
    network = MLP(num_classes=3, in_features=4, hidden=())
    a, b = torch.randn(2, 5, 2, 2)
    bias = network(torch.zeros(5, 2, 2))
    torch.testing.assert_close(network(a + b), network(a) + network(b) - bias)


def test_dropout_acts_in_training_only() -> None:
    network = MLP(num_classes=3, in_features=4, dropout=0.5)
    inputs = torch.randn(8, 4)
    assert not torch.equal(network(inputs), network(inputs))
    network.eval()
    assert torch.equal(network(inputs), network(inputs))

"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.ground.arguments import positive_integer


class MLP(Backbone):
    """Multi-layer perceptron: linear layers with ReLU on flattened inputs (this package).

    Args:
        num_classes: Number of logits.
        in_features: Numbers in one input, after flattening.
        hidden: Widths of the hidden layers; empty for a linear classifier.
        dropout: Probability of dropping a hidden unit, in [0, 1).

    Raises:
        ValueError: If `in_features` or a width is not positive.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        in_features: int,
        hidden: Sequence[int] = (128, 128),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for units in (positive_integer("in_features", in_features), *hidden):
            positive_integer("hidden", units)
        self.num_classes = num_classes
        layers: list[nn.Module] = []
        width = in_features
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(dropout)]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of inputs (N, ...) with `in_features` numbers each."""
        logits: Tensor = self.layers(inputs.flatten(1))
        return logits

"""Small networks that train in seconds on a CPU."""

from collections.abc import Sequence

from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.messages.checks import positive_integer


class MLP(Backbone):
    """Multi-layer perceptron: linear layers with ReLU on flattened inputs (this package).

    Args:
        num_classes: Number of logits.
        in_features: Numbers in one input, after flattening.
        hidden: Widths of the hidden layers; empty for a linear classifier.
        dropout: Probability of dropping a hidden unit, in [0, 1).
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


class SmallCNN(Backbone):
    """Three convolutions with batch normalisation, then global average pooling (this package).

    Takes images of any size from 4x4 on; the second and third convolution halve it.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels after the first convolution; the next two have twice and four times as many.
        dropout: Probability of dropping a pooled feature, in [0, 1).
    """

    def __init__(
        self, *, num_classes: int, in_channels: int = 1, width: int = 32, dropout: float = 0.0
    ) -> None:
        super().__init__()
        positive_integer("in_channels", in_channels)
        positive_integer("width", width)
        self.num_classes = num_classes
        self.features = nn.Sequential(
            _block(in_channels, width, stride=1),
            _block(width, 2 * width, stride=2),
            _block(2 * width, 4 * width, stride=2),
        )
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(4 * width, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        pooled = self.features(inputs).mean((2, 3))
        logits: Tensor = self.fc(self.dropout(pooled))
        return logits


def _block(channels: int, out_channels: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )

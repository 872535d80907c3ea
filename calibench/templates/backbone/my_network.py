"""Your own network: a plain torch.nn.Module from a batch of images (N, C, H, W) to logits (N, num_classes)."""

import torch
from torch import nn


class MyNetwork(nn.Module):
    """Two convolutions, the mean over the image, a linear layer.

    `num_classes` is filled in from the data; the other arguments come from the YAML or the command line.
    """

    def __init__(self, num_classes: int, channels: int = 1, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )  # fmt: skip
        self.fc = nn.Linear(2 * width, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits, without a softmax."""
        logits: torch.Tensor = self.fc(self.features(images).mean((2, 3)))
        return logits

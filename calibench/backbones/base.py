"""The contract of a backbone."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Backbone(nn.Module, ABC):
    """A network from a batch of inputs to logits (N, num_classes).

    Every subclass takes `num_classes` as a keyword; the data module says the number once and the
    command line links it here. Subclassing this class (rather than `nn.Module`) is what makes the
    short class name resolve in a YAML.
    """

    num_classes: int

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (N, num_classes); a batch of 0 rows gives (0, num_classes)."""

"""The contract of a backbone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn


class TokenInputs(NamedTuple):
    """What a backbone must know of inputs that are token numbers.

    Attributes:
        vocab_size: Token numbers in use, 0 for padding included: inputs are below it.
        vectors: Where a trained embedding starts (vocab_size, D) float32, rows of zeros where a token
            has no vector; None where nothing is known.
    """

    vocab_size: int
    vectors: Tensor | None = None


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

    def on_tokens(self, tokens: TokenInputs) -> None:
        """Hear what the token numbers are, before training or testing and before a checkpoint is loaded.

        Called only where the data module's inputs are token numbers. The default does nothing.

        Raises:
            UsageError: The backbone cannot take them.
        """

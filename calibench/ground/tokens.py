"""What text data tell a network of their inputs."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class TokenInputs(NamedTuple):
    """What a backbone must know of inputs that are token numbers.

    Attributes:
        vocab_size: Token numbers in use, 0 for padding included: inputs are below it.
        vectors: Where a trained embedding starts (vocab_size, D) float32, rows of zeros where a token
            has no vector; None where nothing is known.
    """

    vocab_size: int
    vectors: Tensor | None = None

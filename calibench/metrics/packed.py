"""Pairs of a probability and whether it is a hit, packed into 4 bytes that sort like the pair."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 1 << 14  # examples evaluated at once, so that temporaries stay small


def pack(confidence: Tensor, correct: Tensor) -> Tensor:
    """Pack float32 confidences and hits (N,) into int32 that sorts like (confidence, correct)."""
    return confidence.float().view(torch.int32).bitwise_left_shift(1).bitwise_or(correct)


def unpack_confidence(packed: Tensor) -> Tensor:
    """Confidence (float32) of packed examples."""
    return packed.bitwise_right_shift(1).view(torch.float32)


def unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence (float32) and correctness (bool) of packed examples."""
    return unpack_confidence(packed), packed.bitwise_and(1).bool()


def sort_rows(values: Tensor) -> Tensor:
    """Sort a vector, on a CPU in place, as the order of the rows of a state has no meaning."""
    if values.device.type != "cpu":
        return values.sort().values
    values.numpy().sort()  # numpy sorts some 20 times faster than torch on a CPU
    return values

"""Operations that a call starts and how many numbers they take: a cost that no other process disturbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod

from torch.profiler import ProfilerActivity, profile


def count_numbers(call: Callable[[], object]) -> Counter[str]:
    """Numbers in the largest tensor that each call of an operation takes, summed by its name ("aten::exp")."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        call()
    numbers: Counter[str] = Counter()
    for event in recorded.events():
        sizes = [prod(shape) for shape in event.input_shapes or () if shape]
        numbers[event.name] += max(sizes, default=0)
    return numbers

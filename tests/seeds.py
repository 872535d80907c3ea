"""The seed that every test begins with."""

from __future__ import annotations

from functools import cache

import torch


@cache
def _has_gpu() -> bool:
    return torch.cuda.is_available()


def seed_torch() -> None:
    """`torch.manual_seed(0)`, which without a GPU writes down the whole stack for each kind of device that is not there."""
    if _has_gpu():
        torch.manual_seed(0)
    else:
        torch.default_generator.manual_seed(0)

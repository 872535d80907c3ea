"""The gradient norms of a run after an epoch, as the table and the picture take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from calibench.analyses.gradient_norm.norms import Norms


class Entry(NamedTuple):
    """The norms of a run after an epoch."""

    label: str
    epoch: int
    norms: Norms

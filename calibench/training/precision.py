"""Mixed precision: what is kept out of it, and gradient clipping under it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.utilities import GradClipAlgorithmType
from torch import Tensor


def without_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast on the device of `like`.

    Mixed precision is for the training of the network. Losses and evaluation use float32: bfloat16 logits have eight
    bits, so different confidences would tie, and this would look like miscalibration.
    """
    kind = like.device.type
    if not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def unscales_itself(trainer: L.Trainer, optimizer: torch.optim.Optimizer) -> bool:
    """Whether a fused optimiser divides by the loss scale itself, so that stock Lightning refuses to clip."""
    mixed = isinstance(trainer.precision_plugin, MixedPrecision)
    return mixed and any(group.get("fused") for group in optimizer.param_groups)


def clip_fused(
    trainer: L.Trainer, optimizer: torch.optim.Optimizer, value: float, algorithm: str | None
) -> None:
    """Clip the gradients of a fused optimiser under mixed precision.

    Lightning 2.6 refuses this because a fused optimiser divides by the loss's scale within its step. bfloat16 has no
    scale; with float16 the division is done here, before the clipping, and the scaler then leaves the step without it.

    Args:
        trainer: Its precision plugin is a `MixedPrecision`.
        optimizer: The fused optimiser.
        value: `gradient_clip_val`.
        algorithm: `gradient_clip_algorithm`; None for the norm.
    """
    plugin = trainer.precision_plugin
    if isinstance(plugin, MixedPrecision) and plugin.scaler is not None:
        plugin.scaler.unscale_(optimizer)
    how = GradClipAlgorithmType(algorithm or GradClipAlgorithmType.NORM)
    Precision.clip_gradients(plugin, optimizer, value, how)

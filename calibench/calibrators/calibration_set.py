"""The set that a calibrator is fitted on: what it must hold, and the classes that are too rare in it."""

import math

import torch
from torch import Tensor

from calibench.tensors.scores import (
    check_class_indices,
    check_scores,
    check_target,
    holds_probabilities,
)

FEWEST_EXAMPLES_OF_CLASS = 5
"""Examples of each class for a map with parameters of each class."""


def find_rare_classes(target: Tensor, num_classes: int) -> list[int]:
    """The classes with fewer than five examples, for which no map with parameters of each class is chosen."""
    counts = target.bincount(minlength=num_classes)
    rare: list[int] = (counts < FEWEST_EXAMPLES_OF_CLASS).nonzero().flatten().tolist()
    return rare


def check_calibration_set(logits: Tensor, target: Tensor) -> None:
    """Raise unless `logits` (N, K) and `target` (N,) are a set that something can be fitted on."""
    check_scores(logits)
    check_target(target, logits)
    if len(logits) == 0:
        raise ValueError("`logits` must have at least one row to fit on, got none.")
    check_class_indices(target, logits.shape[1])
    lowest, highest = map(float, logits.aminmax())  # NaN where one value is
    largest = max(-lowest, highest)
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        _check_masks(logits, target)
        largest = float(logits.where(logits.isfinite(), 0).abs().amax())
    refuse_probabilities(logits)
    if largest > torch.finfo(torch.float32).max:
        raise ValueError(f"`logits` must be finite in float32, got {largest:.3g}.")


def refuse_probabilities(logits: Tensor) -> None:
    """Raise a ValueError for what looks like probabilities (N, K)."""
    is_table = isinstance(logits, Tensor) and logits.dim() == 2 and logits.is_floating_point()
    if is_table and holds_probabilities(logits.detach()):
        raise ValueError(
            "`logits` lie in [0, 1] with rows that sum to 1, as probabilities do: give their logarithm if they are "
            "(logits are the same with a constant added)."
        )


def _check_masks(logits: Tensor, target: Tensor) -> None:
    """Raise a ValueError unless logits (N, K) are finite but for -inf of classes that are not the true ones (N,)."""
    wrong = logits.isnan().any(1) | logits.isposinf().any(1) | logits.isneginf().all(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            "`logits` must be finite, or -inf for classes that an example does not have: "
            f"row {row} has NaN, +inf or nothing but -inf."
        )
    masked = logits.gather(1, target.to(logits.device, torch.int64).unsqueeze(1)).isneginf()
    if bool(masked.any()):
        row = int(masked.nonzero()[0, 0])
        raise ValueError(
            f"`logits` are -inf (probability 0) for the true class {int(target[row])} of row {row} (of "
            f"{int(masked.sum())} rows so): no calibrator makes their NLL finite (clip probabilities before their log)."
        )


def scale_weights_to_mean_one(weight: Tensor, target: Tensor) -> Tensor:
    """Example weights (N,), checked and divided by their mean."""
    if weight.shape != target.shape:
        raise ValueError(
            f"`sample_weight` must have shape {tuple(target.shape)} like `target`, got {tuple(weight.shape)}."
        )
    if not (bool(weight.isfinite().all()) and bool((weight >= 0).all()) and weight.sum() > 0):
        raise ValueError("`sample_weight` must hold finite numbers >= 0 that are not all 0.")
    return weight / weight.mean()

"""Logits in single precision: what a row has in common is subtracted first where float32 could not hold the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# The most by which rounding may change a difference between two logits, times the smaller one's part of the row.
_ALLOWED = 1e-5
# The same for what the file's own precision has lost already, where a common part of its rows is the reason.
_LOST = 1e-3
# A common part is the reason if the logits are so many times their own range away from 0.
_FAR = 100.0


def in_single_precision(logits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Logits (N, K) as float32, up to a constant of each row.

    Softmax does not see what a row has in common, but the 24 bits of a float32 do: -3e7 added to all logits leaves
    none of their differences. So where rounding would change probabilities, each row's largest logit is subtracted
    first, in the precision that the logits come in (integers exactly).

    Args:
        logits: Real numbers of any precision; -inf is a class of probability 0.

    Raises:
        ValueError: If a logit is NaN, inf or beyond float32, a row has none above -inf, or rows are so far from 0 that
            their own precision has lost the differences; the message names the first row.
    """
    if logits.dtype.kind not in "biuf":
        raise ValueError(f"`logits` must be real numbers, got {logits.dtype}.")
    _check_finite(logits)
    single: npt.NDArray[np.float32] = np.ascontiguousarray(logits, dtype=np.float32)
    if not logits.size:
        return single
    distances = _distances(logits)
    _check_told_apart(logits, distances)
    with np.errstate(invalid="ignore", under="ignore"):
        error = (single - single.max(axis=1, keepdims=True)).astype(np.float64) - distances
        error = np.abs(np.nan_to_num(error)) * np.exp(distances)
    return single if error.max() <= _ALLOWED else np.ascontiguousarray(distances, dtype=np.float32)


def _check_finite(logits: npt.NDArray[Any]) -> None:
    """Raise a ValueError for what no softmax takes."""
    nan = np.isnan(logits)
    if nan.any():
        raise ValueError(f"`logits` must not contain NaN, as row {_first(nan)} does.")
    size = np.abs(np.where(np.isneginf(logits), 0, logits))
    large = np.asarray(size > np.finfo(np.float32).max)
    if large.any():
        row = _first(large)
        worst = logits[row][large[row]][0]
        raise ValueError(
            f"`logits` must be finite in float32 (or -inf), got {worst:g} in row {row}."
        )
    masked = np.asarray(np.isneginf(logits).all(axis=1))
    if masked.any():
        raise ValueError(f"`logits` are all -inf in row {_first(masked)}: no class is left.")


def _distances(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Distances from the largest logit of each row, all <= 0, as exact as the logits are."""
    whole = logits.dtype.kind in "biu"
    # integers modulo 2^64: also where the difference of two int64 is none
    wide = logits.astype(np.uint64 if whole else np.promote_types(logits.dtype, np.float32))
    top = logits.max(axis=1, keepdims=True).astype(wide.dtype)
    below: npt.NDArray[np.float64] = np.subtract(top, wide).astype(np.float64)
    return -below


def _check_told_apart(logits: npt.NDArray[Any], distances: npt.NDArray[np.float64]) -> None:
    """Raise a ValueError if a common part of the rows has taken the digits of their differences."""
    if logits.dtype.kind != "f":
        return
    top = np.abs(logits.max(axis=1))
    spacing = np.spacing(top).astype(np.float64)
    next_one = np.partition(distances, -2, axis=1)[:, -2]
    spread = -np.where(np.isneginf(distances), 0, distances).min(axis=1)
    lost = (spacing * np.exp(next_one) > _LOST) & (top > _FAR * spread)
    if lost.any():
        row = _first(lost)
        raise ValueError(
            f"`logits` of {lost.sum()} rows cannot be told apart: {top[row]:g} in row {row} is kept in steps of "
            f"{spacing[row]:.2g} by {logits.dtype}. Subtract each row's largest logit before they are saved."
        )


def _first(where: npt.NDArray[np.bool_]) -> int:
    """The first row with a true entry."""
    return int(where.reshape(len(where), -1).any(axis=1).argmax())

"""Batches of probabilities (N, K) and targets (N,): checks, softmax, the top label, pairs in 4 bytes, scores."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.tensors import class_softmax
from calibench.tensors.arrays import Floats, Integers, as_array
from calibench.tensors.score_meaning import sum_to_1
from calibench.tensors.scores import (
    at_least_float32,
    blocks_of_rows,
    check_class_indices,
    check_scores,
    check_target,
)

_SUM_TOLERANCE = 1e-4  # of row sums of probabilities in single precision or more


def rows_of_batch(
    preds: Tensor, target: Tensor, ignore_index: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows (N, K) and class indices (N,) of a batch in any shape that metrics take; nothing else is checked here.

    Args:
        preds: Scores (N, K) or (N, K, d1, ...) with `target` (N,) or (N, d1, ...); or P(y = 1) of two classes, (N,):
            P(y = 0) is 1 - p in float64.
        target: Class indices.
        ignore_index: Target of the rows that are left out; None keeps all.
    """
    if not (isinstance(preds, Tensor) and isinstance(target, Tensor)):
        return preds, target
    if preds.dim() == target.dim() == 1 and preds.is_floating_point():
        positive = preds.double()
        preds = torch.stack([1 - positive, positive], dim=1)
    elif preds.dim() > 2 and target.shape == (preds.shape[0], *preds.shape[2:]):
        preds = preds.movedim(1, -1).reshape(-1, preds.shape[1])
        target = target.reshape(-1)
    if ignore_index is not None and target.shape == preds.shape[:1]:
        is_valid = target != ignore_index
        preds, target = preds[is_valid], target[is_valid]
    return preds, target


def top_label(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence of each example, (N,), and whether its class, the first among ties, is the target, (N,) bool.

    From probabilities (N, K) and class indices (N,).
    """
    predicted = first_largest(preds)
    return preds.gather(1, predicted.unsqueeze(1)).squeeze(1), predicted == target


def first_largest(preds: Tensor) -> Tensor:
    """The first class among those with the largest value, (N, K) -> (N,) int64."""
    if preds.device.type == "cpu" and len(preds):
        return torch.from_numpy(preds.detach().numpy().argmax(1))  # several times faster
    return preds.argmax(1)


def check_column_count(preds: Tensor, num_classes: int, *, name: str = "preds") -> None:
    """Raise a ValueError unless `preds` has one column for each class."""
    if preds.shape[1] != num_classes:
        raise ValueError(
            f"`{name}` must have {num_classes} columns (`num_classes`), got {preds.shape[1]}."
        )


def check_prediction_shapes(scores: Tensor, target: Tensor, *, name: str) -> None:
    """Raise unless `scores` is a floating (N, K) tensor, K >= 1, and `target` an integer (N,) tensor."""
    check_scores(scores, name=name, classes=1)
    check_target(target, scores, name=name)


def check_finite_maximum(logits: Tensor) -> None:
    """Raise a ValueError unless each row of logits (N, K) has a finite largest value (-inf beside it is fine)."""
    if not bool(logits.amax(1).isfinite().all()):
        raise ValueError("`logits` must not hold NaN, +inf or rows of nothing but -inf.")


def check_logits_and_target(logits: Tensor, target: Tensor) -> None:
    """Raise unless `logits` (N, K) have a finite largest value and `target` are class indices (N,) below K."""
    check_prediction_shapes(logits, target, name="logits")
    check_finite_maximum(logits)
    check_class_indices(target, logits.shape[1])


def check_batch(preds: Tensor, target: Tensor) -> None:
    """Raise unless `preds` are probabilities (N, K) and `target` are class indices (N,) below K.

    Rows must be non-negative and sum to 1 within 1e-4, or within what their type or their decimals allow (see
    `sum_to_1`); N = 0 is fine.
    """
    check_prediction_shapes(preds, target, name="preds")
    if len(preds) == 0:
        return
    rows = preds.sum(1, dtype=torch.promote_types(preds.dtype, torch.float32))
    smallest, low, high = torch.stack([preds.amin().to(rows.dtype), *rows.aminmax()]).tolist()
    if not smallest >= 0:  # also NaN
        raise ValueError(
            f"`preds` must be probabilities in [0, 1] without NaN, got {smallest}. Logits need `.softmax(1)` first."
        )
    if not max(1 - low, high - 1) <= _SUM_TOLERANCE and not sum_to_1(as_array(preds)).all():
        raise ValueError(
            "`preds` must be probabilities whose rows sum to 1 (as far as their decimals or their type allow), "
            f"got sums in [{low:g}, {high:g}]. Logits need `.softmax(1)` first."
        )
    check_class_indices(target, preds.shape[1])


def normalise_rows(probs: Tensor) -> Tensor:
    """Probabilities (N, K) over their row sums, where any of these differs from 1 by more than rounding.

    What proper scores are made of: rows of rounded decimals are no distributions otherwise. Bins take them as given.
    """
    sums = probs.sum(1)
    rounding = 4 * probs.shape[1] ** 0.5 * torch.finfo(probs.dtype).eps
    if len(probs) and bool(((sums - 1).abs() > rounding).any()):
        return probs / sums.unsqueeze(1)
    return probs


def pack(confidence: Tensor, correct: Tensor) -> Tensor:
    """Pack float32 confidences and hits (N,) into int32 that sorts like (confidence, correct)."""
    return confidence.float().view(torch.int32).bitwise_left_shift(1).bitwise_or(correct)


def unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence (float32) and correctness (bool) of packed examples."""
    return unpack_confidence(packed), packed.bitwise_and(1).bool()


def unpack_confidence(packed: Tensor) -> Tensor:
    """Confidence (float32) of packed examples, as a copy."""
    return packed.bitwise_right_shift(1).view(torch.float32)


def as_two_columns(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """Confidences (N,) beside a 0, (N, 2), and 0 where each was right: what looks at top labels sees no difference."""
    columns = torch.stack([confidence, torch.zeros_like(confidence)], dim=1)
    return columns, correct.logical_not().long()


def sort_rows(values: Tensor) -> Tensor:
    """Sort a vector, on a CPU in place, as the order of the rows of a state has no meaning."""
    if values.device.type != "cpu":
        return values.sort().values
    values.numpy().sort()  # numpy sorts some 20 times faster than torch on a CPU
    return values


class ListedColumns:
    """Probabilities (N, K) on a CPU whose sums are few numbers and a list: of the p_k nearly all are small.

    What is listed or summed is kept, so that bins of several numbers share it.

    Args:
        probs: The probabilities.
        shared_from: The threshold from which on the same are listed, whatever higher one is asked for.
    """

    def __init__(self, probs: Tensor, shared_from: float = 1.0) -> None:
        self.probs, self._shared_from = probs.detach(), shared_from
        self._lists: dict[float, ListedValues] = {}

    @cached_property
    def sums(self) -> Floats:
        """Sums of the columns, (K,) float64."""
        sums: Floats = self.probs.numpy().sum(0, dtype=np.float64)  # torch would copy all of them
        return sums

    def list_above(self, threshold: float) -> ListedValues:
        """The probabilities above a float32 threshold, or above a lower one that others share."""
        lowest = min(self._shared_from, threshold)
        if lowest not in self._lists:
            is_above = self.probs.float().numpy() > np.float32(lowest)
            places = np.flatnonzero(is_above)  # three times as fast as torch
            values = self.probs.numpy().reshape(-1).take(places)
            columns = np.remainder(places, self.probs.shape[1])
            self._lists[lowest] = ListedValues(columns, torch.from_numpy(values))
        return self._lists[lowest]


class ListedValues(NamedTuple):
    """Some probabilities (M,), and the column of each, (M,) int64."""

    column: Integers
    value: Tensor


def softmax(logits: Tensor) -> Tensor:
    """Probabilities of logits, (N, K) -> (N, K); see `probabilities`.

    Examples:
        >>> import torch
        >>> from calibench.metrics import softmax
        >>> softmax(torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1]]))
        tensor([[0.7856, 0.1753, 0.0391],
                [0.2337, 0.5749, 0.1914]])
    """
    return class_softmax.softmax_over_classes(at_least_float32(logits))


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of logits, (N, K) -> (N, K); see `probabilities`.

    Examples:
        >>> import torch
        >>> from calibench.metrics import log_softmax
        >>> log_softmax(torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1]]))
        tensor([[-0.2413, -1.7413, -3.2413],
                [-1.4536, -0.5536, -1.6536]])
    """
    return class_softmax.log_softmax_over_classes(at_least_float32(logits))


def probabilities(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax and log-softmax, as the metrics want them.

    The same values as torch's, up to rounding. With fewer than 16 classes its kernel for columns is
    several times as fast on a CPU as the one for rows (K = 10: 7 times).

    Args:
        logits: Unnormalised scores, shape (N, K); half precision is widened to float32.

    Returns:
        Probabilities and log-probabilities, (N, K) each.

    Examples:
        >>> import torch
        >>> from calibench.metrics import probabilities
        >>> probs, log_probs = probabilities(torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1]]))
        >>> probs
        tensor([[0.7856, 0.1753, 0.0391],
                [0.2337, 0.5749, 0.1914]])
        >>> log_probs
        tensor([[-0.2413, -1.7413, -3.2413],
                [-1.4536, -0.5536, -1.6536]])
    """
    log_probs = log_softmax(logits)
    return log_probs.exp(), log_probs


def true_class(values: Tensor, target: Tensor) -> Tensor:
    """The values (N, K) of the true classes (N,), (N,)."""
    return values.gather(1, target.unsqueeze(1)).squeeze(1)


def brier_sum(probs: Tensor, target: Tensor) -> Tensor:
    """Brier scores of (N, K) probabilities, summed over the examples; a float64 scalar."""
    return brier_less_one(probs, target).sum(dtype=torch.float64) + len(target)


def brier_less_one(probs: Tensor, target: Tensor) -> Tensor:
    """The Brier score of each example less 1, (N,), of (N, K) probabilities."""
    # The norm needs no temporary of (N, K).
    squares: Tensor = torch.linalg.vector_norm(probs, dim=1).square()
    return squares.sub_(true_class(probs, target), alpha=2)


def scores_of_examples(log_probs: Tensor, target: Tensor) -> dict[str, Tensor]:
    """NLL and Brier score of each example, (N,) float64, of log-probabilities (N, K) and targets (N,)."""
    brier = []
    for block, labels in blocks_of_rows(log_probs, target):
        probs = block.exp()
        true = true_class(probs, labels).double()
        brier.append(probs.square_().sum(1).double() - 2 * true + 1)
    return {"nll": -true_class(log_probs, target).double(), "brier": torch.cat(brier)}

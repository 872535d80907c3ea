"""The argmax of logits, ties included, preserved through the rounding of what a calibrator makes of them."""

import numpy as np
import torch
from torch import Tensor


def keep_argmax(values: Tensor, logits: Tensor) -> Tensor:
    """Give the entries of `values` (N, K) the maxima of `logits` (N, K), ties included.

    For maps that are increasing in exact arithmetic: two logits one rounding apart may come out equal, and two equal
    ones apart, because a vectorised `exp` differs from the scalar one in the last bit. Entries of the largest logit get
    its value, the others stay at least one rounding below.
    """
    rows = _find_rows_to_keep(values, logits)
    if rows is None:
        return _keep_argmax_of_rows(values, logits)
    if len(rows):
        values = values.clone()
        values[rows] = _keep_argmax_of_rows(values[rows], logits[rows])
    return values


def _keep_argmax_of_rows(values: Tensor, logits: Tensor) -> Tensor:
    top_logit, index = logits.max(dim=1, keepdim=True)
    top = values.gather(1, index)
    return torch.where(logits == top_logit, top, torch.minimum(values, _just_below(top)))


def _find_rows_to_keep(values: Tensor, logits: Tensor) -> Tensor | None:
    """Rows of (N, K) on a CPU that `keep_argmax` may change: few have ties, or values near the largest; None of others.

    None where values cannot be read: of other devices, of graphs, in `torch.func.vmap`. Those in single precision are
    rounded from double precision, so that the values of equal logits are near each other.
    """
    is_readable = logits.device.type == "cpu" and logits.dtype == values.dtype
    if not is_readable or values.requires_grad or torch.compiler.is_compiling():
        return None
    try:
        scores, mapped = logits.numpy(), values.numpy()  # several times as fast as by torch
    except RuntimeError:  # torch.func.vmap stands for many
        return None
    top = torch.from_numpy(scores.argmax(1)).unsqueeze(1)
    is_near_top = mapped >= _just_below(values.gather(1, top)).numpy()
    if values.dtype == torch.float64:
        is_near_top |= scores == logits.gather(1, top).numpy()
    if np.count_nonzero(is_near_top) == len(top):
        return torch.zeros(0, dtype=torch.int64)
    return torch.from_numpy(np.flatnonzero(np.count_nonzero(is_near_top, axis=1) > 1))


def _just_below(top: Tensor) -> Tensor:
    return top - top.abs() * torch.finfo(top.dtype).eps

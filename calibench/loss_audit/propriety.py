"""Is a loss proper: is there no gradient at the true probabilities, and is no other point lower?"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from calibench.loss_audit import checks
from calibench.loss_audit.checks import ROWS, AuditedLoss, CheckAnswer, value_and_gradient
from calibench.losses import CalibrationLoss

CLASS_NUMBERS = (2, 3, 4, 5)
RARE = (1e-2, 1e-4, 1e-6)
SEPARABLE, COUPLED = 1e-6, 1e-3
"""Relative expected gradients up to which there is none."""

TEMPERATURES = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)
STEP_SIZES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)


class _Truth(NamedTuple):
    """The truth at which the gradient is largest: one distribution (K,), or those of a batch's points (M, K).

    With the expected gradient of the logits there, its size relative to the sum of its parts' sizes, and the expected
    loss at other logits of the same shape.
    """

    posterior: Tensor
    gradient: Tensor
    size: float
    value: Callable[[Tensor], float]


def is_proper(subject: AuditedLoss) -> CheckAnswer:
    """Whether training ends at the true probabilities (Gneiting and Raftery 2007).

    At the truth the expected gradient, relative to the sizes of its parts, must be below 1e-6: the parts are the
    gradients of each class, weighted by the posterior; posteriors are of 2 to 5 classes, from mild ones to
    probabilities of 1e-6. (Of a loss that couples the batch the parts are those of a batch's rows, below 1e-3.) And no
    other point that is tried may have a lower expected loss. Where there is a gradient and nothing that is tried is
    lower, as at a kink, it is undecided (None).
    """
    is_separable = checks.separable(subject)[0]
    of_batch = _truth_of_batch(subject)
    steepest = _find_steepest(subject) if is_separable else of_batch
    lower = None  # of a loss whose value is not what training lowers
    if checks.gradient_is_the_slope(subject)[0]:
        downhill = steepest.gradient / steepest.gradient.norm().clamp(min=1e-300)
        below = [steepest.posterior.log() - step * downhill for step in STEP_SIZES]
        # sharper and calmer points, none, and where training came to rest
        logits = of_batch.posterior.log()
        ends = torch.stack([probs for _, probs in checks.train_to_rest(subject)])
        far = [*(logits / t for t in TEMPERATURES), torch.zeros_like(logits)]
        far.append(ends.clamp(min=1e-12).log())
        lower = _has_lower(of_batch, far) or _has_lower(steepest, below)
    has_no_gradient = steepest.size <= (SEPARABLE if is_separable else COUPLED)
    if has_no_gradient:
        return not lower, "another point is lower" if lower else ""
    k = steepest.posterior.shape[-1]
    numbers = ", ".join(f"{p:.3g}" for p in steepest.posterior.flatten()[:k].tolist())
    evidence = f"relative expected gradient {steepest.size:.1e} at ({numbers})"
    if lower is False:
        return None, f"{evidence}, and no point that was tried is lower"
    return False, checks.describe_movement(subject) or evidence


def _posteriors(k: int) -> Tensor:
    """Posteriors of k classes, (7, k): a mild one, and with the last class rare, or all but the first."""
    mild = torch.arange(k, 0, -1, dtype=torch.float64)
    mild /= mild.sum()
    first, last = torch.eye(k, dtype=torch.float64)[[0, -1]]
    rows = [mild]
    for rare in RARE:
        for end, share in ((last, rare), (first, 1 - rare)):
            rows.append(torch.where(end == 1, share, (1 - share) * mild / mild[end == 0].sum()))
    return torch.stack(rows)


def _find_steepest(subject: AuditedLoss) -> _Truth:
    """The truth with the largest gradient among posteriors of 2 to 5 classes, of a mean over examples."""
    return max(
        (_find_steepest_posterior(subject.live(num_classes=k), k) for k in CLASS_NUMBERS),
        key=lambda truth: truth.size,
    )


def _find_steepest_posterior(loss: CalibrationLoss, k: int) -> _Truth:
    posterior = _posteriors(k)
    every_class = torch.arange(k)
    logits = posterior.log().repeat_interleave(k, dim=0)
    _, gradient = value_and_gradient(loss, logits, every_class.repeat(len(posterior)))
    # a mean over rows that do not see each other: each row's gradient is its own, over the number of rows
    parts = posterior[..., None] * gradient.view(len(posterior), k, k) * len(logits)
    total, size = parts.sum(1), _relative_sizes(parts)
    at = int(size.nan_to_num(torch.inf).argmax())

    def value(point: Tensor) -> float:
        values = [loss(point.unsqueeze(0), label.view(1)) for label in every_class]
        return float(posterior[at] @ torch.stack(values))

    return _Truth(posterior[at], total[at], float(size[at]), value)


def _truth_of_batch(subject: AuditedLoss) -> _Truth:
    """The truth of a batch that has each class in the frequencies of several points' posteriors."""
    loss = subject.live()
    posterior, target = checks.batch_of_posteriors()

    def value(point: Tensor) -> float:
        return float(loss(point.repeat_interleave(ROWS, dim=0), target))

    _, gradient = value_and_gradient(loss, posterior.log().repeat_interleave(ROWS, dim=0), target)
    parts = gradient.view(len(posterior), ROWS, -1)
    return _Truth(posterior, parts.sum(1), float(_relative_sizes(parts).max()), value)


def _relative_sizes(parts: Tensor) -> Tensor:
    """Sizes of sums of vectors (M, P, K) relative to the sums of their sizes, (M,); 0 where all are 0."""
    of_parts = parts.norm(dim=-1).sum(1).clamp(min=torch.finfo(parts.dtype).tiny)
    relative: Tensor = parts.sum(1).norm(dim=-1) / of_parts
    return relative


def _has_lower(truth: _Truth, points: list[Tensor]) -> bool:
    """Whether the expected loss is lower at one of some points, by more than rounding."""
    lowest = truth.value(truth.posterior.log())
    return any(truth.value(point) < lowest - 1e-12 * max(1.0, abs(lowest)) for point in points)

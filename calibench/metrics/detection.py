"""Detection by uncertainty: scores of logits, and the rates of telling two sets apart by them, resampled too."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.metrics.probability_batches import check_finite_maximum, sort_rows
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.scores import check_scores

_EQUAL = 1e-12  # of a score of 1 and more: what sums in another order differ by
_LOST = -40.0  # of a logarithm: its exp is less than half a rounding of 1


def _odds_against(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logits minus their maximum, -inf at the maximum itself, (N, K), and the log of the sum of their exp, (N,)."""
    largest, index = logits.max(1, keepdim=True)
    others = (logits - largest).scatter(1, index, -torch.inf)
    return others, others.logsumexp(1)


def log_entropy(logits: Tensor) -> Tensor:
    """Logarithm of the entropy of the softmax in nats, (N, K) -> (N,): distinct where the entropy underflows.

    With s_k the other logits minus the largest, and o = sum_k exp s_k, the entropy is
    ln(1 + o) + sum_k exp(s_k) (-s_k) / (1 + o): its two terms are added as logarithms.
    """
    others, log_odds = _odds_against(logits)
    log_total = log_odds.exp().log1p()
    # ln(1 + o) is o itself where o is lost beside 1.
    first = torch.where(log_odds < _LOST, log_odds, log_total.log())
    weighted = torch.where(others > -torch.inf, others + (-others).log(), -torch.inf)
    return torch.logaddexp(first, weighted.logsumexp(1) - log_total)


def msp(logits: Tensor) -> Tensor:
    """Logarithm of 1 - maximum softmax probability, (N, K) -> (N,): distinct where 1 - max underflows."""
    _, log_odds = _odds_against(logits)
    return log_odds - log_odds.exp().log1p()


def max_logit(logits: Tensor) -> Tensor:
    """Minus the largest logit, (N, K) -> (N,)."""
    return -logits.amax(1)


def energy(logits: Tensor) -> Tensor:
    """Minus the log-sum-exp of the logits, (N, K) -> (N,)."""
    return -logits.logsumexp(1)


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": log_entropy,
    "msp": msp,
    "max_logit": max_logit,
    "energy": energy,
}


def snap_ties(scores: Tensor) -> Tensor:
    """Scores (N,) in which those that are equal up to rounding are equal: each run's lowest; of the same order.

    The same logits in another order of the classes, say, have scores that differ in their last digits.
    """
    ordered, place = scores.sort()
    is_new = torch.ones_like(place, dtype=torch.bool)
    before, after = ordered[:-1], ordered[1:]
    are_close = after - before <= _EQUAL * after.abs().clamp(min=1)
    are_close &= after.isfinite() & before.isfinite()
    is_new[1:] = ~are_close & (after != before)  # two infinities have no difference
    starts = is_new.nonzero().flatten()
    return torch.empty_like(scores).scatter_(0, place, ordered[starts][is_new.cumsum(0) - 1])


def _snap_sides(inside: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    sides = snap_ties(torch.cat([inside, outside]))
    return sides[: len(inside)], sides[len(inside) :]


def count_at_least(ordered: Tensor, values: Tensor) -> Tensor:
    """Number of the sorted scores that are >= each value, float64."""
    return (len(ordered) - torch.searchsorted(ordered, values)).double()


def _average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """Average precision, step-wise, ties grouped: the mean precision at the positives' scores."""
    hits, false = count_at_least(positive, positive), count_at_least(negative, positive)
    return (hits / (hits + false)).mean()


def detection_rates(inside: Tensor, outside: Tensor) -> dict[str, Tensor]:
    """Rates of telling `outside` (positive, higher scores) from `inside`; ties, up to rounding, count exactly.

    Returns:
        `auroc`; `aupr_in` and `aupr_out` (average precision with either side positive); `fpr95`,
        the share of in-distribution examples at or above the largest threshold that at least 95% of
        the out-of-distribution ones reach. All NaN when one side is empty.
    """
    inside, outside = map(sort_rows, _snap_sides(inside, outside))
    if len(inside) == 0 or len(outside) == 0:
        nothing = torch.full((), torch.nan, dtype=torch.float64, device=inside.device)
        return dict.fromkeys(("auroc", "aupr_in", "aupr_out", "fpr95"), nothing)
    below = torch.searchsorted(inside, outside) + torch.searchsorted(inside, outside, right=True)
    missed = len(outside) - -(-95 * len(outside) // 100)
    return {
        "auroc": (below.double() / (2 * len(inside))).mean(),
        "aupr_in": _average_precision(-inside.flip(0), -outside.flip(0)),
        "aupr_out": _average_precision(outside, inside),
        "fpr95": (count_at_least(inside, outside[missed]) / len(inside)),
    }


def check_scored(logits: Tensor) -> None:
    """Raise unless `logits` is a floating (N, K) tensor whose rows have a finite largest value."""
    check_scores(logits, classes=1)
    check_finite_maximum(logits)


def resampled_auroc(
    inside: Floats, outside: Floats, resamples: Iterable[tuple[Floats, Floats]]
) -> Floats:
    """AUROC of scores (N,) and (M,), the share of (inside, outside) pairs in the right order, on resampled sets, (R,).

    Ties count half. Resamples are drawn some at a time: how often each score is in them, (r, N) and (r, M).
    """
    sides = _snap_sides(torch.from_numpy(inside), torch.from_numpy(outside))
    inside, outside = (side.numpy() for side in sides)
    order = np.argsort(inside)
    ends = [np.searchsorted(inside[order], outside, side) for side in ("left", "right")]
    parts = []
    for counts, others in resamples:
        below = np.pad(np.cumsum(counts[:, order], axis=1), ((0, 0), (1, 0)))
        pairs = (others * (below[:, ends[0]] + below[:, ends[1]])).sum(axis=1) / 2
        parts.append(pairs / (len(inside) * len(outside)))
    return np.concatenate(parts)


class RankedRows:
    """Rows of absent or present, 0 or 1 (M,), sorted once by their scores (M,) for all resamples."""

    def __init__(self, scores: Floats, present: Integers) -> None:
        self._order = np.argsort(scores, kind="stable")
        scores = scores[self._order]
        self._present = np.flatnonzero(present[self._order])
        # Where the run of equal scores of each present row begins and ends, among all rows and among those present.
        self._ties = [
            np.searchsorted(scores, scores[self._present], side) for side in ("left", "right")
        ]
        self._present_ties = [np.searchsorted(self._present, tie) for tie in self._ties]

    def rates(self, weights: Floats) -> tuple[Floats, Floats]:
        """AUROC and average precision, as scikit-learn defines them, (R,) each, given weights of the rows (R, M).

        NaN where all or none are present.
        """
        ordered = weights[:, self._order]
        present, count = ordered[:, self._present], _running_sums(ordered)
        positives = _running_sums(present)
        positive, negative = positives[:, -1], count[:, -1] - positives[:, -1]
        below, up_to = (count[:, tie] for tie in self._ties)
        hits_below, hits_up_to = (positives[:, tie] for tie in self._present_ties)
        pairs = present * ((below - hits_below) + (up_to - hits_up_to)) / 2
        precision = np.nan_to_num(safe_ratio(positive[:, None] - hits_below, count[:, -1:] - below))
        positive_or_none = np.where(
            negative > 0, positive, 0
        )  # without absent rows there is neither
        auroc = safe_ratio(pairs.sum(axis=1), positive_or_none * negative)
        return auroc, safe_ratio((present * precision).sum(axis=1), positive_or_none)


def _running_sums(values: Floats) -> Floats:
    """Running sums along rows, each starting with 0: (R, N) -> (R, N + 1)."""
    sums = torch.from_numpy(values).cumsum(1)  # in a third of numpy's time
    return F.pad(sums, (1, 0)).numpy()


def safe_ratio(above: Floats, below: Floats) -> Floats:
    """NaN where the denominator is 0."""
    quotient = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=quotient, where=np.asarray(below) > 0)
    return quotient

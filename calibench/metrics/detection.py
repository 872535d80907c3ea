"""Detection by uncertainty: scores of logits, and the rates of telling two sets apart by them."""

from collections.abc import Callable

import torch
from torch import Tensor

from calibench.ground.tensors import check_scores
from calibench.metrics.labelled import check_finite_maximum, sort_rows

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


def _at_least(ordered: Tensor, values: Tensor) -> Tensor:
    """How many of the sorted scores are >= each value, float64."""
    return (len(ordered) - torch.searchsorted(ordered, values)).double()


def _average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """Average precision, step-wise, ties grouped: the mean precision at the positives' scores."""
    found, false = _at_least(positive, positive), _at_least(negative, positive)
    return (found / (found + false)).mean()


def detection_rates(inside: Tensor, outside: Tensor) -> dict[str, Tensor]:
    """Rates of telling `outside` (positive, higher scores) from `inside`; ties count exactly.

    The scores (N,) and (M,) may be sorted in place.

    Returns:
        `auroc`; `aupr_in` and `aupr_out` (average precision with either side positive); `fpr95`,
        the share of in-distribution examples at or above the largest threshold that at least 95% of
        the out-of-distribution ones reach. All NaN when one side is empty.
    """
    inside, outside = sort_rows(inside), sort_rows(outside)
    if len(inside) == 0 or len(outside) == 0:
        nothing = torch.full((), torch.nan, dtype=torch.float64, device=inside.device)
        return dict.fromkeys(("auroc", "aupr_in", "aupr_out", "fpr95"), nothing)
    below = torch.searchsorted(inside, outside) + torch.searchsorted(inside, outside, right=True)
    missed = len(outside) - -(-95 * len(outside) // 100)
    return {
        "auroc": (below.double() / (2 * len(inside))).mean(),
        "aupr_in": _average_precision(-inside.flip(0), -outside.flip(0)),
        "aupr_out": _average_precision(outside, inside),
        "fpr95": (_at_least(inside, outside[missed]) / len(inside)),
    }


def check_scored(logits: Tensor) -> None:
    """Raise unless `logits` is a floating (N, K) tensor whose rows have a finite largest value."""
    check_scores(logits, classes=1)
    check_finite_maximum(logits)

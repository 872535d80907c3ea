"""Means over examples: the error, proper scores and Spiegelhalter's test."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric, MeanMetric, PairMetric, compute_once
from calibench.metrics.probability_batches import (
    brier_sum,
    check_logits_and_target,
    log_softmax,
    normalise_rows,
    rows_of_batch,
    true_class,
)
from calibench.metrics.soft_label_scores import POSTERIOR_SCORE_NAMES, posterior_values
from calibench.metrics.titles import NEITHER, Title, Titles, rate


class ErrorRate(PairMetric, MeanMetric):
    """Classification error: the fraction of wrong predictions, 1 - accuracy (this package).

    The first class wins among equal probabilities.

    Range [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import ErrorRate
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = ErrorRate()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"error": rate("Error")}

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Count the wrong ones."""
        self.add(correct.logical_not().sum(dtype=torch.float64), len(correct))


def error_rate(preds: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Classification error: the fraction of wrong predictions, 1 - accuracy (this package).

    The value for a single set; see `ErrorRate`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import error_rate
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> error_rate(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.2500, dtype=torch.float64)
    """
    return compute_once(ErrorRate, preds, target, ignore_index=ignore_index)


class BrierScore(MeanMetric):
    """Brier score, summed over classes (Brier 1950).

    1/N sum_i sum_k (p_ik - 1[y_i = k])^2. Others divide by K, or keep the true class's term only.

    Range [0, 2]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import BrierScore
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = BrierScore()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.3250, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"brier": Title("Brier", largest=2.0)}

    plot_upper_bound = 2.0

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        probs = normalise_rows(preds) if self.validate_args else preds
        self.add(brier_sum(probs, target), len(target))


def brier_score(preds: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Brier score, summed over classes (Brier 1950).

    The value for a single set; see `BrierScore`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 2]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import brier_score
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> brier_score(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.3250, dtype=torch.float64)
    """
    return compute_once(BrierScore, preds, target, ignore_index=ignore_index)


class NegativeLogLikelihood(MeanMetric):
    """Negative log-likelihood in nats (Good 1952).

    What float32 probabilities lost to underflow cannot be recovered, so give logits or
    log-probabilities where they exist. An exact zero on the true class makes the value infinite,
    and it is reported so.

    Args:
        from_logits: Whether `preds` are logits (or log-probabilities: their log-softmax is
            themselves) instead of probabilities.

    Range [0, inf]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import NegativeLogLikelihood
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = NegativeLogLikelihood()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.5737, dtype=torch.float64)
        >>> logits = torch.tensor([[200.0, 0.0], [0.0, 300.0]])  # whose softmax is 0 and 1
        >>> NegativeLogLikelihood(from_logits=True)(logits, torch.tensor([1, 1]))
        tensor(100., dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"nll": Title("NLL")}

    def __init__(self, *, from_logits: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_logits = from_logits

    def update(self, preds: Tensor, target: Tensor, log_probs: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: Probabilities, or logits if `from_logits`, shape (N, K).
            target: Class indices, shape (N,).
            log_probs: Log-probabilities (N, K), or those of the true class alone (N,), used instead of
                `preds` where given.
        """
        if log_probs is not None:
            log_likelihood = true_class(log_probs, target) if log_probs.dim() > 1 else log_probs
        elif not self.from_logits:
            probs, labels = self.receive(preds, target)
            log_likelihood = true_class(
                normalise_rows(probs) if self.validate_args else probs, labels
            ).log()
        else:
            logits, labels = rows_of_batch(preds, target, self.ignore_index)
            if self.validate_args:
                check_logits_and_target(logits, labels)
            log_likelihood = true_class(log_softmax(logits), labels.long())
        total = log_likelihood.detach().to(self.device).sum(dtype=torch.float64)
        self.add(-total, len(log_likelihood))


def negative_log_likelihood(
    preds: Tensor, target: Tensor, *, from_logits: bool = False, ignore_index: int | None = None
) -> Tensor:
    """Negative log-likelihood in nats (Good 1952).

    The value for a single set; see `NegativeLogLikelihood`.

    Args:
        preds: Probabilities, or logits if `from_logits`: (N, K) or (N, K, d1, ...).
        target: Class indices, (N,) or (N, d1, ...).
        from_logits: Whether `preds` are logits (or log-probabilities: their log-softmax is themselves) instead
            of probabilities.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in nats, in [0, inf]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import negative_log_likelihood
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> negative_log_likelihood(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.5737, dtype=torch.float64)
    """
    return compute_once(
        NegativeLogLikelihood, preds, target, from_logits=from_logits, ignore_index=ignore_index
    )


class SpiegelhalterZ(PairMetric):
    """Spiegelhalter's Z statistic of the top-label Brier score (Spiegelhalter 1986).

    Z = sum_i (a_i - c_i)(1 - 2 c_i) / sqrt(sum_i (1 - 2 c_i)^2 c_i (1 - c_i)) for confidence c_i and hit a_i: the Brier
    score's distance from its expectation under perfect calibration, in standard deviations. With confidences above 1/2
    a positive Z is overconfidence. It sees the score only: errors that leave the score at its expectation cancel.

    `compute` returns a dict of float64 scalars: `z`, infinite where only certain predictions (c = 1) are wrong, and
    `p`, its two-sided p-value under the normal distribution. NaN without examples. State: 3 numbers.

    Examples:
        >>> import torch
        >>> from calibench.metrics import SpiegelhalterZ
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = SpiegelhalterZ()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'z': -0.6019, 'p': 0.5472}
    """

    titles: ClassVar[Titles] = {
        "spiegelhalter_z": Title("Spiegelhalter Z", NEITHER),
        "spiegelhalter_p": Title("Spiegelhalter p", NEITHER),
    }
    group_name = "spiegelhalter"

    sums: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_sum("sums", 3)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add (a - c)(1 - 2c), (1 - 2c)^2 c (1 - c) and 1 of each example to the sums."""
        c, a = confidence.double(), correct.double()
        slope = 1 - 2 * c
        terms = [(a - c) * slope, slope.square() * c * (1 - c), torch.ones_like(c)]
        self.accumulate("sums", torch.stack(terms).sum(1))

    def compute(self) -> dict[str, Tensor]:
        """Z and its p-value, see the class."""
        excess, variance, count = self.sums
        z = torch.where(excess == 0, excess, excess / variance.sqrt())
        z = torch.where(count > 0, z, torch.nan)
        return {"z": z, "p": torch.erfc(z.abs() / 2**0.5)}


def spiegelhalter_z(
    preds: Tensor, target: Tensor, *, ignore_index: int | None = None
) -> dict[str, Tensor]:
    """Spiegelhalter's Z statistic of the top-label Brier score (Spiegelhalter 1986).

    The value for a single set; see `SpiegelhalterZ`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Float64 scalars `z` and `p`, its two-sided p-value; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import spiegelhalter_z
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> spiegelhalter_z(preds, torch.tensor([0, 1, 1, 2]))["p"]
        tensor(0.5472, dtype=torch.float64)
    """
    return compute_once(SpiegelhalterZ, preds, target, ignore_index=ignore_index)


class PosteriorScores(CalibrationMetric):
    """Means of `posterior_values` over all examples.

    Range: [0, inf) for `posterior_nll` and `posterior_kl`, [0, 1] for the others; NaN without examples. State: seven
    numbers.
    """

    sums: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_sum("sums", len(POSTERIOR_SCORE_NAMES))
        self.add_sum("count")

    def update(self, log_probs: Tensor, posterior: Tensor) -> None:
        """Add examples: log-probabilities and class distributions, both (N, K)."""
        values = posterior_values(log_probs.detach().to(self.device), posterior.to(self.device))
        self.accumulate("sums", torch.stack([value.sum() for value in values.values()]))
        self.accumulate("count", len(log_probs))

    def compute(self) -> dict[str, Tensor]:
        """The means, by name."""
        return dict(zip(POSTERIOR_SCORE_NAMES, self.sums / self.count, strict=True))

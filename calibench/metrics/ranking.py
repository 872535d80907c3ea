"""Uncertainty as a ranking: out-of-distribution detection from logits, and errors among the most confident examples."""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from calibench.messages.checks import option_named
from calibench.metrics.base import PairMetric, PerExampleMetric, compute_once
from calibench.metrics.detection import SCORES, check_scored, detection_rates, snap_ties
from calibench.metrics.probability_batches import first_largest
from calibench.metrics.titles import MORE, Titles, rate
from calibench.tensors.scores import running_sums

_SMALL_REST = 2.0**-10  # of which a confidence in float32 has 14 binary digits left


def out_of_distribution(
    logits: Tensor,
    is_ood: Tensor,
    *,
    score: Literal["entropy", "msp", "max_logit", "energy"] = "entropy",
) -> dict[str, Tensor]:
    """Out-of-distribution detection: AUROC, AUPR and FPR@95TPR (Hendrycks and Gimpel 2017).

    The value for a single set; see `OutOfDistribution`.

    Args:
        logits: Logits (or, for entropy and MSP, log-probabilities), (N, K).
        is_ood: Whether the examples are out of distribution, (N,) bool.
        score: Uncertainty by which they are ranked.

    Returns:
        Float64 scalars in [0, 1]: `auroc`, `aupr_in`, `aupr_out` (higher is better), `fpr95`; NaN if one side is empty.

    Examples:
        >>> import torch
        >>> from calibench.metrics import out_of_distribution
        >>> logits = torch.tensor([[9.0, 0.0], [7.0, 0.0], [1.0, 0.0], [8.0, 0.0]])
        >>> out_of_distribution(logits, torch.tensor([False, False, True, True]))["auroc"]
        tensor(0.7500, dtype=torch.float64)
    """
    check_scored(logits)
    check_mask(is_ood, logits)
    scores = option_named("score", score, SCORES)(logits.double())
    return detection_rates(scores[~is_ood], scores[is_ood])


def check_mask(is_ood: Tensor, logits: Tensor) -> None:
    """Raise unless `is_ood` is a bool tensor (N,)."""
    is_tensor = isinstance(is_ood, Tensor)
    if not is_tensor or is_ood.dtype != torch.bool or is_ood.shape != logits.shape[:1]:
        received = f"{is_ood.dtype} of shape {tuple(is_ood.shape)}" if is_tensor else repr(is_ood)
        raise ValueError(
            f"`is_ood` must be a bool or a bool tensor of shape ({len(logits)},), got {received}."
        )


class OutOfDistribution(PerExampleMetric):
    """Out-of-distribution detection: AUROC, AUPR and FPR@95TPR (Hendrycks and Gimpel 2017).

    Out-of-distribution examples are the positives and get the higher scores. Scores are computed
    and kept in float64 and ranked exactly, ties counting one half: nothing is squashed through a
    sigmoid or binned, and entropy and MSP rank by their logarithms, which do not underflow however
    far apart the logits are.

    Args:
        score: "entropy" of the softmax, "msp" (1 - maximum softmax probability), "max_logit" (minus
            the largest logit; Hendrycks et al. 2022) or "energy" (Liu et al. 2020). Entropy and MSP
            also take a calibrator's log-probabilities for logits.

    `compute` returns a dict of `auroc`, `aupr_in`, `aupr_out` (higher is better), `fpr95` (lower is
    better), float64 scalars in [0, 1]. State: 8 bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import OutOfDistribution
        >>> logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 3.0, 0.5], [0.9, 1.0, 1.1], [2.0, 0.0, 1.0]])
        >>> metric = OutOfDistribution(score="entropy")
        >>> metric.update(logits, torch.tensor([False, False, True, True]))
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'auroc': 1.0, 'aupr_in': 1.0, 'aupr_out': 1.0, 'fpr95': 0.0}
    """

    titles: ClassVar[Titles] = {
        "ood_auroc": rate("OOD AUROC", MORE),
        "ood_aupr_in": rate("OOD AUPR in", MORE),
        "ood_aupr_out": rate("OOD AUPR out", MORE),
        "ood_fpr95": rate("OOD FPR95"),
    }
    of_labelled_sets = False
    group_name = "ood"

    inside: list[Tensor]
    outside: list[Tensor]

    def __init__(
        self, *, score: Literal["entropy", "msp", "max_logit", "energy"] = "entropy", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.score = option_named("score", score, SCORES)
        self.add_rows("inside", torch.float64)
        self.add_rows("outside", torch.float64)

    def update(self, logits: Tensor, is_ood: Tensor | bool) -> None:
        """Add a batch.

        Args:
            logits: Logits (or, for entropy and MSP, log-probabilities), shape (N, K).
            is_ood: Whether the examples are out of distribution: one bool for all, or a bool tensor
                (N,), which costs a synchronisation.
        """
        if self.validate_args:
            check_scored(logits)
        scores = self.score(logits.detach().to(self.device).double())
        if isinstance(is_ood, Tensor) and is_ood.dim():
            check_mask(is_ood, logits)
            is_ood = is_ood.to(self.device)
            self.append("inside", scores[~is_ood])
            self.append("outside", scores[is_ood])
        else:
            self.append("outside" if is_ood else "inside", scores)

    def compute(self) -> dict[str, Tensor]:
        """The four rates, see the class."""
        return detection_rates(self.rows("inside"), self.rows("outside"))


def log_odds_of_top_label(preds: Tensor, predicted: Tensor) -> Tensor:
    """Logarithm of the largest probability over the rest, (N, K) and its places (N,) -> (N,) float64.

    The rest is 1 less the largest, so that equal confidences tie whatever the others are; where it is so small that
    single precision hardly tells it from 0, it is the sum of the others, which tells examples apart.
    """
    wide, place = preds.double(), predicted.unsqueeze(1)
    top = wide.gather(1, place).squeeze(1)
    remainder, others = (1 - top).clamp(min=0), wide.scatter(1, place, 0.0).sum(1)
    return (
        top.log() - torch.where((remainder < _SMALL_REST) & (others > 0), others, remainder).log()
    )


def expected_errors(scores: Tensor, correct: Tensor) -> Tensor:
    """Expected errors among the k examples of the largest scores, k = 1 ... N, (N,) float64.

    Within a run of scores that are equal up to rounding the order is random, so errors arrive evenly.
    """
    ordered, place = snap_ties(scores).sort(descending=True)
    _, run, length = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    wrong = torch.zeros(len(length), dtype=torch.float64, device=scores.device)
    wrong.index_add_(0, run, correct[place].logical_not().double())
    per_example: Tensor = (wrong / length)[run]
    return running_sums(per_example)


class RiskCoverage(PairMetric, PerExampleMetric):
    """Area under the risk-coverage curve, AURC (Geifman and El-Yaniv 2017; Geifman et al. 2019).

    risk(k) is the error among the k most confident examples, expected over the order among ties. Confidences are
    ranked by their log-odds, so that those which are 1 up to rounding keep their order.

    Args:
        risk: Of `coverage_at_risk`.

    `compute` returns a dict of float64 scalars in [0, 1]: `aurc`, the mean of risk(k) over k = 1
    ... N; `excess_aurc`, that less the AURC of the best order with the same errors;
    `coverage_at_risk`, the largest k / N with risk(k) <= risk (0 if there is none; higher is
    better); `augrc`, the area under the generalised risk, the share of examples that are accepted
    and wrong, over the coverage (Traub et al. 2024). NaN without examples. State: 9 bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import RiskCoverage
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = RiskCoverage()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'aurc': 0.1042, 'excess_aurc': 0.0417, 'coverage_at_risk': 0.5, 'augrc': 0.0625}
    """

    titles: ClassVar[Titles] = {
        "aurc": rate("AURC"),
        "excess_aurc": rate("excess AURC"),
        "coverage_at_risk": rate("coverage at risk", MORE),
        "augrc": rate("AUGRC"),
    }

    def __init__(self, *, risk: float = 0.05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= risk <= 1:
            raise ValueError(f"`risk` must lie in [0, 1], got {risk!r}.")
        self.risk = risk
        self.add_rows("scores", torch.float64)
        self.add_rows("correct", torch.bool)

    def update(
        self, preds: Tensor, target: Tensor, top_label: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Add a batch; of `top_label(preds, target)` alone, where `preds` are no table, the confidences are ranked."""
        if top_label is not None and preds.dim() < 2:
            self.add_pairs(*(part.to(self.device) for part in top_label))
            return
        preds, target = self.receive(preds, target)
        predicted = first_largest(preds)
        self.append("scores", log_odds_of_top_label(preds, predicted))
        self.append("correct", predicted == target)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add pairs, (N,) and (N,) bool."""
        wide = confidence.double()
        self.append("scores", wide.log() - torch.log1p(-wide))
        self.append("correct", correct.bool())

    def compute(self) -> dict[str, Tensor]:
        """The rates, see the class."""
        scores = self.rows("scores")
        n = len(scores)
        if n == 0:
            nothing = torch.full((), torch.nan, dtype=torch.float64, device=scores.device)
            return dict.fromkeys(("aurc", "excess_aurc", "coverage_at_risk", "augrc"), nothing)
        k = torch.arange(1, n + 1, dtype=torch.float64, device=scores.device)
        errors = expected_errors(scores, self.rows("correct"))
        aurc = (errors / k).mean()
        best = ((k - (n - errors[-1])).clamp(min=0) / k).mean()
        accepted = torch.where(errors <= self.risk * k * (1 + 1e-12), k, 0)
        return {
            "aurc": aurc,
            "excess_aurc": aurc - best,
            "coverage_at_risk": accepted.max() / n,
            "augrc": (errors.sum() - errors[-1] / 2) / n**2,  # by trapezia, from no coverage on
        }


def risk_coverage(
    preds: Tensor, target: Tensor, *, risk: float = 0.05, ignore_index: int | None = None
) -> dict[str, Tensor]:
    """Area under the risk-coverage curve, AURC (Geifman and El-Yaniv 2017; Geifman et al. 2019).

    The value for a single set; see `RiskCoverage`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        risk: Of `coverage_at_risk`.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Float64 scalars in [0, 1]: `aurc`, `excess_aurc`, `coverage_at_risk`, `augrc`; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import risk_coverage
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> risk_coverage(preds, torch.tensor([0, 1, 1, 2]))["aurc"]
        tensor(0.1042, dtype=torch.float64)
    """
    return compute_once(RiskCoverage, preds, target, risk=risk, ignore_index=ignore_index)

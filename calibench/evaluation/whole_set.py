"""Metrics of a whole set at once: those that need a recalibration or a validation set.

No stream of batches can compute them, so they come from saved logits only, by the same names and options as the others
(`calibench evaluate --metrics Refinement`, `evaluation.metrics`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.calibrators.fit_warnings import silence_fits
from calibench.evaluation.class_biases import BiasesWithMixture, has_enough_of_each_class
from calibench.evaluation.cross_fitting import compute_refinement, compute_variational_terms
from calibench.messages.checks import integer_from, option_named, unit_interval
from calibench.metrics.conformal import conformal_of_examples
from calibench.metrics.titles import NEITHER, MetricTitles, Titles, signed, signed_rate
from calibench.statistics import verdict_of_mean
from calibench.statistics.number import Key, Number

Scored = tuple[Tensor, Tensor]
"""Log-probabilities (N, K) and targets (N,) of a set."""

_UNDEFINED = torch.full((), torch.nan, dtype=torch.float64)


class WholeSetMetric(MetricTitles, ABC):
    """Metric of a whole set: the base class of those that take all its predictions at once (this package).

    Attributes:
        calibration_errors: The parts whose mean is 0, or less, for any calibrated model: they have a floor, 0, and the
            p-value of a larger mean.
        needs_val: Whether it needs the validation set beside the one that is scored.
    """

    calibration_errors: ClassVar[tuple[str, ...]] = ()
    needs_val: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, scored: Scored, val: Scored | None) -> dict[str, Tensor]:
        """By the name in files: values, one an example (N,) whose mean is the number, or the number itself (a scalar).

        Args:
            scored: The set.
            val: The validation set, after the same calibrator; only there where `needs_val`.
        """

    def number(self, name: str, values: Tensor) -> Number:
        """The number of a name, the mean of its values, with its verdict if it is a calibration error."""
        mean, spread = float(values.mean()), float(values.std(correction=0))
        is_error = name in self.calibration_errors
        verdict = verdict_of_mean(mean, spread, values.numel()) if is_error else None
        return Number(Key(name), mean, verdict=verdict)


_ALONE, _BY_CLASS = "", "_by_class"
"""Ends of the names of values after a temperature alone, and after a temperature and a bias of each class."""


def _list_recalibrations(scored: Scored, *, by_class: bool) -> dict[str, Calibrator | None]:
    """The calibrators that are cross-fitted, by the end of the names of their values: class biases where they can."""
    log_probs, target = scored
    if by_class and has_enough_of_each_class(target, log_probs.shape[1]):
        return {_ALONE: None, _BY_CLASS: BiasesWithMixture(shrinkage=False)}
    return {_ALONE: None}


def _can_be_cross_fitted(scored: Scored) -> bool:
    """Whether there are two examples, and no log-probability is undefined."""
    return len(scored[1]) > 1 and not bool(scored[0].isnan().any())


class Refinement(WholeSetMetric):
    """Refinement after a temperature, and calibration part, of NLL and Brier score (Berta et al. 2025).

    The refinement is the score after a temperature with a uniform mixture, cross-fitted ("Rethinking early stopping");
    a richer map may leave less. The calibration part is the score less it, at most 0 on average for a calibrated
    model. See `compute_refinement`. NaN below two examples.

    A temperature sees no fault class by class, such as that of class weights. So where every class has 20 examples the
    parts are there a second time, `by_class`, after a temperature and a bias of each class; these alone are marked
    where they are consistent with perfect calibration.

    Args:
        scores: Of `nll` and `brier`.
        folds: Number of stratified folds.
        by_class: Also the parts after class biases, where every class has 20 examples.

    Raises:
        ValueError: If `scores` or `folds` is none.
    """

    titles: ClassVar[Titles] = {
        "nll_refinement": signed("NLL refinement"),
        "nll_calibration": signed("NLL calibration"),
        "brier_refinement_crossfit": signed("Brier refinement, cross-fitted"),
        "brier_calibration_crossfit": signed("Brier calibration, cross-fitted"),
        "nll_refinement_by_class": signed("NLL refinement by class"),
        "nll_calibration_by_class": signed("NLL calibration by class"),
        "brier_refinement_by_class": signed("Brier refinement by class"),
        "brier_calibration_by_class": signed("Brier calibration by class"),
    }
    group_name = "refinement"

    calibration_errors = (
        "nll_calibration", "brier_calibration_crossfit", "nll_calibration_by_class", "brier_calibration_by_class",
    )  # fmt: skip

    def __init__(
        self,
        scores: list[Literal["nll", "brier"]] | None = None,
        folds: int = 5,
        *,
        by_class: bool = True,
    ) -> None:
        score_names = ("nll", "brier")
        self.scores = [
            option_named("scores", s, dict.fromkeys(score_names, s)) for s in scores or score_names
        ]
        self.folds = integer_from("folds", folds, 2)
        self.by_class = by_class

    def __call__(self, scored: Scored, val: Scored | None) -> dict[str, Tensor]:
        """The parts; see `WholeSetMetric`."""
        names = [name for name in self.value_names if name.partition("_")[0] in self.scores]
        if not _can_be_cross_fitted(scored):
            return dict.fromkeys((n for n in names if not n.endswith(_BY_CLASS)), _UNDEFINED)
        values: dict[str, Tensor] = {}
        for end, calibrator in _list_recalibrations(scored, by_class=self.by_class).items():
            with silence_fits():
                parts = compute_refinement(*scored, folds=self.folds, calibrator=calibrator)
            for name, part in parts.items():
                # Murphy's parts of the Brier score have the plain names.
                plain_end = "_crossfit" if name.startswith("brier") else ""
                values[f"{name}{end or plain_end}"] = part
        return {name: values[name] for name in names if name in values}


class VariationalCalibrationError(WholeSetMetric):
    """Variational L1 calibration error of the whole distribution, a lower bound (Berta et al. 2026).

    With the over- and underconfidence of the most probable class; each is 0 on average for a calibrated model. See
    `compute_variational_terms`. NaN below two examples.

    The recalibration is a temperature, which sees no fault class by class. Where every class has 20 examples the errors
    are there a second time, `by_class`, after a temperature and a bias of each class. None has a p-value or a mark:
    folds are fitted on each other, so their terms depend on each other, and a normal test would find 9 % of calibrated
    models off, by class 23 % (150 examples of four classes).

    Args:
        p: The norm of the error, 1 or 2; 2 gives `variational_error_l2` alone.
        folds: Number of stratified folds.
        by_class: Also the errors by class biases, where every class has 20 examples.

    Raises:
        ValueError: If `p` or `folds` is none.
    """

    titles: ClassVar[Titles] = {
        "variational_error": signed_rate("variational L1"),
        "variational_overconfidence": signed_rate("variational over"),
        "variational_underconfidence": signed_rate("variational under"),
        "variational_error_by_class": signed_rate("variational L1 by class"),
        "variational_overconfidence_by_class": signed_rate("variational over by class"),
        "variational_underconfidence_by_class": signed_rate("variational under by class"),
    }
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "2": {
            "variational_error_l2": signed_rate("variational L2"),
            "variational_error_l2_by_class": signed_rate("variational L2 by class"),
        }
    }

    plot_upper_bound = 2.0

    def __init__(self, p: Literal[1, 2] = 1, folds: int = 5, *, by_class: bool = True) -> None:
        self.p = option_named("p", p, {1: p, 2: p})
        self.folds = integer_from("folds", folds, 2)
        self.by_class = by_class
        self.take_variant_name(str(p))

    def __call__(self, scored: Scored, val: Scored | None) -> dict[str, Tensor]:
        """The parts; see `WholeSetMetric`."""
        plain_names = [name for name in self.value_names if not name.endswith(_BY_CLASS)]
        if not _can_be_cross_fitted(scored):
            return dict.fromkeys(plain_names, _UNDEFINED)
        values: dict[str, Tensor] = {}
        for end, calibrator in _list_recalibrations(scored, by_class=self.by_class).items():
            with silence_fits():
                terms = compute_variational_terms(
                    *scored, p=self.p, folds=self.folds, calibrator=calibrator
                )
            names = (f"{name}{end}" for name in plain_names)
            values |= zip(names, terms.values(), strict=False)  # the error is the first
        return values


class ConformalSets(WholeSetMetric):
    """Coverage and size of split-conformal prediction sets: LAC, APS, RAPS (Angelopoulos and Bates 2021).

    Thresholds are from the validation set. See `conformal_of_examples`.

    Args:
        alpha: The sets are to miss the true class with at most this probability.

    Raises:
        ValueError: If `alpha` is outside [0, 1].
    """

    titles: ClassVar[Titles] = {
        f"{kind}_{what}": signed(f"{kind.upper()} {what.replace('_', ' ')}", NEITHER)
        for kind in ("lac", "aps", "raps")
        for what in ("coverage", "size", "worst_class")
    }
    group_name = "conformal"

    needs_val = True

    def __init__(self, alpha: float = 0.1) -> None:
        unit_interval("alpha", alpha)
        self.alpha = alpha

    def __call__(self, scored: Scored, val: Scored | None) -> dict[str, Tensor]:
        """The parts; see `WholeSetMetric`."""
        assert val is not None  # `needs_val`
        of_val, of_set = ((log_probs.exp(), target) for log_probs, target in (val, scored))
        values = conformal_of_examples(of_val, of_set, alpha=self.alpha)
        return dict(zip(self.value_names, values.values(), strict=True))

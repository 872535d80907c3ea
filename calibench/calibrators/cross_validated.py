"""Calibrators made of others: the one that cross-validation chooses, and one of another package."""

import copy
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from calibench.calibrators.affine import (
    MATRIX_CLASSES,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from calibench.calibrators.base import Calibrator
from calibench.calibrators.calibration_set import check_calibration_set, find_rare_classes
from calibench.calibrators.ensemble import EnsembleTemperatureScaling
from calibench.calibrators.example_temperature import EntropyTemperatureScaling
from calibench.calibrators.fit_warnings import silence_fits
from calibench.calibrators.isotonic import IRM, IsotonicTopLabel
from calibench.calibrators.one_vs_rest import normalise_log
from calibench.calibrators.temperature import TemperatureScaling, TemperatureWithMixture
from calibench.calibrators.uniform_mixture import mix_with_uniform
from calibench.messages.checks import integer_from
from calibench.tensors.arrays import as_array
from calibench.tensors.row_copies import first_copies


def stratified_folds(target: Tensor, folds: int, scores: Tensor | None = None) -> Tensor:
    """The fold of each example, (N,) int64: of each class every fold has nearly the same number, by a fixed draw.

    Examples with the same row of `scores` (N, K), logits, and the same class are in one fold: a fit that has seen one
    has seen all. Where that would leave a fold without examples they are not.
    """
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(target)))
    order = order[target.cpu()[order].argsort(stable=True)]
    fold = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)) % folds)
    if scores is None:
        return fold
    places = first_copies(as_array(scores), as_array(target))
    together = fold[torch.from_numpy(places)]
    return together if set(together.tolist()) == set(fold.tolist()) else fold


FEWEST_EXAMPLES_FOR_FOLDS = 20  # examples that can be cut into folds

# Standard errors by which a calibrator must be ahead of temperature scaling, some others', and those of the
# probabilities as they are times the examples: chosen on real networks, see benchmarks/simulations.
_SURE, _SURE_OF_RAW = 2.0, 600.0
_SURE_OF: dict[type[Calibrator], float] = {StructuredVectorScaling: 1.5}


def default_candidates(num_classes: int = 2, *, shrinkage: bool = True) -> list[Calibrator]:
    """The calibrators that are compared: those that were the best of some real set, and cost little."""
    calibrators: list[Calibrator] = [
        TemperatureScaling() if shrinkage else TemperatureWithMixture(shrinkage=False),
        EnsembleTemperatureScaling(shrinkage=shrinkage),
        IRM(shrinkage=shrinkage),
        IsotonicTopLabel(smoothing=1, shrinkage=shrinkage),
        EntropyTemperatureScaling(shrinkage=shrinkage),
        StructuredVectorScaling(shrinkage=shrinkage),
        StructuredMatrixScaling(shrinkage=shrinkage),
    ]
    return calibrators[:-1] if num_classes > MATRIX_CLASSES else calibrators


def find_fallback(calibrators: Sequence[Calibrator]) -> int:
    """Position, from 1, of what is taken unless another is surely better: temperature scaling, else 0, nothing."""
    scalings = (
        i
        for i, calibrator in enumerate(calibrators, 1)
        if isinstance(calibrator, TemperatureScaling)
    )
    return next(scalings, 0)


def errors_of_raw(n: int) -> float:
    """Standard errors by which the probabilities as they are must be ahead of the fallback on n examples."""
    return _SURE_OF_RAW / n


def choose_surely_best(losses: Tensor, calibrators: Sequence[Calibrator]) -> int:
    """Position of the lowest mean loss among those that surely are below the fallback's; else that one.

    That is by two standard errors of their paired difference, for structured vector scaling by 1.5, as it is drawn to
    the temperature, and for the probabilities as they are by 600 / n: what a mixture costs is seen in each of n
    examples, and what it saves only in errors, of which few examples have few. The losses, (1 + C, N), are those of the
    probabilities as they are and of each calibrator.
    """
    n, position = losses.shape[1], find_fallback(calibrators)
    gain = losses[position] - losses
    needed = [
        errors_of_raw(n),
        *(_SURE_OF.get(type(calibrator), _SURE) for calibrator in calibrators),
    ]
    sure = gain.mean(1) > gain.new_tensor(needed) * gain.std(1) / n**0.5
    best = torch.where(sure, losses.mean(1), torch.inf).argmin()
    return int(best) if bool(sure.any()) else position


class Unchanged(Calibrator):
    """The probabilities as they are."""

    fitted_buffers = ("done",)

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.done = logits.new_ones(())

    def _log_prob(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(1)


class CrossValidatedCalibration(Calibrator):
    """Temperature scaling, or what cross-validation says is surely better (Stone 1974).

    Each candidate, and the probabilities as they are, is fitted on all folds but one and scored on that one.
    Temperature scaling is taken, without it nothing, unless another's NLL is surely lower, see `choose_surely_best`:
    then the lowest of those. The choice is fitted on all examples. Fewer than 20 are not cut into folds.

    Args:
        calibrators: What there is to choose from; None for seven that were the best of some real set: temperature
            scaling, ETS, IRM, isotonic regression of the top label, temperature scaling by entropy, structured vector
            scaling, and up to 100 classes structured matrix scaling.
        folds: Number of stratified folds, of a fixed draw.
        shrinkage: As for `Calibrator`, of the seven; those that are given have their own, and the choice is mixed here
            if it is not mixed itself. False: the lowest NLL is chosen, whatever its error, and
            nothing is below 20 examples; the choice is mixed, but not the probabilities as they are.

    Attributes:
        chosen: Position of the choice, from 1; 0 if nothing is done.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import CrossValidatedCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = CrossValidatedCalibration(folds=3).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1389, 0.1321, 0.7289],
                [0.0484, 0.5459, 0.4056]])
    """

    published_with_mixture = True
    masked_depth = None
    fitted_buffers = reported = ("chosen",)

    def __init__(
        self,
        *,
        calibrators: Sequence[Calibrator] | None = None,
        folds: int = 5,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        self.folds = integer_from("folds", folds, 2)
        self.calibrators = calibrators
        unfitted = (
            default_candidates(shrinkage=shrinkage) if calibrators is None else [*calibrators]
        )
        self.candidates = nn.ModuleList([Unchanged(shrinkage=False), *copy.deepcopy(unfitted)])
        self.register_load_state_dict_pre_hook(forget_fits)  # type: ignore[no-untyped-call]

    @property
    def fitted(self) -> bool:
        """Whether it can be applied: a state with the number of the choice alone is none."""
        return super().fitted and any(candidate.fitted for candidate in self._candidates)

    @property
    def choice(self) -> Calibrator:
        """The candidate that was chosen, fitted."""
        return next(candidate for candidate in self._candidates if candidate.fitted)

    @property
    def at_bound(self) -> bool:
        """Whether the fit of the choice ended at a bound."""
        return self.fitted and self.choice.at_bound

    @property
    def _candidates(self) -> list[Calibrator]:
        return [cast("Calibrator", candidate) for candidate in self.candidates]

    @torch.no_grad()
    def fit_choice(self, choice: int, logits: Tensor, target: Tensor) -> Self:
        """Fit the candidate of a position that was chosen elsewhere, 0 for none; raises and returns as `fit` does."""
        if not 0 <= choice < len(self.candidates):
            raise ValueError(f"`choice` must be 0 to {len(self.candidates) - 1}, got {choice}.")
        check_calibration_set(logits, target)
        logits = logits.double()
        forget_fits(self)
        self.chosen = logits.new_tensor(choice)
        self._candidates[choice].fit(logits, target)
        self.uniform_share = logits.new_tensor(self._share(len(target)))
        self.num_classes = logits.shape[1]
        return self

    def describe_long_fit(self, n: int, k: int) -> str:
        """The reason of the first candidate that has one; those by default have none."""
        candidates = () if self.calibrators is None else self._candidates
        reasons = (candidate.describe_long_fit(n, k) for candidate in candidates)
        return next(filter(None, reasons), "")

    def _share(self, n: int) -> float:
        as_it_is = int(self.chosen) == 0 or self.choice.shrinkage
        return 0.0 if as_it_is else super()._share(n)

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.fit_choice(self.best(logits, target), logits, target)

    def best(self, logits: Tensor, target: Tensor) -> int:
        """Position of the choice by NLL on held-out folds, for logits (N, K) float64 and targets (N,)."""
        end = 1 + len(default_candidates(logits.shape[1])) if self.calibrators is None else None
        calibrators = self._candidates[1:end]
        default = find_fallback(calibrators) if self.shrinkage else 0
        if len(target) < FEWEST_EXAMPLES_FOR_FOLDS:
            return default
        fold = stratified_folds(target, self.folds, logits).to(target.device)
        with silence_fits():
            candidate_losses = [
                held_out_nll(calibrator, logits, target, fold) for calibrator in calibrators
            ]
        losses = torch.stack([example_nll(logits.log_softmax(1), target), *candidate_losses])
        if find_rare_classes(target, logits.shape[1]):
            has_parameters = [candidate.has_class_parameters for candidate in calibrators]
            losses[1:][torch.tensor(has_parameters, dtype=torch.bool)] = torch.inf
        if self.shrinkage:
            return choose_surely_best(losses, calibrators)
        return int(losses.mean(1).nan_to_num(torch.inf).argmin())

    def _log_prob(self, logits: Tensor) -> Tensor:
        return self.choice.log_prob(logits)

    def _prob(self, logits: Tensor) -> Tensor:
        probs: Tensor = self.choice(logits)
        return probs


def held_out_nll(calibrator: Calibrator, logits: Tensor, target: Tensor, fold: Tensor) -> Tensor:
    """NLL of all examples (N,), each by a fit without its fold."""
    model, log_probs = copy.deepcopy(calibrator), torch.empty_like(logits)
    for number in range(int(fold.max()) + 1):
        is_held_out = fold == number
        log_probs[is_held_out] = predict_after_refit(
            model, logits[~is_held_out], target[~is_held_out], logits[is_held_out]
        )
    return example_nll(log_probs, target)


def predict_after_refit(
    model: Calibrator, logits: Tensor, target: Tensor, others: Tensor
) -> Tensor:
    """Log-probabilities of others (M, K) after a fit, mixed with the uniform ones as those of the choice are."""
    log_probs = model.fit(logits, target).log_prob(others)
    share = 0.0 if model.shrinkage else 1 / (len(logits) + 1)
    return mix_with_uniform(log_probs, logits.new_tensor(share))


def example_nll(log_probs: Tensor, target: Tensor) -> Tensor:
    """NLL of each example, (N,), for log-probabilities (N, K) and targets (N,)."""
    return -log_probs.gather(1, target.unsqueeze(1)).squeeze(1)


def forget_fits(module: CrossValidatedCalibration, *_: Any) -> None:
    """Empty what the candidates fitted, so that a state of another choice finds its place."""
    for part in module.candidates.modules():
        for name, _value in part.named_buffers(recurse=False):
            setattr(part, name, None)


class SklearnCalibrator(Calibrator, ABC):
    """A calibrator of scikit-learn's kind, which maps probabilities to probabilities (Pedregosa et al. 2011).

    It is fitted on the probabilities softmax(z) (N, K) and the class indices (N,), and its `predict_proba` gives
    (N, K); what it does with them is its own affair. Classes that it has not seen (`classes_`) get probability 0,
    before any mixture. Rows are normalised; `fit` leaves the estimator alone and fits a clone. A state holds the fitted
    estimator as it is.

    Args:
        estimator: An object with `fit(probs, y)` and `predict_proba(probs)`.
        shrinkage: As for `Calibrator`.

    Attributes:
        estimator_: The fitted clone.

    Raises:
        TypeError: If the estimator lacks one of them.

    Examples:
        >>> import torch
        >>> from sklearn.linear_model import LogisticRegression
        >>> from calibench.calibrators import SklearnCalibrator
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = SklearnCalibrator(LogisticRegression()).fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.0778, 0.1160, 0.8062],
                [0.1288, 0.6478, 0.2234]])
    """

    def __init__(self, estimator: Any, *, shrinkage: bool = True) -> None:
        super().__init__(shrinkage=shrinkage)
        for method in ("fit", "predict_proba"):
            if not callable(getattr(estimator, method, None)):
                class_name = type(estimator).__name__
                raise TypeError(
                    f"`estimator` must have `fit` and `predict_proba`; {class_name} has no `{method}`."
                )
        self.estimator = estimator
        self.estimator_: Any = None

    @property
    def fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted state been loaded."""
        return self.estimator_ is not None

    def get_extra_state(self) -> dict[str, Any]:
        """Extra state: the fitted estimator and the number of classes."""
        return {"estimator": self.estimator_, "num_classes": self.num_classes}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `get_extra_state` gave."""
        self.estimator_, self.num_classes = state["estimator"], state["num_classes"]

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        from sklearn.base import clone  # a second, which only a fit needs

        self.estimator_ = clone(self.estimator, safe=False)
        self.estimator_.fit(logits.softmax(dim=1).cpu().numpy(), target.cpu().numpy())

    def _log_prob(self, logits: Tensor) -> Tensor:
        if len(logits) == 0:
            return logits.clone()
        predicted = self.estimator_.predict_proba(logits.softmax(dim=1).cpu().numpy())
        probs = torch.as_tensor(predicted, dtype=torch.float64, device=logits.device)
        classes = getattr(self.estimator_, "classes_", range(logits.shape[1]))
        if probs.shape != (len(logits), len(classes)):
            raise ValueError(
                f"`predict_proba` of {type(self.estimator_).__name__} must give {(len(logits), len(classes))}, "
                f"got {tuple(probs.shape)}."
            )
        columns = torch.as_tensor([int(label) for label in classes], device=logits.device)
        return normalise_log(torch.zeros_like(logits).index_copy_(1, columns, probs))

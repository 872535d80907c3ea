"""The calibrator that cross-validation chooses, for comparisons of losses after the best calibrator of each."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from calibench.calibrators.base import Calibrator, check_calibration_set
from calibench.calibrators.convergence import ConvergenceWarning
from calibench.calibrators.ensemble import EnsembleTemperatureScaling
from calibench.calibrators.experimental import EntropyTemperatureScaling
from calibench.calibrators.folds import stratified_folds
from calibench.calibrators.isotonic import IRM, IsotonicTopLabel
from calibench.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from calibench.calibrators.temperature import TemperatureScaling, mixed_with_uniform
from calibench.ground.arguments import integer_from

FEWEST = 20  # examples that can be cut into folds
_MATRICES = 100  # classes up to which a calibrator with K^2 parameters is tried


def candidates(num_classes: int = 2) -> list[Calibrator]:
    """The calibrators that are compared: those that were the best of some real set, and cost little."""
    cheap: list[Calibrator] = [
        TemperatureScaling(mixture=True),
        EnsembleTemperatureScaling(),
        IRM(),
        IsotonicTopLabel(smoothing=1),
        EntropyTemperatureScaling(),
        StructuredVectorScaling(),
    ]
    return cheap if num_classes > _MATRICES else [*cheap, StructuredMatrixScaling()]


class _Unchanged(Calibrator):
    """The probabilities as they are."""

    fitted_buffers = ("done",)

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.done = logits.new_ones(())

    def _log_prob(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(1)


class CrossValidatedCalibration(Calibrator):
    """The calibrator with the lowest cross-validated NLL, or none (Stone 1974).

    Each candidate is fitted on all folds but one and scored on that one; the best is fitted on all. Its probabilities
    are mixed with the uniform ones, as those of `TemperatureScaling(mixture=True)` are: (1 - c) p + c / K with
    c = 1 / (n + 1) after n examples, since a calibrator that saw no error among them cannot rule one out. Where nothing
    beats the probabilities as they are, and with fewer than 20 examples, they stay so, and c is 0.

    Args:
        calibrators: What there is to choose from; None for seven that were the best of some real set: temperature
            scaling with a mixture, ETS, IRM, isotonic regression of the top label, temperature scaling by entropy,
            structured vector scaling, and up to 100 classes structured matrix scaling.
        folds: Number of stratified folds, of a fixed draw.

    Attributes:
        chosen: Position of the choice, from 1; 0 if nothing is done.
        uniform_share: c.
    """

    fitted_buffers = ("chosen", "uniform_share")
    reported = ("chosen",)

    def __init__(self, *, calibrators: Sequence[Calibrator] | None = None, folds: int = 5) -> None:
        super().__init__()
        self.folds = integer_from("folds", folds, 2)
        self.calibrators = calibrators
        given = candidates() if calibrators is None else copy.deepcopy([*calibrators])
        self.candidates = nn.ModuleList([_Unchanged(), *given])
        self.register_load_state_dict_pre_hook(_forget)  # type: ignore[no-untyped-call]

    @property
    def fitted(self) -> bool:
        """Whether it can be applied: a state with the number of the choice alone is none."""
        return super().fitted and any(one.fitted for one in self._known)

    @property
    def choice(self) -> Calibrator:
        """The candidate that was chosen, fitted.

        Raises:
            StopIteration: If nothing has been fitted.
        """
        return next(one for one in self._known if one.fitted)

    @property
    def _known(self) -> list[Calibrator]:
        return [cast("Calibrator", one) for one in self.candidates]

    @torch.no_grad()
    def fit_choice(self, choice: int, logits: Tensor, target: Tensor) -> Self:
        """Fit a candidate that was chosen elsewhere.

        Args:
            choice: Its position, from 1; 0 for none.
            logits: Finite scores, (N, K).
            target: Class indices, (N,).

        Returns:
            The calibrator itself.

        Raises:
            ValueError: If there is no such candidate, or as `fit` does.
        """
        if not 0 <= choice < len(self.candidates):
            raise ValueError(f"`choice` must be 0 to {len(self.candidates) - 1}, got {choice}.")
        check_calibration_set(logits, target)
        logits = logits.double()
        _forget(self)
        self.chosen = logits.new_tensor(choice)
        self.uniform_share = _uniform_share(logits) * bool(choice)
        self._known[choice].fit(logits, target)
        return self

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        self.fit_choice(self._best(logits, target) if len(target) >= FEWEST else 0, logits, target)

    def _best(self, logits: Tensor, target: Tensor) -> int:
        """Position of the candidate with the lowest NLL on held-out folds."""
        fold = stratified_folds(target, self.folds).to(target.device)
        tried = 1 + len(candidates(logits.shape[1])) if self.calibrators is None else None
        raw = _nll(logits.log_softmax(1), target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # such a fit is scored as it is
            found = [_held_out(one, logits, target, fold) for one in self._known[1:tried]]
        return int(torch.stack([raw, *found]).nan_to_num(torch.inf).argmin())

    def _log_prob(self, logits: Tensor) -> Tensor:
        return mixed_with_uniform(self.choice.log_prob(logits), self.uniform_share)


def _held_out(calibrator: Calibrator, logits: Tensor, target: Tensor, fold: Tensor) -> Tensor:
    """Mean NLL of all examples, each by a fit without its fold."""
    model, found = copy.deepcopy(calibrator), torch.empty_like(logits)
    for which in range(int(fold.max()) + 1):
        out = fold == which
        found[out] = refitted(model, logits[~out], target[~out], logits[out])
    return _nll(found, target)


def refitted(model: Calibrator, logits: Tensor, target: Tensor, others: Tensor) -> Tensor:
    """Log-probabilities of others (M, K), mixed with the uniform ones as those of the choice are, after a fit."""
    log_probs = model.fit(logits, target).log_prob(others)
    return mixed_with_uniform(log_probs, _uniform_share(logits))


def _uniform_share(logits: Tensor) -> Tensor:
    return logits.new_tensor(1 / (len(logits) + 1))


def _nll(log_probs: Tensor, target: Tensor) -> Tensor:
    return -log_probs.gather(1, target.unsqueeze(1)).mean()


def _forget(module: CrossValidatedCalibration, *_: Any) -> None:
    """Empty what the candidates fitted, so that a state of another choice finds its place."""
    for part in module.candidates.modules():
        for name, _value in part.named_buffers(recurse=False):
            setattr(part, name, None)

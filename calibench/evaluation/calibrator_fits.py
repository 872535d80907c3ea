"""The ways in which a calibrator is fitted: on all rows of a set, on each label alone, or for a test set's priors."""

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from calibench.calibrators import Calibrator, LabelShiftCorrection
from calibench.calibrators.label_probabilities import LabelProbabilities
from calibench.calibrators.label_shift import check_distribution
from calibench.calibrators.names import unique_names
from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument
from calibench.metrics.probability_batches import log_softmax, normalise_rows
from calibench.predictions.confidence_pairs import CLASSES_OF_PAIRS
from calibench.runs import Predictions
from calibench.tensors.scores import blocks_of_rows

LOGITS, PROBABILITIES, LABELS, PAIRS = "logits", "probabilities", "labels", "pairs"
NAMES_OF_KINDS = {
    LOGITS: "logits",
    PROBABILITIES: "probabilities",
    LABELS: "several labels an example",
    PAIRS: "pairs of a confidence and a hit",
}
MOST_NAMED_CLASSES = 5  # classes that a remark names
PER_LABEL = "(per label)"  # ends the names of those that are fitted on each label alone


def check_fittable(val: Predictions) -> None:
    """Raise a ValueError unless calibrators can be fitted on these predictions; it names the option that helps."""
    masked = np.isneginf(val.logits)
    if not (np.isfinite(val.logits) | masked).all():
        raise ValueError(
            f"{spell_argument('val')} holds NaN or infinite logits: calibrators need finite ones."
        )
    rows = np.flatnonzero((val.target >= 0) & masked[np.arange(len(masked)), val.target])
    if len(rows):
        raise ValueError(
            f"calibrators need a finite NLL, and the true class of row {rows[0]} of {spell_argument('val')} has a "
            f"probability of exactly 0 (so in {len(rows)} rows): say with {spell_argument('clip')}, 1e-12 say, what "
            "it counts as."
        )


def log_probabilities(logits: Tensor, calibrator: Calibrator | None = None) -> Tensor:
    """Log-probabilities (N, K): the calibrator's, or the logits' own log-softmax."""
    if calibrator is None:
        return log_softmax(logits)
    log_probs = torch.empty_like(logits)
    for rows, part in blocks_of_rows(logits, log_probs):
        part.copy_(calibrator.log_prob(rows))
    return log_probs


def predicted_log_probabilities(
    predictions: Predictions, calibrator: Calibrator | None = None
) -> Tensor:
    """Log-probabilities (N, K) of predictions; where these are probabilities, and nothing calibrates them, theirs."""
    probs = given_probabilities(predictions)
    if calibrator is None and probs is not None:
        return normalise_rows(probs).log()
    return log_probabilities(torch.from_numpy(predictions.logits), calibrator)


def given_probabilities(
    predictions: Predictions, calibrator: object | None = None
) -> Tensor | None:
    """Probabilities (N, K) float64 as they were given, which are binned as they are; None after a calibrator."""
    if calibrator is not None or predictions.probs is None:
        return None
    return torch.from_numpy(predictions.probs)


def fit_calibrator(calibrator: Calibrator, predictions: Predictions) -> Calibrator:
    """Fit a calibrator on validation predictions.

    Raises:
        ValueError: If they are a test, shift or out-of-distribution set: that would be a leak.
    """
    if predictions.kind not in ("", "val"):
        source = f"the {predictions.kind} set `{predictions.split}`"
        raise ValueError(f"a calibrator is fitted on validation predictions, got {source}.")
    logits, target = torch.from_numpy(predictions.logits), torch.from_numpy(predictions.target)
    calibrator.fit(logits, target)
    keep_names_of_fit(calibrator, predictions, [predictions])
    return calibrator


def keep_names_of_fit(
    calibrator: Calibrator, predictions: Predictions, sets: Iterable[Predictions]
) -> None:
    """Let a calibrator keep what it was fitted on: the names of the classes, the kind of input, and the digest.

    Where some of the sets that were read together hold logits and others probabilities, all are log-probabilities.
    """
    kinds = {kind_of_input(part) for part in sets}
    calibrator.class_names = predictions.metadata.get("class_names") or None
    calibrator.fitted_on = digest_predictions(predictions)
    calibrator.input_kind = PROBABILITIES if PROBABILITIES in kinds else kind_of_input(predictions)


def kind_of_input(predictions: Predictions) -> str:
    """The kind of input that predictions hold, a key of `NAMES_OF_KINDS`."""
    if predictions.labels is not None:
        return LABELS
    if predictions.metadata.get("class_names") == [*CLASSES_OF_PAIRS]:
        return PAIRS
    return LOGITS if predictions.probs is None else PROBABILITIES


def digest_predictions(predictions: Predictions) -> str:
    """SHA-256 of the logits and the targets of a set, in hexadecimal."""
    digest = hashlib.sha256()
    for array in (predictions.logits, predictions.target):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def leave_out_long_fits(
    calibrators: Sequence[Calibrator], n: int, k: int
) -> tuple[list[Calibrator], list[str]]:
    """Calibrators whose fits to n examples of k classes can be waited for, and a line that names the others."""
    are_long = [bool(calibrator.describe_long_fit(n, k)) for calibrator in calibrators]
    long = list(compress(unique_names(calibrators), are_long))
    short_fits = [
        model for model, is_long in zip(calibrators, are_long, strict=True) if not is_long
    ]
    if not long:
        return short_fits, []
    line = (
        f"left out: {', '.join(long)}, as a fit to {n:,} x {k:,} logits takes minutes; "
        f"StructuredVectorScaling has {2 * k:,} parameters in place of {k * (k + 1):,}"
    )
    return short_fits, [line]


class SharedFit:
    """A calibrator that is fitted on all rows of a set: classes, or all labels together."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    def fit(self, val: Predictions) -> Self:
        """Fit on validation predictions; raises as `fit_calibrator` does."""
        fit_calibrator(self.calibrator, val)
        return self

    def log_probabilities(self, predictions: Predictions) -> Tensor:
        """Calibrated log-probabilities, (N, K)."""
        return predicted_log_probabilities(predictions, self.calibrator)

    def module(self, label_names: Sequence[str]) -> nn.Module:
        """The fitted module, from a network's outputs to probabilities."""
        calibrators = [self.calibrator] * len(label_names)
        return LabelProbabilities(calibrators) if calibrators else self.calibrator

    @property
    def at_bound(self) -> bool:
        """Whether the fit ended at a bound."""
        return self.calibrator.at_bound

    def parameters_dict(self) -> Mapping[str, Any]:
        """Fitted parameters as plain numbers."""
        return self.calibrator.parameters_dict()


class PerLabelFit:
    """A calibrator that is fitted on each label alone.

    A label that is present, or absent, in all examples of validation keeps its probabilities.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        self._unfitted = calibrator
        self.calibrators: dict[str, Calibrator | None] = {}

    def fit(self, val: Predictions) -> Self:
        """Fit on validation predictions; raises as `fit_calibrator` does."""
        for name, part in zip(val.label_names, val.by_label(), strict=True):
            self.calibrators[name] = None
            if len(np.unique(part.target)) == 2:
                self.calibrators[name] = fit_calibrator(copy.deepcopy(self._unfitted), part)
        return self

    def log_probabilities(self, predictions: Predictions) -> Tensor:
        """Calibrated log-probabilities, (M, 2)."""
        log_probs = torch.empty(predictions.logits.shape)
        fitted = self.calibrators.values()
        assert predictions.labels is not None
        of_labels = (predictions.labels.rows, predictions.by_label(), fitted)
        for rows, part, calibrator in zip(*of_labels, strict=True):
            log_probs[rows] = predicted_log_probabilities(part, calibrator)
        return log_probs

    def module(self, label_names: Sequence[str]) -> nn.Module:
        """The fitted module, from a network's outputs to probabilities."""
        return LabelProbabilities([self.calibrators[name] for name in label_names])

    @property
    def at_bound(self) -> bool:
        """Whether the fit of a label ended at a bound."""
        return any(calibrator.at_bound for calibrator in self.calibrators.values() if calibrator)

    def parameters_dict(self) -> Mapping[str, Any]:
        """Fitted parameters as plain numbers, by the name of the label."""
        return {
            name: calibrator.parameters_dict()
            for name, calibrator in self.calibrators.items()
            if calibrator
        }


Fitting = SharedFit | PerLabelFit


def list_fit_remarks(val: Predictions, fitted: Mapping[str, Fitting]) -> list[str]:
    """A line for each thing that makes what was fitted doubtful.

    Said are: fits that ended at a bound, a validation set without an error, and classes that it lacks.
    """
    remarks = [f"{name}: the fit ended at a bound" for name, fit in fitted.items() if fit.at_bound]
    if val.label_names or not fitted:
        return remarks
    n, counts = len(val.target), np.bincount(val.target, minlength=val.logits.shape[1])
    if (val.logits.argmax(1) == val.target).all():
        remarks.append(
            f"none of the {n} validation examples is misclassified: calibrators are unreliable"
        )
    absent = np.flatnonzero(counts == 0).tolist()
    if absent:
        names = [
            *map(str, absent[:MOST_NAMED_CLASSES]),
            *["..."] * (len(absent) > MOST_NAMED_CLASSES),
        ]
        classes = ", ".join(names)
        number = f"{len(absent)} class{'es' if len(absent) > 1 else ''}"
        remarks.append(f"the validation set has no example of {number}: {classes}")
    return remarks


Priors = str | Sequence[float] | None

UNIFORM, ESTIMATED, ORACLE = "uniform", "estimated", "oracle"


def check_priors(priors: Priors) -> None:
    """Raise a ValueError unless `priors` are one of the words, or a distribution."""
    if isinstance(priors, str):
        if priors not in (words := (UNIFORM, ESTIMATED, ORACLE)):
            raise UsageError(f"`priors` must be {', '.join(words)} or K numbers, got `{priors}`.")
    elif priors is not None:
        check_distribution("priors", priors)


class PriorCorrectedFit(SharedFit):
    """A calibrator that is fitted on all rows of a set, and corrected to the priors of the test data.

    Validation has the priors of the fit, so it is not corrected. Priors that are not known are estimated from each
    set's own logits, those of an out-of-distribution set from the test set's.
    """

    def __init__(
        self, calibrator: Calibrator, priors: Sequence[float] | None, test: Predictions
    ) -> None:
        super().__init__(calibrator)
        shrinkage = calibrator.shrinkage
        self._corrected = LabelShiftCorrection(calibrator, priors=priors, shrinkage=shrinkage)
        self._test = test

    def fit(self, val: Predictions) -> Self:
        """Fit on validation predictions; raises as `fit_calibrator` does."""
        fit_calibrator(self._corrected, val)
        self._corrected = self._adapted(self._test)
        return self

    def log_probabilities(self, predictions: Predictions) -> Tensor:
        """Calibrated and corrected log-probabilities, (N, K)."""
        if predictions.kind == "val":
            return super().log_probabilities(predictions)
        adapted = self._corrected if predictions.kind == "ood" else self._adapted(predictions)
        return predicted_log_probabilities(predictions, adapted)

    def parameters_dict(self) -> Mapping[str, Any]:
        """Fitted parameters as plain numbers: both priors, and the calibrator's."""
        return self._corrected.parameters_dict()

    def _adapted(self, part: Predictions) -> LabelShiftCorrection:
        if self._corrected.priors is not None:
            return self._corrected
        return copy.deepcopy(self._corrected).adapt(torch.from_numpy(part.logits))


def list_fits(
    named: Mapping[str, Calibrator], priors: Priors, test: Predictions
) -> dict[str, Fitting]:
    """The ways in which calibrators are fitted, by name, unfitted: each on all rows.

    And on each label alone if the test set has any; or with a correction to its priors, by names that say which priors:
    a UsageError if they are numbers that equal the label frequencies of the test set, or there are several labels.
    """
    fits: dict[str, Fitting] = {
        n: SharedFit(copy.deepcopy(calibrator)) for n, calibrator in named.items()
    }
    if test.label_names:
        if priors is not None:
            reason = "an example with several labels has none"
            raise UsageError(f"`priors` are frequencies of classes: {reason}.")
        return fits | {
            name + PER_LABEL: PerLabelFit(calibrator) for name, calibrator in named.items()
        }
    if priors is None:
        return fits
    label, numbers = priors if isinstance(priors, str) else "given", _resolve_priors(priors, test)
    return fits | {
        f"{name}(priors={label})": PriorCorrectedFit(copy.deepcopy(calibrator), numbers, test)
        for name, calibrator in named.items()
    }


def _resolve_priors(priors: str | Sequence[float], test: Predictions) -> Sequence[float] | None:
    k = test.logits.shape[1]
    frequencies = np.bincount(test.target, minlength=k) / len(test.target)
    words = {UNIFORM: [1 / k] * k, ESTIMATED: None, ORACLE: [*map(float, frequencies)]}
    if isinstance(priors, str):
        return words[priors]
    is_uniform = np.ptp(frequencies) == 0
    if len(priors) == k and np.allclose(priors, frequencies, rtol=0, atol=1e-6) and not is_uniform:
        raise UsageError(
            "`priors` are the label frequencies of the test set itself, which nobody knows: "
            f"give `{ORACLE}` to see what they would bring, or `{ESTIMATED}`."
        )
    return priors

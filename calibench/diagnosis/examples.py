"""Labelled examples of any model: confidences, hits, and what calibrators are fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from calibench.evaluation.calibrator_fits import given_probabilities, log_probabilities
from calibench.metrics.probability_batches import first_largest, top_label, true_class
from calibench.predictions import Predictions
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.file_names import describe_missing_labels


class Shape(NamedTuple):
    """The number of examples, and that of their `classes` or `labels`; `pairs` have two, right and wrong."""

    examples: int
    number: int
    of: str


@dataclass(frozen=True)
class LabelledExamples:
    """Labelled examples of a model; where an example has several labels, a row for each.

    Attributes:
        scores: Logits, or log-probabilities, as a file has them, (N, K) float64; of pairs those of the classes
            `wrong` and `right`.
        target: Class indices, (N,).
        confidence: (N,) float64.
        correct: Whether each answer is right, (N,) bool.
        are_pairs: Whether they are pairs of a confidence and a hit, of which no classes are known.
        class_names: Names of the classes, (K,).
        label: The label of each row, (N,), where an example has several.
        example: The example of each row, (N,), there.
        label_names: Names of the labels.
    """

    scores: Tensor
    target: Tensor
    confidence: Tensor
    correct: Tensor
    class_names: Sequence[str]
    are_pairs: bool = False
    label: Tensor | None = None
    example: Tensor | None = None
    label_names: Sequence[str] = ()

    @classmethod
    def from_predictions(
        cls, predictions: Predictions | ConfidencePairs, clip: float
    ) -> LabelledExamples:
        """Labelled examples from predictions that were read; `clip` as in `ConfidencePairs.binary`."""
        if isinstance(predictions, ConfidencePairs):
            binary = cls.from_predictions(predictions.binary(clip), clip)
            confidence, correct = map(
                torch.from_numpy, (predictions.confidence, predictions.correct)
            )
            return replace(binary, confidence=confidence, correct=correct, are_pairs=True)
        scores, target = (
            torch.from_numpy(predictions.logits).double(),
            torch.from_numpy(predictions.target),
        )
        names = predictions.metadata.get("class_names") or [
            f"class {k}" for k in range(scores.shape[1])
        ]
        label = example = None
        if predictions.labels is not None:
            label, example = map(
                torch.from_numpy, (predictions.labels.label, predictions.labels.example)
            )
        probs = given_probabilities(predictions)  # which are binned as they are
        top = _top(scores, target) if probs is None else top_label(probs, target)
        return cls(
            scores, target, *top, names,
            label=label, example=example, label_names=predictions.label_names,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.target)

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return float(self.correct.double().mean())

    @property
    def shape(self) -> Shape:
        """The number of examples, and that of their classes or labels."""
        if self.label is not None:
            return Shape(len(self), len(self.label_names), "labels")
        kind = "pairs" if self.are_pairs else "classes"
        return Shape(len(self), self.scores.shape[1], kind)

    @property
    def kinds(self) -> tuple[Tensor, Sequence[str]] | None:
        """The label (N,) of each answer, else the class that it predicts, and their names; None of pairs."""
        if self.label is not None:
            return self.label, self.label_names
        if self.are_pairs:
            return None
        return first_largest(log_probabilities(self.scores).exp()), self.class_names

    def select_rows(self, rows: Tensor) -> LabelledExamples:
        """Some of the rows."""
        names: tuple[str, ...] = ("scores", "target", "confidence", "correct")
        names = (*names, "label", "example") if self.label is not None else names
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def calibrated(self, log_probs: Tensor) -> LabelledExamples:
        """These examples with the log-probabilities (N, K) of a calibrator."""
        if self.are_pairs:
            return replace(self, scores=log_probs, confidence=log_probs[:, 1].exp())
        confidence, correct = _top(log_probs, self.target)
        return replace(self, scores=log_probs, confidence=confidence, correct=correct)


def _top(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and hit of each example."""
    return top_label(log_probabilities(scores).exp(), target)


def check_examples(
    predictions: Predictions | ConfidencePairs, called: str, clip: float
) -> LabelledExamples:
    """The examples that were read; a ValueError if they lack labels, or calibrators could not be fitted on them."""
    examples = LabelledExamples.from_predictions(predictions, clip)
    if len(examples) == 0:
        raise ValueError(f"{called} holds no examples.")
    if int(examples.target.min()) < 0:
        raise ValueError(describe_missing_labels(called, "a verdict"))
    of_target = true_class(examples.scores, examples.target)
    if not bool(of_target.isfinite().all()):
        row = int(of_target.isfinite().logical_not().nonzero()[0])
        raise ValueError(
            f"{called} holds a probability of exactly 0 for the true class of row {row}, which calibrators cannot "
            "take: say with `clip`, 1e-12 say, what it counts as, or write finite logits."
        )
    return examples


def check_test_and_validation(examples: LabelledExamples, val: LabelledExamples) -> None:
    """Raise a ValueError unless both are of one kind, with the same classes, and not the same."""
    test_classes, val_classes = examples.scores.shape[1], val.scores.shape[1]
    if examples.are_pairs != val.are_pairs:
        raise ValueError(
            "one of the sets holds pairs of confidence and correct, and the other does not."
        )
    if test_classes != val_classes:
        raise ValueError(
            f"the validation set has {val_classes} classes, and the test set {test_classes}: "
            "both are predictions of one model."
        )
    if examples.scores.equal(val.scores):
        raise ValueError(
            "the validation set holds the same predictions as the test set: give the test set alone, and calibrators "
            "are cross-validated."
        )


Examples = LabelledExamples
"""The labels of an example are all known: another name of `LabelledExamples`."""

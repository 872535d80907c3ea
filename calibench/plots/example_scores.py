"""Confidence, entropy and predicted class of each example, from saved logits, raw or after a calibrator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from calibench.evaluation.calibrator_fits import log_probabilities
from calibench.evaluation.serialization import load_fitted_calibrator, restore_calibrator
from calibench.plots.reliability import Reliability, examples_and_runs, reliability
from calibench.plots.smooth_reliability import SmoothReliability, smooth_reliability
from calibench.ranking.records import Record
from calibench.runs import Predictions, read_json
from calibench.statistics.number import RAW, TEST
from calibench.tensors.arrays import Booleans, Floats, Integers


@dataclass(frozen=True)
class ExampleScores:
    """Scores of a classifier on the examples of a split, (N,) each, and the names of its classes.

    Attributes:
        confidence: Largest probability, float64: exact to a few 1e-8 of its distance from 1, however small that is.
        metric_confidence: Largest probability, float32, as the metrics compute it. Pictures bin this one, so that a
            value on an edge falls into the same bin as in a table.
        entropy: Entropy of the distribution in nats, float64.
        predicted: Most probable class.
        target: True class; -1 where there is none.
        example: Number of the example; runs on the same examples share them.
        run: Number of the run.
        class_names: Names of the K classes.
        class_counts: Training examples of each class, empty if unknown.
        positive: Of two classes P(y = 1) of the second one, float32, of which reliability is drawn; None of more, and
            of several labels.
    """

    confidence: Floats
    metric_confidence: npt.NDArray[np.float32]
    entropy: Floats
    predicted: Integers
    target: Integers
    example: Integers
    run: Integers
    class_names: list[str]
    class_counts: list[int]
    positive: npt.NDArray[np.float32] | None = None

    @classmethod
    def from_outputs(cls, scores: Floats, target: Integers, metadata: Mapping[str, Any]) -> Self:
        """The scores of logits or log-probabilities (N, K), given what the prediction file says beside them."""
        rows, predicted = np.arange(len(target)), scores.argmax(axis=1)
        weight = torch.from_numpy(scores - scores[rows, predicted][:, None]).float().exp()
        weight[rows, predicted] = 0  # the largest weighs 1: beside it small ones would be lost
        others = weight.sum(1, dtype=torch.float64)
        spread = torch.special.entr(weight).sum(1, dtype=torch.float64)
        probs = log_probabilities(torch.from_numpy(np.asarray(scores, np.float32))).exp()
        is_binary = scores.shape[1] == 2 and not metadata.get("label_names")
        return cls(
            confidence=(1 / (1 + others)).numpy(),
            metric_confidence=probs.amax(1).numpy(),
            entropy=(others.log1p() + spread / (1 + others)).numpy(),
            predicted=predicted,
            target=target,
            example=rows,
            run=np.zeros_like(rows),
            class_names=class_names(metadata, scores.shape[1]),
            class_counts=list(metadata.get("class_counts") or []),
            positive=probs[:, 1].numpy() if is_binary else None,
        )

    @classmethod
    def load(cls, record: Record, split: str = TEST, calibrator: str = RAW) -> Self:
        """The scores of a run's logits on a split, raw or after a calibrator.

        It goes by its name in a leaderboard, or is a class of ours, which is then fitted with its default arguments.

        Raises:
            FileNotFoundError: If the run lacks a prediction file.
            CorruptRun: If it cannot be read.
            ValueError: If there is no such calibrator, or the run names a class that is not loaded.
        """
        fitted = load_fitted_calibrator(record.folder, calibrator)
        return cls.after(fitted and fitted.log_prob, load_predictions(record, split))

    @classmethod
    def of_calibrators(cls, record: Record) -> dict[str, Self]:
        """The scores of a run's test set, raw and after each calibrator whose parameters metrics.json holds."""
        test, content = load_predictions(record, TEST), read_json(f"{record.folder}/metrics.json")
        scores = {RAW: cls.after(None, test)}
        for name in dict.fromkeys(key.calibrator for key in record.values if key.calibrator != RAW):
            if fitted := restore_calibrator(content, name):
                scores[name] = cls.after(fitted.log_prob, test)
        return scores

    @classmethod
    def after(
        cls, log_prob: Callable[[torch.Tensor], torch.Tensor] | None, predictions: Predictions
    ) -> Self:
        """The scores of predictions after a calibrator, or as they are."""
        logits = predictions.logits
        if log_prob is not None:
            logits = log_prob(torch.from_numpy(logits).double()).numpy()
        return cls.from_outputs(logits, predictions.target, predictions.metadata)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The examples of several seeds one after the other; equal targets mean the same examples."""
        names = ["confidence", "metric_confidence", "entropy", "predicted", "target"]
        names += ["positive"] * all(part.positive is not None for part in parts)
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        }
        example, run = examples_and_runs([part.target for part in parts])
        return replace(parts[0], **arrays, example=example, run=run)

    @property
    def correct(self) -> Booleans:
        """Whether the most probable class is the true one, (N,)."""
        result: Booleans = self.predicted == self.target
        return result

    @property
    def event(self) -> str:
        """The event of the reliability diagram: the name of the second of two classes, else empty, the top label."""
        return self.class_names[1] if self.positive is not None else ""

    def reliability(self, n_bins: int) -> Reliability:
        """The reliability diagram of all runs, of two classes that of P(y = 1)."""
        probability, happened, _ = self._predictions()
        return reliability(probability, happened, n_bins=n_bins, example=self.example, run=self.run)

    def smooth_reliability(self) -> SmoothReliability:
        """The smooth reliability curve of all runs, of the same."""
        probability, happened, lowest = self._predictions()
        return smooth_reliability(
            probability, happened, lowest=lowest, example=self.example, run=self.run
        )

    def _predictions(self) -> tuple[npt.NDArray[np.float32], Booleans, float]:
        """Predicted probabilities (N,), whether each event happened (N,), and the lowest probability there can be."""
        if self.positive is None:
            return self.metric_confidence, self.correct, 1 / len(self.class_names)
        return self.positive, self.target == 1, 0.0


def class_names(metadata: Mapping[str, Any], k: int) -> list[str]:
    """The names of the K classes, or their numbers."""
    return [str(name) for name in metadata.get("class_names") or range(k)]


def load_predictions(record: Record, split: str) -> Predictions:
    """A run's logits on a split; raises as `ExampleScores.load` does."""
    return Predictions.load(Path(record.folder) / "predictions" / f"{split}.npz")

"""Probabilities of a run, from its saved logits: all that pictures need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibench.leaderboard.records import Record
from calibench.runs import Predictions

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outputs:
    """What a run says of one split.

    Attributes:
        log_probs: Log-probabilities, (N, K) float64.
        target: Classes, (N,); -1 where there are none.
        class_names: Names of the K classes.
        class_counts: Training examples of each class, empty if unknown.
    """

    log_probs: Floats
    target: npt.NDArray[np.int64]
    class_names: list[str]
    class_counts: list[int]

    @property
    def confidence(self) -> Floats:
        """Largest probability of each example, (N,)."""
        result: Floats = np.exp(self.log_probs.max(axis=1))
        return result

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """Most probable class of each example, (N,)."""
        result: npt.NDArray[np.int64] = self.log_probs.argmax(axis=1)
        return result

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether it is the true one, (N,)."""
        result: npt.NDArray[np.bool_] = self.predicted == self.target
        return result

    @property
    def entropy(self) -> Floats:
        """Entropy of each example's distribution in nats, (N,)."""
        result: Floats = -(np.exp(self.log_probs) * self.log_probs).sum(axis=1)
        return result


def load_outputs(record: Record, split: str = "test") -> Outputs:
    """A run's outputs on a split.

    Raises:
        FileNotFoundError: If the run has no such prediction file.
        CorruptRun: If it cannot be read.
    """
    return outputs_of(Predictions.load(Path(record.folder) / "predictions" / f"{split}.npz"))


def outputs_of(predictions: Predictions) -> Outputs:
    """Outputs from logits."""
    logits = predictions.logits.astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    names = predictions.metadata.get("class_names") or range(logits.shape[1])
    counts = predictions.metadata.get("class_counts") or []
    return Outputs(log_probs, predictions.target, [str(n) for n in names], list(counts))


def pooled(parts: list[Outputs]) -> Outputs:
    """The examples of several seeds as one."""
    log_probs = np.concatenate([part.log_probs for part in parts])
    target = np.concatenate([part.target for part in parts])
    return Outputs(log_probs, target, parts[0].class_names, parts[0].class_counts)


def calibrated(record: Record, split: str, calibrator: str) -> Outputs:
    """A run's outputs on a split after a calibrator that is fitted on its validation split.

    Raises:
        FileNotFoundError: If the run lacks a prediction file.
        ValueError: If there is no such calibrator.
    """
    import torch

    from calibench import calibrators

    if calibrator not in calibrators.__all__:
        known = ", ".join(calibrators.__all__)
        raise ValueError(f"`calibrator` must be one of {known}, got {calibrator!r}.")
    folder = Path(record.folder) / "predictions"
    val, wanted = (Predictions.load(folder / f"{name}.npz") for name in ("val", split))
    fitted = getattr(calibrators, calibrator)()
    fitted.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    log_probs = fitted.log_prob(torch.from_numpy(wanted.logits)).double().numpy()
    raw = outputs_of(wanted)
    return Outputs(log_probs, raw.target, raw.class_names, raw.class_counts)

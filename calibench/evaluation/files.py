"""Readers of predictions of any framework: .npz, a CSV of probabilities, a pair of .npy files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibench.config import near_matches
from calibench.runs import Predictions, corrupt_if_it_fails
from calibench.runs.predictions import read_arrays

FILES_HELP = """\
files:
  x.npz                    `logits` (N, K) and `target` (N,), as calibench writes them, or `probs` and `target`;
                           `posterior` (N, K) where class distributions are known (see --posterior)
  x.csv                    a header, one column of each class and one named `label`; probabilities, see --scores
  logits.npy:labels.npy    two arrays (N, K) and (N,); logits, see --scores; an OOD set needs no labels
Whether numbers are logits or probabilities is said by the key of an .npz file and by --scores elsewhere, never
guessed. Probabilities p enter as logits log p: rows must sum to 1 within 0.01 and are normalised."""

LABEL_COLUMNS = ("label", "target")
SUM_TOLERANCE = 0.01  # a table printed with four decimals has rows that sum to 1 no better

Floats = npt.NDArray[np.floating]
Arrays = tuple[Floats, npt.NDArray[np.integer] | None, dict[str, Any]]


@dataclass(frozen=True)
class Reader:
    """Reads files of predictions.

    Attributes:
        scores: What CSV and .npy files hold, a key of `SCORES`; by default probabilities in CSV, logits in .npy.
        clip: Smaller probabilities are raised to this one. Without it an exact 0 stays 0: the NLL is infinite where
            the true class has it, and calibrators, which need finite logits, refuse the file.
    """

    scores: str | None = None
    clip: float = 0.0

    def __call__(self, text: str) -> Predictions:
        """Read a file, or a pair `logits.npy:labels.npy`.

        Raises:
            FileNotFoundError: If there is no such file.
            CorruptRun: If it cannot be read or holds something else.
            ValueError: If its format is unknown.
        """
        suffix = check_file(text)
        with corrupt_if_it_fails(text):
            return _READERS[suffix](self, text)

    def logits(self, values: Floats, default: str) -> Floats:
        """Logits from the scores in a file, which are of the kind `default` if the user names none."""
        return SCORES[self.scores or default](values, self.clip)


def check_file(text: str) -> str:
    """Check that a file, or a pair `logits.npy:labels.npy`, is there and of a known kind. Returns its suffix.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If its format is unknown.
    """
    paths = [Path(part) for part in (text.split(":") if ".npy:" in text else [text])]
    suffix = paths[0].suffix.lower()
    if suffix not in _READERS:
        raise ValueError(
            f"`{text}`: a file .npz, .csv or .npy is expected{near_matches(suffix, _READERS)}"
        )
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
    return suffix


def check_fittable(val: Predictions) -> None:
    """Raise a ValueError unless calibrators can be fitted on these predictions; it names the option that helps."""
    if not np.isfinite(val.logits).all():
        raise ValueError(
            "calibrators need finite logits, and `--val` holds a probability of exactly 0: "
            "say with `--clip`, 1e-12 say, what it counts as."
        )


def _given(values: Floats, clip: float) -> Floats:
    return values


def _log(values: Floats, clip: float) -> Floats:
    """Logarithms of probabilities (N, K); ValueError if they are none."""
    if values.ndim != 2 or not (values >= 0).all():
        raise ValueError("probabilities must be a table of numbers >= 0 without NaN.")
    sums = values.sum(axis=1, dtype=np.float64)
    worst = np.abs(sums - 1).max(initial=0.0)
    if worst > SUM_TOLERANCE:
        raise ValueError(
            f"rows of probabilities must sum to 1, one is off by {worst:.3g} "
            "(say `--scores logits` if these are logits)."
        )
    with np.errstate(divide="ignore"):
        logarithms: Floats = np.log(np.maximum(values, clip).astype(np.float64))
    return logarithms


SCORES: dict[str, Callable[[Floats, float], Floats]] = {"logits": _given, "probs": _log}


def _npz(reader: Reader, text: str) -> Predictions:
    arrays = read_arrays(text)
    if "probs" in arrays and "logits" not in arrays:
        arrays["logits"] = _log(arrays["probs"], reader.clip)
    return Predictions.of(arrays)


def _csv(reader: Reader, text: str) -> Predictions:
    with Path(text).open(encoding="utf-8-sig") as file:
        names = [name.strip().strip('"') for name in file.readline().split(",")]
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    labels = [position for position, name in enumerate(names) if name.lower() in LABEL_COLUMNS]
    if len(labels) > 1:
        raise ValueError("the header names more than one column `label` or `target`.")
    target = _integers(table[:, labels[0]]) if labels else None
    classes = [position for position in range(len(names)) if position not in labels]
    metadata = {"class_names": [names[position] for position in classes]}
    return _predictions(reader.logits(table[:, classes], "probs"), target, metadata)


def _npy(reader: Reader, text: str) -> Predictions:
    logits, _, labels = text.partition(":")
    scores = np.load(logits, allow_pickle=False)
    target = np.load(labels, allow_pickle=False) if labels else None
    return _predictions(reader.logits(scores, "logits"), target, {})


def _integers(values: Floats) -> npt.NDArray[np.int64]:
    integers = values.astype(np.int64)
    if (integers != values).any():
        raise ValueError("the column of labels must hold class indices 0, 1, ...")
    return integers


def _predictions(
    logits: Floats, target: npt.NDArray[np.integer] | None, metadata: dict[str, Any]
) -> Predictions:
    known = np.full(len(logits), -1) if target is None else target
    return Predictions(np.asarray(logits, np.float32), np.asarray(known), metadata)


_READERS: dict[str, Callable[[Reader, str], Predictions]] = {
    ".npz": _npz,
    ".csv": _csv,
    ".npy": _npy,
}

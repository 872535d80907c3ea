"""Packing of predictions: logits as float16 differences from the largest of their row, labels apart from them.

A row of logits (K,) is kept as its largest one, `offset` in float32, and the others' distances from it, rounded to
float16: each by at most `ROUNDING` of itself. So the largest logit, and with it the predicted class and the error, are
exact, and for the probabilities p of a row, with H <= ln K their entropy in nats,

    |change of log p_k| <= ROUNDING * (|log p_k| + H)        |change of the confidence| <= ROUNDING * H.

Hence the NLL changes by at most ROUNDING * (NLL + mean H). What this means for each other metric is
`calibench.evaluation.verify.tolerance`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibench.runs import Predictions, atomic_file
from calibench.runs.labels import EXAMPLE_ARRAYS, Arrays, digest_labels, labels_path
from calibench.tensors.arrays import Array

ROUNDING = 2.0**-11  # of float16, relative
_SMALLEST = np.float16(2.0**-24)  # above zero
_LARGEST = np.finfo(np.float16).max


def pack_logits(logits: npt.NDArray[np.float32]) -> Arrays:
    """`logits` (N, K) float16, none above 0, and `offset` (N,) float32: their sum is what was given, rounded."""
    offset = logits.max(axis=1)
    if not np.isfinite(offset).all():
        raise ValueError("the largest logit of a row is infinite")
    return {"logits": round_to_float16(logits - offset[:, None]), "offset": offset}


def round_to_float16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """Values rounded to float16: no finite one becomes infinite, and none becomes 0 that is not."""
    inside = np.where(np.isfinite(values), np.clip(values, -_LARGEST, _LARGEST), values)
    halves = inside.astype(np.float16)
    lost = (halves == 0) & (values != 0)  # no class draws level with the predicted one
    return np.where(lost, np.copysign(_SMALLEST, values), halves).astype(np.float16)


def round_predictions(predictions: Predictions) -> Arrays:
    """The arrays of a prediction file with its logits as float16.

    Of several labels an example, each logit is a distance from 0 already: log-odds of the label.
    """
    arrays = predictions.arrays("logits", predictions.logits, predictions.unknown_logits)
    if predictions.labels is not None:
        return arrays | {"logits": round_to_float16(arrays["logits"])}
    return arrays | pack_logits(arrays["logits"])


def save_packed(predictions: Predictions, path: Path, *, store: Path, exact: bool) -> str:
    """Write a prediction file, and its labels into the store unless it has them. Returns the digest of the labels.

    `exact` keeps the logits as float32.
    """
    labels = example_arrays(round_predictions(predictions))
    digest = digest_labels(labels)
    labels_file = store / labels_path(digest)
    if not labels_file.is_file():
        with atomic_file(labels_file) as file:
            np.savez_compressed(file, **labels)  # type: ignore[arg-type]
    named = replace(predictions, metadata={**predictions.metadata, "labels": digest})
    arrays = (
        named.arrays("logits", named.logits, named.unknown_logits)
        if exact
        else round_predictions(named)
    )
    own_arrays = {name: array for name, array in arrays.items() if name not in EXAMPLE_ARRAYS}
    with atomic_file(path) as file:
        np.savez_compressed(file, **own_arrays)  # type: ignore[arg-type]
    return digest


def example_arrays(arrays: Mapping[str, Array]) -> Arrays:
    """Arrays that describe the examples themselves, such as labels: the same for every run on them."""
    labels = {name: arrays[name] for name in EXAMPLE_ARRAYS if name in arrays}
    signed = np.min_scalar_type(-int(labels["target"].max(initial=1)) - 1)
    return {**labels, "target": labels["target"].astype(signed)}


def content_digest(sets: Mapping[str, Predictions]) -> str:
    """A digest of what was predicted for which labels: equal for the float16 and the float32 entry of a run."""
    digest = hashlib.sha256()
    for name, predictions in sorted(sets.items()):
        arrays = round_predictions(predictions)
        digest.update(
            f"{name} {arrays['logits'].shape} {digest_labels(example_arrays(arrays))}".encode()
        )
        digest.update(np.ascontiguousarray(arrays["logits"], "<f2").tobytes())
    return digest.hexdigest()

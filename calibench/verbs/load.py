"""Predictions in Python: `calibench.load`, for whatever the command line reads, and arrays as pairs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.file_names import is_a_file
from calibench.predictions.files import Reader
from calibench.predictions.inputs import sources_of
from calibench.runs import Predictions
from calibench.store import lookup
from calibench.store.entry import STATUS


def load(
    name: Path | str, store: Path | str | None = None, **reading: Any
) -> Predictions | ConfidencePairs | dict[str, Predictions]:
    """Read the predictions in a file of any framework, in a run, or in an entry of a store.

    Args:
        name: A file, as `calibench evaluate` reads it (`x.npz`, `x.csv`, `logits.npy:labels.npy`, ...); the folder of a
            run; or an entry `<benchmark>/<backbone>/<loss>/[<key>/]seed=<k>`, with or without its folder or store.
        store: The store of an entry, if its name does not contain it: a folder, a URL, or `shipped`, which comes with
            calibench (default: `shipped`).
        **reading: For a file, the arguments of `Reader`: `scores`, `clip`, `task`, `trust_rows`.

    Returns:
        The predictions of a file, or its pairs of confidence and correct; else the predictions of each split and set.

    Raises:
        FileNotFoundError: If there is no such file, or folder of results.
        StoreError: If there is no such entry, or more than one; the message lists them.
        CorruptRun: If it is damaged, or contains something else.

    Examples:
        >>> import calibench
        >>> sets = calibench.load("digits_lt/SmallCNN/FocalLoss/seed=1")  # a run of the store that comes with calibench
        >>> sets["test"].logits.shape, sets["test"].target.shape
        ((359, 10), (359,))
    """
    if is_a_file(str(name)):
        return Reader(**reading).read(str(name))
    if store is None or (Path(name) / STATUS).is_file():
        return lookup.find_run(str(name)).predictions()
    return lookup.load_entry(str(name), store)


def reliability_pairs(
    logits: Any,
    labels: Any = None,
    *,
    scores: Literal["logits", "probs"] | None = None,
    classes: Sequence[str] | None = None,
    pairs: bool | None = None,
    trust_rows: bool = False,
) -> tuple[ConfidencePairs, str]:
    """Predicted probabilities, whether each event happened, and the name of the event, for a reliability diagram.

    Of two classes the event is the second one, with its name. Else it is that the top label is right, and the name is
    empty; so it is of pairs of a confidence and whether it was right. Of a run it is its test set.

    Arrays are those that `Reader` takes, `scores` and `classes` its own; `labels` (N,) are class indices or names, of
    confidences whether each was right; a file has its labels. Raises a ValueError if an array is not what it should be,
    or labels are unknown.
    """
    if labels is None and isinstance(logits, str | Path) and not is_a_file(str(logits)):
        logits = lookup.find_run(str(logits)).predictions()["test"]
    (source,) = sources_of("labels", logits if labels is None else (logits, labels))
    read = Reader(scores=scores, classes=classes, pairs=pairs, trust_rows=trust_rows).read(source)
    if isinstance(read, ConfidencePairs):
        return read, ""
    import torch

    from calibench.evaluation.calibrator_fits import (
        given_probabilities,
        predicted_log_probabilities,
    )
    from calibench.metrics.probability_batches import top_label

    if (read.target < 0).any():
        if labels is None and not isinstance(logits, str | Path):
            raise ValueError("`labels` are needed: `calibench.reliability(logits, labels)`.")
        raise ValueError("`labels` must be known, and some are negative.")
    probs = given_probabilities(read)
    probs = predicted_log_probabilities(read).exp() if probs is None else probs
    if probs.shape[1] == 2 and not read.label_names:
        name = str((read.metadata.get("class_names") or ["0", "1"])[1])
        return ConfidencePairs(probs[:, 1].numpy(), read.target == 1), name
    confidence, correct = top_label(probs, torch.from_numpy(read.target))
    return ConfidencePairs(confidence.numpy(), correct.numpy()), ""

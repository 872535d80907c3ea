"""Numbers of each label, where an example has several, and their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.floors import Floors
from calibench.evaluation.scoring import Row
from calibench.metrics.equal_width_error import NORMS, EqualWidthError
from calibench.metrics.score_sums import brier_sum, true_class
from calibench.runs import Predictions
from calibench.statistics import Verdict, verdict_over_seeds

MACRO = "macro_"
RANKED = ("auroc", "average_precision")
BINNED = {"sigmoid_ece": "l1", "sigmoid_mce": "max"}


def label_rows(log_probs: Tensor, predictions: Predictions, *, n_bins: Sequence[int]) -> list[Row]:
    """Rows of the labels: of all together (micro), of each, and their mean (macro); none without labels.

    `auroc`, `average_precision`, `nll`, `brier`, and the expected and maximum calibration error of the sigmoid against
    the frequency, `sigmoid_ece` and `sigmoid_mce`. A number that a label does not have, an AUROC without positive
    examples say, is NaN, and the mean is over the others.

    Calibration errors have their floors and p-values. Those of all labels together take the labels of an example for
    independent given its probabilities; those of the mean hold for any dependence (see `verdict_over_seeds`).

    Args:
        log_probs: Log-probabilities of absent and present, (M, 2).
        predictions: The predictions, with the label of each row.
        n_bins: Bin counts of the calibration errors.
    """
    if predictions.labels is None:
        return []
    target = torch.from_numpy(predictions.target)
    every = _numbers(log_probs, target, n_bins)
    micro = [row for row in every if row["metric"] in (*RANKED, *BINNED)]
    of_label = [_numbers(log_probs[own], target[own], n_bins) for own in predictions.labels.rows]
    named = [
        {**row, "label": name}
        for name, rows in zip(predictions.label_names, of_label, strict=True)
        for row in rows
    ]
    return [*micro, *named, *map(_mean, zip(*of_label, strict=True))]


def _numbers(log_probs: Tensor, target: Tensor, n_bins: Sequence[int]) -> list[Row]:
    probs = log_probs.exp()
    found: dict[str, Any] = {
        "nll": -true_class(log_probs, target).double().mean(),
        "brier": brier_sum(probs, target) / len(target),
        **_ranked(log_probs, target),
    }
    rows: list[Row] = [{"metric": name, "value": float(value)} for name, value in found.items()]
    floors = Floors.of_pairs(probs[:, 1], target)
    rows += [
        {"metric": name, "n_bins": bins, **floors.measured(error)}
        for (name, bins), error in sigmoid_errors(n_bins)
    ]
    return rows


def sigmoid_errors(n_bins: Sequence[int]) -> list[tuple[tuple[str, int], EqualWidthError]]:
    """Calibration errors of the sigmoid, with their names and numbers of bins."""
    return [
        ((name, bins), EqualWidthError(bins, NORMS[norm]))
        for bins in n_bins
        for name, norm in BINNED.items()
    ]


def _ranked(log_probs: Tensor, target: Tensor) -> dict[str, float]:
    """AUROC and average precision; NaN where all or none are present."""
    from scipy.stats import rankdata  # two seconds of imports, which sets of classes do without
    from sklearn.metrics import average_precision_score, roc_auc_score

    if len(np.unique(target.numpy())) < 2:
        return dict.fromkeys(RANKED, np.nan)
    present, truth = rankdata((log_probs[:, 1] - log_probs[:, 0]).double()), target.numpy()
    scores = (roc_auc_score(truth, present), average_precision_score(truth, present))
    return dict(zip(RANKED, scores, strict=True))


def _mean(rows: Sequence[Row]) -> Row:
    """The mean of a number over labels, those without one left out; NaN if no label has it."""
    known = [row for row in rows if not np.isnan(row["value"])]
    value = float(np.mean([row["value"] for row in known])) if known else np.nan
    place: Row = {key: rows[0][key] for key in ("metric", "n_bins") if key in rows[0]}
    verdicts = [Verdict.of(row) for row in known]
    judged = [verdict for verdict in verdicts if verdict]
    # the labels' errors depend on each other like those of seeds
    joint = verdict_over_seeds(judged)._asdict() if judged else {}
    return {**place, "metric": MACRO + place["metric"], "value": value, **joint}


def labels_without_rank(sets: Sequence[Predictions]) -> dict[str, str]:
    """Labels whose AUROC and average precision do not exist, with the reason."""
    found = {}
    for part in sets:
        rows = part.labels.rows if part.labels else ()
        for name, own in zip(part.label_names, rows, strict=True):
            values = np.unique(part.target[own])
            if len(values) < 2:
                what = {0: "absent", 1: "present"}[int(values[0])] if len(values) else "unknown"
                reason = f"{what} in all {part.examples} examples; left out of the mean"
                found[f"{' and '.join(RANKED)} of {name} in {part.split}"] = reason
    return found

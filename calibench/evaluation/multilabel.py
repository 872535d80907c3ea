"""Numbers of each label, where an example has several, and their mean: of a set, and of resampled sets."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.floors import Floors
from calibench.metrics.calibration_errors import NORMS, EqualWidthError
from calibench.metrics.detection import RankedRows, safe_ratio
from calibench.metrics.probability_batches import brier_sum, scores_of_examples, true_class
from calibench.runs import Predictions
from calibench.statistics import verdict_over_seeds
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples, weighted_means
from calibench.tables.metric_titles import MACRO
from calibench.tensors.arrays import Floats

_CHUNK = 16  # resamples at a time
RANKED = ("auroc", "average_precision")
BINNED = {"sigmoid_ece": "l1", "sigmoid_mce": "max"}


def score_labels(
    log_probs: Tensor, predictions: Predictions, *, n_bins: Sequence[int]
) -> list[Number]:
    """Numbers of the labels: of all together (micro), of each, and their mean (macro); none without labels.

    `auroc`, `average_precision`, `nll`, `brier`, and the expected and maximum calibration error of the sigmoid against
    the frequency, `sigmoid_ece` and `sigmoid_mce`. The Brier score sums over absent and present: twice the mean of
    (p - y)^2. A number that a label does not have, an AUROC without positive examples say, is NaN, and the mean is over
    the others.

    Calibration errors have their floors and p-values. Those of all labels together take the labels of an example for
    independent given its probabilities; those of the mean hold for any dependence (see `verdict_over_seeds`).
    """
    if predictions.labels is None:
        return []
    target = torch.from_numpy(predictions.target)
    pooled = _score_rows(log_probs, target, n_bins)
    micro = [number for number in pooled if number.key.metric in (*RANKED, *BINNED)]
    of_label = [
        _score_rows(log_probs[rows], target[rows], n_bins) for rows in predictions.labels.rows
    ]
    named = [
        number.with_key(label=name)
        for name, numbers in zip(predictions.label_names, of_label, strict=True)
        for number in numbers
    ]
    return [*micro, *named, *map(_mean_over_labels, zip(*of_label, strict=True))]


def _score_rows(log_probs: Tensor, target: Tensor, n_bins: Sequence[int]) -> list[Number]:
    probs = log_probs.exp()
    nll = -true_class(log_probs, target).double().mean()
    brier = brier_sum(probs, target) / len(target)
    values = {"nll": float(nll), "brier": float(brier), **_score_ranking(log_probs, target)}
    floors = Floors.from_pairs(probs[:, 1], target)
    means = [Number(Key(name), value) for name, value in values.items()]
    return means + [floors.measure(error, key) for key, error in list_sigmoid_errors(n_bins)]


def score_positive_class(log_probs: Tensor, target: Tensor, n_bins: Sequence[int]) -> list[Number]:
    """AUROC, average precision and expected calibration error of the second of two classes' probability."""
    numbers = _score_rows(log_probs, target, n_bins)
    return [number for number in numbers if number.key.metric in (*RANKED, "sigmoid_ece")]


def list_sigmoid_errors(n_bins: Sequence[int]) -> list[tuple[Key, EqualWidthError]]:
    """Calibration errors of the sigmoid, with their keys."""
    return [
        (Key(name, n_bins=bins), EqualWidthError(bins, NORMS[norm]))
        for bins in n_bins
        for name, norm in BINNED.items()
    ]


def _score_ranking(log_probs: Tensor, target: Tensor) -> dict[str, float]:
    """AUROC and average precision; NaN where all or none are present."""
    from scipy.stats import rankdata  # two seconds of imports, which sets of classes do without
    from sklearn.metrics import average_precision_score, roc_auc_score

    if len(np.unique(target.numpy())) < 2:
        return dict.fromkeys(RANKED, np.nan)
    present, truth = rankdata((log_probs[:, 1] - log_probs[:, 0]).double()), target.numpy()
    scores = (roc_auc_score(truth, present), average_precision_score(truth, present))
    return dict(zip(RANKED, map(float, scores), strict=True))


def _mean_over_labels(numbers: Sequence[Number]) -> Number:
    """The mean of a number over labels, those without one left out; NaN if no label has it."""
    defined = [number for number in numbers if not np.isnan(number.value)]
    value = float(np.mean([number.value for number in defined])) if defined else np.nan
    judged = [number.verdict for number in defined if number.verdict]
    # the labels' errors depend on each other like those of seeds
    verdict = verdict_over_seeds(judged) if judged else None
    first = numbers[0].key
    return Number(first._replace(metric=MACRO + first.metric), value, verdict=verdict)


def find_unranked_labels(part: Predictions) -> dict[str, str]:
    """Labels of a set whose AUROC and average precision do not exist, with the reason."""
    reasons = {}
    for name, rows in zip(part.label_names, part.labels.rows if part.labels else (), strict=True):
        values = np.unique(part.target[rows])
        if len(values) < 2:
            state = {0: "absent", 1: "present"}[int(values[0])] if len(values) else "unknown"
            reason = f"{state} in all {part.examples} examples; left out of the mean"
            reasons[f"{' and '.join(RANKED)} of {name} in {part.split}"] = reason
    return reasons


def resample_labels(
    log_probs: Tensor, predictions: Predictions, resamples: Resamples, n_bins: Sequence[int]
) -> dict[Key, Floats]:
    """Replicates (R,) of `score_labels`: of all labels together, of each, and their mean.

    Examples are drawn, with all their labels. A resample in which a label has no AUROC, without positive examples say,
    counts as the mean of the others, and is left out of the mean over labels.
    """
    if predictions.labels is None:
        return {}
    target = torch.from_numpy(predictions.target)
    pooled = SortedRows(log_probs, target, n_bins)
    positions = predictions.labels.rows
    each = [SortedRows(log_probs[places], target[places], n_bins) for places in positions]
    parts: dict[Key, list[Floats]] = defaultdict(list)
    for counts in resamples.chunks(_CHUNK):
        weights = counts.astype(np.float64)
        for key, values in pooled(weights).items():
            parts[key].append(values)
        of_labels = [
            rows.scores(weights[:, places]) | rows(weights[:, places])
            for rows, places in zip(each, positions, strict=True)
        ]
        for name, replicates in zip(predictions.label_names, of_labels, strict=True):
            for key, values in replicates.items():
                parts[key._replace(label=name)].append(values)
        for key in of_labels[0]:
            values = _mean_without_nan(np.stack([replicates[key] for replicates in of_labels]))
            parts[key._replace(metric=MACRO + key.metric)].append(values)
    return {key: _fill_nan(np.concatenate(values)) for key, values in parts.items()}


def _mean_without_nan(values: Floats) -> Floats:
    """Mean over the first dimension, NaN left out; NaN where there is nothing else."""
    sums: Floats = np.nansum(values, axis=0)
    return safe_ratio(sums, (~np.isnan(values)).sum(axis=0))


def _fill_nan(values: Floats) -> Floats:
    unknown = np.isnan(values)
    if unknown.any() and not unknown.all():
        values[unknown] = values[~unknown].mean()
    return values


class SortedRows:
    """Rows of absent or present, sorted once by their log-odds for all resamples: (M, 2), and (M,) 1 where present."""

    def __init__(self, log_probs: Tensor, target: Tensor, n_bins: Sequence[int]) -> None:
        odds = (log_probs[:, 1] - log_probs[:, 0]).double().numpy()
        self._ranked = RankedRows(odds, target.numpy())
        floors = Floors.from_pairs(log_probs[:, 1].exp(), target == 1)
        errors = list_sigmoid_errors(n_bins)
        self._errors = {key: floors.resampled_cells(error) for key, error in errors}
        self._values = {n: v.numpy() for n, v in scores_of_examples(log_probs, target).items()}

    def scores(self, weights: Floats) -> dict[Key, Floats]:
        """NLL and Brier score, (R,) each, given weights of the rows in their original order (R, M)."""
        means = weighted_means(weights, np.stack([*self._values.values()], axis=1))
        return {Key(name): mean for name, mean in zip(self._values, means.T, strict=True)}

    def __call__(self, weights: Floats) -> dict[Key, Floats]:
        """AUROC, average precision and the errors of the sigmoid, (R,) each, given the same weights (R, M)."""
        rates = dict(zip(map(Key, RANKED), self._ranked.rates(weights), strict=True))
        by_row = np.ascontiguousarray(weights.T)
        return rates | {key: cells.errors(by_row) for key, cells in self._errors.items()}

"""Bootstrap over test examples (Efron 1979): intervals of the metrics.

All models and calibrators are scored on the same resampled test sets. A resample is a vector of counts, how often
each example was drawn, so every metric is computed from counts and per-example numbers; no probabilities are copied.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.floors import Floors
from calibench.evaluation.refits import REFITTED
from calibench.evaluation.scoring import OOD_SCORES, uncertainty
from calibench.metrics.bins import ErrorOfCells
from calibench.metrics.calibration_errors import list_panel_errors
from calibench.metrics.detection import resampled_auroc
from calibench.metrics.probability_batches import scores_of_examples
from calibench.metrics.soft_label_scores import posterior_values
from calibench.parallel.threads import one_thread
from calibench.runs import Predictions
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples, bootstrap_interval, weighted_means
from calibench.tables.bold import with_best
from calibench.tables.metric_titles import RESAMPLED, metric_info
from calibench.tensors.arrays import Floats

_IN_CACHE = 1 << 16  # counts at a time, so that they stay in the cache
_FEWEST_RESAMPLES = 16  # resamples at a time, of many examples
_CELLS_CHUNK = 128  # whose counts are turned round together


def resample_metrics(
    log_probs: Tensor,
    target: Tensor,
    metric_keys: Iterable[Key],
    resamples: Resamples,
    floors: Floors | None = None,
) -> dict[Key, Floats]:
    """Replicates: the metrics of every resampled test set.

    Each has (R,) values. A calibration error has the cells of the whole set, re-weighted: the bins of equal mass and
    the kernel of `smooth_ece` are those of the set itself. Metrics that are not in `RESAMPLED` are left out.
    """
    keys = [key for key in dict.fromkeys(metric_keys) if key.metric in RESAMPLED]
    floors = floors or Floors(log_probs, target, are_logs=True)
    wrong = floors.top_label[1].logical_not().double()
    values = {"error": wrong, **scores_of_examples(log_probs, target)}
    means = {key: values[key.metric] for key in keys if key.metric in values}
    n_bins = sorted({key.n_bins for key in keys if key.n_bins is not None})
    formulas = {(name, number): error for name, number, error in list_panel_errors(n_bins)}
    errors = {
        key: formulas[name_and_bins]
        for key in keys
        if (name_and_bins := (key.metric, key.n_bins)) in formulas
    }
    return resample_means(means, resamples) | resample_errors(errors, floors, resamples)


def resample_errors(
    formulas: Mapping[Key, ErrorOfCells], floors: Floors, resamples: Resamples
) -> dict[Key, Floats]:
    """Replicates (R,) of calibration errors of a set, by key."""
    resampled = {key: floors.resampled_cells(error) for key, error in formulas.items()}
    parts: dict[Key, list[Floats]] = {key: [] for key in resampled}
    with one_thread():
        for counts in resamples.chunks(_CELLS_CHUNK) if resampled else ():
            by_example = np.ascontiguousarray(counts.T)
            for key, cells_of_set in resampled.items():
                parts[key].append(cells_of_set.errors(by_example))
    return {key: np.concatenate(values) for key, values in parts.items()}


def _chunk_counts(resamples: Resamples, examples: int = 0) -> Iterator[Floats]:
    """The counts in chunks of some resamples, (R, N) each: as few as for `examples`, if these are more."""
    size = max(1, examples, resamples.n_examples)
    for counts in resamples.chunks(max(_FEWEST_RESAMPLES, _IN_CACHE // size)):
        yield counts.astype(np.float64)


def resample_posterior_metrics(
    log_probs: Tensor, predictions: Predictions, resamples: Resamples
) -> dict[Key, Floats]:
    """Replicates of the metrics against known class distributions; empty if none are known."""
    if predictions.posterior is None:
        return {}
    values = posterior_values(log_probs, torch.from_numpy(predictions.posterior))
    return resample_means({Key(name): value for name, value in values.items()}, resamples)


def resample_means(values: Mapping[Key, Tensor], resamples: Resamples) -> dict[Key, Floats]:
    """Replicates (R,) of means over examples, given each example's values (N,), by key."""
    if not values:
        return {}
    columns = torch.stack([*values.values()], dim=1).numpy()
    parts = [weighted_means(counts, columns) for counts in _chunk_counts(resamples)]
    return dict(zip(values, np.concatenate(parts).T, strict=True))


def resample_ood_metrics(
    inside: Tensor, outside: Tensor, drawn_inside: Resamples, drawn_outside: Resamples
) -> dict[Key, Floats]:
    """Replicates of the AUROC of a test set and an outside set, both resampled, of each uncertainty score."""
    sides = (drawn_inside, drawn_outside)
    examples = max(side.n_examples for side in sides)
    replicates: dict[Key, Floats] = {}
    for name in OOD_SCORES:
        inside_scores, outside_scores = (
            uncertainty(name, part).numpy() for part in (inside, outside)
        )
        counts = zip(*(_chunk_counts(side, examples) for side in sides), strict=True)
        replicates[Key("ood_auroc", score=name)] = resampled_auroc(
            inside_scores, outside_scores, counts
        )
    return replicates


def add_intervals(
    numbers: Iterable[Number], replicates: Mapping[Key, Floats], num_classes: int | None = None
) -> list[Number]:
    """The numbers with 95 % intervals, and whether each is among the best (see `interval` and `with_best`)."""
    return [
        _add_interval(number, replicates[number.key]) if number.key in replicates else number
        for number in with_best(numbers, replicates, num_classes)
    ]


def _add_interval(number: Number, replicates: Floats) -> Number:
    if not math.isfinite(number.value):
        return number
    info = metric_info(number.key.metric)
    centre = number.value if number.key.metric in REFITTED else None
    ends = bootstrap_interval(number.value, replicates, info.smallest, info.largest, centre=centre)
    return replace(number, interval=ends)

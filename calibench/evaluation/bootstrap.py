"""Bootstrap over test examples (Efron 1979): intervals of the metrics.

All models and calibrators are scored on the same resampled test sets. A resample is a vector of counts, how often
each example was drawn, so every metric is computed from counts and per-example numbers; no probabilities are copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.evaluation.scoring import OOD_SCORES, Row
from calibench.ground.threads import one_thread
from calibench.metrics.cells import ErrorOfCells
from calibench.metrics.detection import SCORES
from calibench.metrics.labelled import first_largest, top_label
from calibench.metrics.panel import errors
from calibench.metrics.posterior import posterior_values
from calibench.metrics.resampled_cells import ResampledCells
from calibench.metrics.score_sums import scores_of_examples
from calibench.runs import Predictions
from calibench.statistics import LEVEL
from calibench.statistics.resamples import Resamples, weighted_means
from calibench.tables.bold import with_best
from calibench.tables.titles import metric_info

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float] | tuple[None, None]
Place = tuple[str, int | None]  # a metric of one labelled set, and its number of bins

MEANS = ("error", "nll", "brier")
RESAMPLED = (*MEANS, *dict.fromkeys(name for name, _, _ in errors([1])))
_IN_CACHE = 1 << 16  # counts at a time, so that their running sums stay in the cache
_FEWEST = 16  # resamples at a time, of many examples
_CELLS_CHUNK = 128  # of what cells hold, which bounds its memory


def replicates(
    log_probs: Tensor,
    target: Tensor,
    wanted: Iterable[Place],
    resamples: Resamples,
    probs: Tensor | None = None,
) -> dict[Place, Floats]:
    """Replicates: the metrics of every resampled test set.

    Each calibration error has the cells of the whole set, re-weighted: the bins of equal mass and the kernel of
    `smooth_ece` are those of the set itself.

    Args:
        log_probs: Log-probabilities (N, K).
        target: Class indices (N,).
        wanted: Names of metrics with their numbers of bins, None for those without; those that are not in `RESAMPLED`
            are left out.
        resamples: The resampled test sets.
        probs: The probabilities themselves, where they are known.

    Returns:
        (n_resamples,) values of each.
    """
    places = [place for place in dict.fromkeys(wanted) if place[0] in RESAMPLED]
    probs = log_probs.exp() if probs is None else probs
    wrong = (first_largest(probs) != target).double()
    values = {"error": wrong, **scores_of_examples(log_probs, target)}
    means = {place: values[place[0]] for place in places if place[0] in values}
    n_bins = sorted({number for _, number in places if number is not None})
    formulas = {(name, number): error for name, number, error in errors(n_bins)}
    asked = {place: formulas[place] for place in places if place in formulas}
    return mean_replicates(means, resamples) | error_replicates(asked, probs, target, resamples)


def error_replicates(
    formulas: Mapping[Place, ErrorOfCells], probs: Tensor, target: Tensor, resamples: Resamples
) -> dict[Place, Floats]:
    """Replicates (R,) of calibration errors of probabilities (N, K), by place."""
    correct, labels = top_label(probs, target)[1], torch.arange(probs.shape[1])
    resampled: dict[Place, ResampledCells] = {}
    for place, error in formulas.items():
        if cells := error.cells(probs):
            hit = correct if cells.value.ndim == 1 else target.unsqueeze(1) == labels
            resampled[place] = ResampledCells(cells, hit)
    parts: dict[Place, list[Floats]] = {place: [] for place in resampled}
    with one_thread():
        for counts in resamples.chunks(_CELLS_CHUNK) if resampled else ():
            by_example = np.ascontiguousarray(counts.T, dtype=np.float64)
            for place, cells_of_set in resampled.items():
                parts[place].append(cells_of_set.errors(formulas[place], by_example))
    return {place: np.concatenate(values) for place, values in parts.items()}


def _columns(values: Iterable[Tensor]) -> Floats:
    """Values of each example (N,) as columns (N, V)."""
    return torch.stack(list(values), dim=1).numpy()


def _chunks(resamples: Resamples, examples: int = 0) -> Iterator[Floats]:
    """The counts in chunks of some resamples, (R, N) each: as few as for `examples`, if these are more."""
    most = max(1, examples, resamples.n_examples)
    for counts in resamples.chunks(max(_FEWEST, _IN_CACHE // most)):
        yield counts.astype(np.float64)


def posterior_replicates(
    log_probs: Tensor, predictions: Predictions, resamples: Resamples
) -> dict[Place, Floats]:
    """Replicates of the metrics against known class distributions; empty if none are known."""
    if predictions.posterior is None:
        return {}
    values = posterior_values(log_probs, torch.from_numpy(predictions.posterior))
    return mean_replicates({(name, None): of for name, of in values.items()}, resamples)


def mean_replicates(values: Mapping[Place, Tensor], resamples: Resamples) -> dict[Place, Floats]:
    """Replicates (R,) of means over examples, given each example's values (N,), by place."""
    if not values:
        return {}
    columns = _columns(values.values())
    parts = [weighted_means(counts, columns) for counts in _chunks(resamples)]
    return dict(zip(values, np.concatenate(parts).T, strict=True))


def ood_replicates(
    inside: Tensor, outside: Tensor, drawn_inside: Resamples, drawn_outside: Resamples
) -> dict[str, Floats]:
    """Replicates of the AUROC of a test set and an outside set, both resampled, by uncertainty score."""
    found: dict[str, Floats] = {}
    for name in OOD_SCORES:
        ours, theirs = (SCORES[name](part.double()).numpy() for part in (inside, outside))
        found[name] = _auroc(ours, theirs, drawn_inside, drawn_outside)
    return found


def _auroc(
    inside: Floats, outside: Floats, drawn_inside: Resamples, drawn_outside: Resamples
) -> Floats:
    """Share of (inside, outside) pairs in the right order; ties count half."""
    order = np.argsort(inside)
    ends = [np.searchsorted(inside[order], outside, side) for side in ("left", "right")]
    parts = []
    sides = (drawn_inside, drawn_outside)
    most = max(side.n_examples for side in sides)
    for counts, others in zip(*(_chunks(side, most) for side in sides), strict=True):
        below = np.pad(np.cumsum(counts[:, order], axis=1), ((0, 0), (1, 0)))
        pairs = (others * (below[:, ends[0]] + below[:, ends[1]])).sum(axis=1) / 2
        parts.append(pairs / (len(inside) * len(outside)))
    return np.concatenate(parts)


def summarised(rows: Iterable[Row], num_classes: int | None = None) -> list[Row]:
    """Replace `replicates` by the ends of a 95 % interval, `low` and `high`, and `best`.

    See `interval`. Rows without replicates have no ends, values that are not finite the ends None. `best` is that of
    `with_best`.
    """
    return [_summarised(row) for row in with_best(rows, num_classes)]


def _summarised(row: Row) -> Row:
    plain = {key: value for key, value in row.items() if key != "replicates"}
    if "replicates" not in row:
        return plain
    if not math.isfinite(row["value"]):
        return {**plain, "low": None, "high": None}
    info = metric_info(row["metric"])
    low, high = interval(row["value"], row["replicates"], info.smallest, info.largest)
    return {**plain, "low": low, "high": high}


def interval(value: float, replicates: Floats, smallest: float, largest: float) -> Ends:
    """The 95 % bootstrap interval of a metric: of its expected plug-in value at this number of examples.

    [v - (q97.5 - mean), v - (q2.5 - mean)] with the quantiles and the mean of the replicates. A calibration error is
    larger on resampled sets than on the set itself; by their own mean that bias cancels, so the interval holds the
    value (the basic one, 2 v - q, need not). What a calibrated model gets is the floor's to say.

    Args:
        value: The metric of the set, v.
        replicates: Its values on resampled sets, (R,).
        smallest: Of the metric's range, which the interval is cut to.
        largest: Of the metric's range.
    """
    low, high = np.quantile(replicates, [LEVEL / 2, 1 - LEVEL / 2]) - replicates.mean()
    ends = float(value - high), float(value - low)
    if not np.isfinite(ends).all():
        return None, None
    return max(smallest, min(value, ends[0])), min(largest, max(value, ends[1]))

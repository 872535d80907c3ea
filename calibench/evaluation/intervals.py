"""Bootstrap over test examples (Efron 1979) of the benchmark's metrics: intervals, and what ties with the best.

All models and calibrators are scored on the same resampled test sets. A resample is a vector of counts, how often
each example was drawn, so every metric is computed from counts and per-example numbers; no probabilities are copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.evaluation.classwise import ClasswiseResamples
from calibench.evaluation.posterior import posterior_values
from calibench.evaluation.scoring import OOD_SCORES, Row
from calibench.evaluation.top_label import TopLabelResamples
from calibench.metrics.base import first_largest
from calibench.metrics.ood import SCORES
from calibench.runs import Predictions
from calibench.statistics.bootstrap import Resamples, improvement
from calibench.tables.titles import METRICS

Floats = npt.NDArray[np.float64]
Replicates = dict[tuple[str, str | None], Floats]

LEVEL = 0.05
_CHUNK = 16  # resamples at a time: their running sums then stay in the cache
HIGHER_IS_BETTER = ("ood_auroc",)


def replicates(
    log_probs: Tensor, target: Tensor, n_bins: Sequence[int], resamples: Resamples
) -> Replicates:
    """The benchmark's metrics on every resampled test set.

    Each is the metric of the resampled set itself, equal-mass bins included, but for `smooth_ece`, which keeps the
    kernel width of the whole set (see `TopLabelResamples`).

    Args:
        log_probs: Log-probabilities (N, K).
        target: Class indices (N,).
        n_bins: Bin counts; the first one's metrics have no suffix, as in `calibration_metrics`.
        resamples: Which test sets.

    Returns:
        (n_resamples,) values by (metric, None).
    """
    probs = log_probs.exp()
    means = _Means(_of_examples(log_probs, probs, target))
    top = TopLabelResamples(probs, target)
    suffixes = ["", *(f"_{number}" for number in n_bins[1:])]
    classwise = ClasswiseResamples(probs, target, n_bins)(resamples.counts)
    parts: dict[str, list[Floats]] = {}
    for counts in _chunks(resamples):
        found = means(counts)
        weighted = top.weighted(counts)
        for number, suffix in zip(n_bins, suffixes, strict=True):
            found[f"ece{suffix}"] = weighted.equal_width(number)
            found[f"adaptive_ece{suffix}"] = weighted.equal_mass(number)
        found["smooth_ece"] = top.smooth(counts)
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
    whole = {name: np.concatenate(values) for name, values in parts.items()}
    whole |= {f"classwise_ece{suffix}": e for suffix, e in zip(suffixes, classwise, strict=True)}
    return {(name, None): values for name, values in whole.items()}


def _chunks(resamples: Resamples) -> Iterator[Floats]:
    """Counts of some resamples at a time, (R, N)."""
    counts = resamples.counts
    for start in range(0, len(counts), _CHUNK):
        yield counts[start : start + _CHUNK].astype(np.float64)


class _Means:
    """Metrics that are means over examples, from what each example has, (N,) by name."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self._names = tuple(values)
        columns = torch.stack(list(values.values()), dim=1).numpy()
        self._infinite = np.isinf(columns)
        self._finite = np.where(self._infinite, 0.0, columns)

    def __call__(self, counts: Floats) -> dict[str, Floats]:
        """(R,) each, of resamples with counts (R, N); infinite where an infinite value was drawn."""
        means = counts @ self._finite / len(self._finite)
        if self._infinite.any():  # 0 x inf would be NaN
            means[counts @ self._infinite > 0] = np.inf
        return dict(zip(self._names, means.T, strict=True))


def _of_examples(log_probs: Tensor, probs: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Error, NLL and Brier score of each example, (N,)."""
    index = target.unsqueeze(1)
    of_target = probs.gather(1, index).squeeze(1).double()
    return {
        "error": (first_largest(probs) != target).double(),
        "nll": -log_probs.gather(1, index).squeeze(1).double(),
        "brier": probs.square().sum(1).double() - 2 * of_target + 1,
    }


def posterior_replicates(
    log_probs: Tensor, predictions: Predictions, resamples: Resamples
) -> Replicates:
    """The metrics against known class distributions on every resampled set; none without any."""
    if predictions.posterior is None:
        return {}
    means = _Means(posterior_values(log_probs, torch.from_numpy(predictions.posterior)))
    parts = [means(counts) for counts in _chunks(resamples)]
    return {(name, None): np.concatenate([part[name] for part in parts]) for name in parts[0]}


def ood_replicates(
    inside: Tensor, outside: Tensor, drawn_inside: Resamples, drawn_outside: Resamples
) -> Replicates:
    """AUROC on resampled test sets and resampled outside sets, by ("ood_auroc", score)."""
    found: Replicates = {}
    for name in OOD_SCORES:
        ours, theirs = (SCORES[name](part.double()).numpy() for part in (inside, outside))
        found["ood_auroc", name] = _auroc(ours, theirs, drawn_inside, drawn_outside)
    return found


def _auroc(
    inside: Floats, outside: Floats, drawn_inside: Resamples, drawn_outside: Resamples
) -> Floats:
    """Share of (inside, outside) pairs in the right order, a tie being half a pair."""
    order = np.argsort(inside)
    ends = [np.searchsorted(inside[order], outside, side) for side in ("left", "right")]
    parts = []
    for counts, others in zip(_chunks(drawn_inside), _chunks(drawn_outside), strict=True):
        below = np.pad(np.cumsum(counts[:, order], axis=1), ((0, 0), (1, 0)))
        pairs = (others * (below[:, ends[0]] + below[:, ends[1]])).sum(axis=1) / 2
        parts.append(pairs / (len(inside) * len(outside)))
    return np.concatenate(parts)


def summarised(rows: Iterable[Row]) -> list[Row]:
    """Replace `replicates` by the ends of a 95 % interval, `low` and `high`, and `best`.

    The interval is the basic bootstrap interval, 2 value - quantile (as relplot's): a calibration error is larger on
    resampled sets than on the set itself, and the percentile interval would double that bias. `best` is true of a
    split's best value of a metric, and of those that the paired bootstrap cannot tell from it (one-sided, 5 %).
    Rows without replicates, and values that are not finite, have neither; a metric that is no quality has no best.
    """
    rows = list(rows)
    best = _best(rows)
    return [_summarised(row, best) for row in rows]


def _key(row: Row) -> tuple[str, str, str | None]:
    return row["split"], row["metric"], row.get("score")


def _loss(row: Row) -> float:
    return _sign(row) * float(row["value"])


def _sign(row: Row) -> int:
    return -1 if row["metric"] in HIGHER_IS_BETTER else 1


def _best(rows: Sequence[Row]) -> dict[tuple[str, str, str | None], Row]:
    best: dict[tuple[str, str, str | None], Row] = {}
    for row in rows:
        ranked = row["metric"] not in METRICS or METRICS[row["metric"]].direction
        if ranked and "replicates" in row and math.isfinite(row["value"]):
            leader = best.setdefault(_key(row), row)
            if _loss(row) < _loss(leader):
                best[_key(row)] = row
    return best


def _summarised(row: Row, best: Mapping[tuple[str, str, str | None], Row]) -> Row:
    plain = {key: value for key, value in row.items() if key != "replicates"}
    if "replicates" not in row or not math.isfinite(row["value"]):
        return plain
    low, high = np.quantile(row["replicates"], [LEVEL / 2, 1 - LEVEL / 2])
    ends = {"low": max(0.0, 2 * row["value"] - float(high)), "high": 2 * row["value"] - float(low)}
    leader = best.get(_key(row))
    if leader is None:
        return {**plain, **ends}
    behind = improvement(_sign(row) * (row["replicates"] - leader["replicates"]))
    return {**plain, **ends, "best": row is leader or behind.p_value > LEVEL}

"""Scoring: the metrics of one split or set, raw or after a calibrator, as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.fit_warnings import BoundWarning, silence_fits
from calibench.evaluation.calibrator_fits import (
    fit_calibrator,
    given_probabilities,
    predicted_log_probabilities,
)
from calibench.evaluation.floors import Floors
from calibench.metrics.calibration_errors import NamedFormula, list_panel_errors
from calibench.metrics.detection import SCORES, check_scored, detection_rates
from calibench.metrics.probability_batches import true_class
from calibench.metrics.soft_label_scores import posterior_values
from calibench.runs import Predictions
from calibench.statistics.number import RAW, TEST, Key, Number
from calibench.tables.metric_titles import POSTERIOR_METRICS
from calibench.tensors.scores import blocks_of_rows

if TYPE_CHECKING:  # five seconds of imports, which files of logits do without
    from torchmetrics import Metric, MetricCollection

OOD_SCORES: tuple[Literal["entropy", "msp"], ...] = ("entropy", "msp")


def update_metrics(
    metrics: MetricCollection, log_probs: Tensor, target: Tensor, probs: Tensor | None = None
) -> None:
    """Feed a batch to a collection: probabilities, and log-probabilities to what needs them."""
    preds = log_probs.exp() if probs is None else probs
    metrics.update(preds=preds, target=target, log_probs=log_probs)


def score_set(
    predictions: Predictions,
    calibrator: Calibrator | None = None,
    metrics: MetricCollection | None = None,
    *,
    n_bins: Sequence[int] = (15, 20),
) -> list[Number]:
    """Score one labelled split: one number a metric, calibration errors with their verdicts (see `Floors`).

    Also those against the class distributions, where they are known (see `posterior_values`).

    Args:
        predictions: Logits and targets.
        calibrator: A fitted calibrator; raw probabilities if None.
        metrics: A collection to use instead of the benchmark's.
        n_bins: Bin counts of the benchmark's binned metrics.
    """
    log_probs = predicted_log_probabilities(predictions, calibrator)
    target = torch.from_numpy(predictions.target)
    probs = given_probabilities(predictions, calibrator)
    floors = Floors(log_probs, target, are_logs=True) if probs is None else Floors(probs, target)
    if metrics is None:
        numbers = score_labelled_set(log_probs, target, floors, n_bins=n_bins)
    else:
        metrics = metrics.clone()
        metrics.reset()
        numbers = _score_collection(metrics, log_probs, target, floors)
    numbers += score_posterior(log_probs, predictions)
    return _add_place(calibrator, predictions.split or TEST, numbers)


def temperature_gap(
    val: Predictions, test: Predictions, *, n_bins: tuple[int, ...] = (15,)
) -> dict[str, float]:
    """Temperature gap: each metric before minus after the best temperature (the FCL paper's Definition 2.3, measured).

    Args:
        val: The set on which the temperature is fitted, by NLL.
        test: The set that is scored.
        n_bins: As in `evaluate`.

    Returns:
        The difference of each of the benchmark's metrics on the test set; positive where the temperature helps.
    """
    with silence_fits(BoundWarning):
        fitted = fit_calibrator(TemperatureScaling(shrinkage=False), val)
    before, after = (score_set(test, calibrator, n_bins=n_bins) for calibrator in (None, fitted))
    pairs = zip(before, after, strict=True)
    return {number.key.metric: number.value - other.value for number, other in pairs}


def score_labelled_set(
    log_probs: Tensor,
    target: Tensor,
    floors: Floors | None = None,
    *,
    n_bins: Sequence[int],
    panel: Collection[str] | None = None,
) -> list[Number]:
    """Numbers of `evaluate` for log-probabilities (N, K) and targets (N,): those of a panel of metrics, all if None."""
    floors = floors or Floors(log_probs, target, are_logs=True)
    means = _compute_means(log_probs, target, floors)
    numbers = [Number(Key(name), value) for name, value in means.items()]
    formulas = (
        formula for formula in list_panel_errors(n_bins) if panel is None or formula[0] in panel
    )
    numbers += measure_errors(formulas, floors)
    return sorted(numbers, key=lambda number: number.key.metric)


def compute_metrics(
    log_probs: Tensor, target: Tensor, metrics: Iterable[str], *, n_bins: int
) -> dict[str, float]:
    """Metrics of the panel by name, without floors, for log-probabilities (N, K) and targets (N,)."""
    floors, names = Floors(log_probs, target, are_logs=True), set(metrics)
    values = _compute_means(log_probs, target, floors) | {
        name: floors.value(error) for name, _, error in list_panel_errors([n_bins]) if name in names
    }
    return {name: value for name, value in values.items() if name in names}


def _compute_means(log_probs: Tensor, target: Tensor, floors: Floors) -> dict[str, float]:
    """The metrics that are means over examples."""
    return {
        "error": float(floors.top_label[1].logical_not().double().mean()),
        "nll": float(-true_class(log_probs, target).double().mean()),
        "brier": floors.brier,
    }


def measure_errors(formulas: Iterable[NamedFormula], floors: Floors) -> list[Number]:
    """Calibration errors with their verdicts."""
    return [floors.measure(error, Key(name, n_bins=n)) for name, n, error in formulas]


def _score_collection(
    collection: MetricCollection, log_probs: Tensor, target: Tensor, floors: Floors
) -> list[Number]:
    for metric in collection.values():
        disable_synchronisation(metric)
    # In blocks, or the collection would hold temporaries of the size of all probabilities.
    for rows, labels in blocks_of_rows(log_probs, target):
        update_metrics(collection, rows, labels)
    return [
        floors.add_verdict(metric, Number(metric_key(name, metric), float(value)))
        for name, value in collection.compute().items()
        for metric in [collection[name]]
    ]


def score_posterior(log_probs: Tensor, predictions: Predictions) -> list[Number]:
    """The metrics against the known class distributions of a set; none if they are not known."""
    if predictions.posterior is None:
        return []
    values = posterior_values(log_probs, torch.from_numpy(predictions.posterior))
    return [Number(Key(name), float(values[name].mean())) for name in POSTERIOR_METRICS]


def evaluate_ood(
    test: Predictions, outside: Predictions, calibrator: Calibrator | None = None
) -> list[Number]:
    """Out-of-distribution detection: numbers of `evaluate` for a set, the positive class, against the test set."""
    sides = (predicted_log_probabilities(part, calibrator) for part in (test, outside))
    return _add_place(calibrator, outside.split, score_ood(*sides))


def score_ood(inside: Tensor, outside: Tensor) -> list[Number]:
    """Out-of-distribution detection: how well uncertainty tells a set, the positive class, from the test set."""
    sides = (inside, outside)
    for part in sides:
        check_scored(part)
    numbers: list[Number] = []
    for name in OOD_SCORES:
        scores = [uncertainty(name, part) for part in sides]
        for rate, value in detection_rates(*scores).items():
            numbers.append(Number(Key(f"ood_{rate}", score=name), float(value)))
    return numbers


def uncertainty(name: str, log_probs: Tensor) -> Tensor:
    """An uncertainty score of each example, (N,) float64, of log-probabilities (N, K)."""
    return torch.cat([SCORES[name](rows.double()) for (rows,) in blocks_of_rows(log_probs)])


def _add_place(
    calibrator: Calibrator | None, split: str, numbers: Iterable[Number]
) -> list[Number]:
    name = RAW if calibrator is None else type(calibrator).__name__
    return [number.with_key(split=split, calibrator=name) for number in numbers]


def disable_synchronisation(metric: Metric) -> Metric:
    """Make a metric leave out synchronisation: one process evaluates a file, even if many have trained."""
    metric.distributed_available_fn = lambda: False
    return metric


def metric_key(name: str, metric: Metric) -> Key:
    """The key of a metric: its own name, or else the given one, and its bins if it has any."""
    return Key(getattr(metric, "name", name), n_bins=getattr(metric, "n_bins", None))

"""From saved logits to every number: metrics raw and after each calibrator, fitted on validation only."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from calibench.calibrators import AdaptiveTemperatureScaling, Calibrator, TemperatureScaling
from calibench.metrics import OutOfDistribution, calibration_metrics
from calibench.runs import Predictions

Row = dict[str, Any]

RAW = "raw"
OOD_SCORES = ("entropy", "msp")


def default_calibrators() -> list[Calibrator]:
    """The benchmark's calibrators, unfitted."""
    return [TemperatureScaling(), AdaptiveTemperatureScaling()]


def log_probabilities(logits: Tensor, calibrator: Calibrator | None = None) -> Tensor:
    """Log-probabilities (N, K): the calibrator's, or the logits' own log-softmax."""
    return logits.log_softmax(dim=1) if calibrator is None else calibrator.log_prob(logits)


def update_metrics(metrics: MetricCollection, log_probs: Tensor, target: Tensor) -> None:
    """Feed a batch to a collection: probabilities, and log-probabilities to what needs them."""
    metrics.update(preds=log_probs.exp(), target=target, log_probs=log_probs)


def fit_calibrator(calibrator: Calibrator, predictions: Predictions) -> Calibrator:
    """Fit on held-out predictions.

    Raises:
        ValueError: If they are a test, shift or out-of-distribution set: that would be a leak.
    """
    if predictions.kind not in ("", "val"):
        raise ValueError(
            f"a calibrator is fitted on validation predictions, got the {predictions.kind} set `{predictions.split}`."
        )
    return calibrator.fit(
        torch.from_numpy(predictions.logits), torch.from_numpy(predictions.target)
    )


def evaluate(
    predictions: Predictions,
    calibrator: Calibrator | None = None,
    metrics: MetricCollection | None = None,
    *,
    n_bins: Sequence[int] = (15, 20),
) -> list[Row]:
    """Score one labelled split.

    Args:
        predictions: Logits and targets.
        calibrator: A fitted calibrator; raw probabilities if None.
        metrics: A collection to use instead of the benchmark's.
        n_bins: Bin counts of the benchmark's binned metrics.

    Returns:
        One row per metric: `split`, `calibrator`, `metric`, `n_bins` (where it has bins) and `value`.
    """
    logits, target = torch.from_numpy(predictions.logits), torch.from_numpy(predictions.target)
    collection = (
        calibration_metrics(logits.shape[1], n_bins=n_bins) if metrics is None else metrics.clone()
    )
    collection.reset()
    for metric in collection.values():
        _alone(metric)
    update_metrics(collection, log_probabilities(logits, calibrator), target)
    label = {
        "split": predictions.split or "test",
        "calibrator": type(calibrator).__name__ if calibrator else RAW,
    }
    return [
        {**label, "metric": name, **_bins(collection[name]), "value": float(value)}
        for name, value in collection.compute().items()
    ]


def _alone(metric: Metric) -> None:
    """Keep a metric from asking other processes: a file is evaluated where it is, also after training on many."""
    metric.distributed_available_fn = lambda: False


def _bins(metric: object) -> Row:
    n_bins = getattr(metric, "n_bins", None)
    return {} if n_bins is None else {"n_bins": int(n_bins)}


def evaluate_ood(
    test: Predictions, outside: Predictions, calibrator: Calibrator | None = None
) -> list[Row]:
    """Score how well uncertainty tells a set from the test set (out-of-distribution is the positive class)."""
    label = {"split": outside.split, "calibrator": type(calibrator).__name__ if calibrator else RAW}
    inside_scores, outside_scores = (
        log_probabilities(torch.from_numpy(part.logits), calibrator) for part in (test, outside)
    )
    rows = []
    for score in OOD_SCORES:
        metric = OutOfDistribution(score=score)
        _alone(metric)
        metric.update(inside_scores, False)
        metric.update(outside_scores, True)
        rows += [
            {**label, "metric": f"ood_{name}", "score": score, "value": float(value)}
            for name, value in metric.compute().items()
        ]
    return rows


@dataclass
class Report:
    """Every number of a run.

    Attributes:
        rows: Tidy rows, as `evaluate` gives them.
        calibrators: What each calibrator fitted.
        unavailable: Sets that could not be had, with the reason.
    """

    rows: list[Row]
    calibrators: dict[str, dict[str, Any]]
    unavailable: dict[str, str] = field(default_factory=dict)

    def value(
        self, metric: str, *, split: str = "test", calibrator: str = RAW, score: str | None = None
    ) -> float:
        """One number; KeyError if it is not there."""
        for row in self.rows:
            found = (
                row["metric"] == metric
                and row["split"] == split
                and row["calibrator"] == calibrator
            )
            if found and row.get("score") in (None, score):
                return float(row["value"])
        raise KeyError(f"no {metric} of {split} after {calibrator}")


@dataclass
class Evaluation:
    """What is computed from a run's logits.

    Attributes:
        calibrators: Calibrators to fit on validation; by default temperature and adaptive temperature scaling.
        n_bins: Bin counts of the binned metrics; tables print the first.
    """

    calibrators: list[Calibrator] | None = None
    n_bins: list[int] = field(default_factory=lambda: [15, 20])

    def fitted(self, val: Predictions) -> dict[str, Calibrator]:
        """Fresh copies of the calibrators, fitted on `val`, by unique name."""
        chosen = default_calibrators() if self.calibrators is None else self.calibrators
        fitted: dict[str, Calibrator] = {}
        for calibrator in chosen:
            name, copies = type(calibrator).__name__, 1
            while name in fitted:
                copies += 1
                name = f"{type(calibrator).__name__}#{copies}"
            fitted[name] = fit_calibrator(copy.deepcopy(calibrator), val)
        return fitted

    def __call__(
        self, sets: Mapping[str, Predictions], unavailable: Mapping[str, str] | None = None
    ) -> Report:
        """Evaluate the sets `val`, `test` and any OOD and shift sets, raw and after each calibrator."""
        calibrators = self.fitted(sets["val"])
        variants: dict[str, Calibrator | None] = {RAW: None, **calibrators}
        rows = [
            {**row, "calibrator": name}
            for name, calibrator in variants.items()
            for predictions in sets.values()
            for row in self._rows(predictions, sets["test"], calibrator)
        ]
        fitted = {name: calibrator.parameters_dict() for name, calibrator in calibrators.items()}
        return Report(rows, fitted, dict(unavailable or {}))

    def _rows(
        self, predictions: Predictions, test: Predictions, calibrator: Calibrator | None
    ) -> Iterable[Row]:
        if predictions.kind in ("", "val", "test", "shift"):
            yield from evaluate(predictions, calibrator, n_bins=self.n_bins)
        if predictions.kind in ("ood", "shift"):
            yield from evaluate_ood(test, predictions, calibrator)

"""What a report draws of a row's runs: pictures as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench.leaderboard.records import Record
from calibench.plots.classes import confusion, shot_groups
from calibench.plots.curves import Curve, risk_coverage, roc
from calibench.plots.example_scores import ExampleScores, load_predictions
from calibench.plots.reliability import reliability
from calibench.plots.training import training_curves
from calibench.runs import CorruptRun
from calibench.tables.key import RAW, TEST

Json = dict[str, Any]
Pair = list[Sequence[float | str | None]]

POINTS = 80  # of a curve
EPOCHS = 80  # of a training curve
MATRIX = 20  # classes up to which a confusion matrix is kept


def short(value: float) -> float | str | None:
    """Five digits; null for NaN, a word for infinity."""
    if math.isfinite(value):
        return float(f"{value:.5g}")
    return None if math.isnan(value) else str(value)


def shorts(values: Any) -> list[float | str | None]:
    """`short` of each of many values, flat."""
    return [short(value) for value in np.asarray(values, dtype=float).ravel().tolist()]


def one_thread() -> None:
    """Leave the other cores to the other processes."""
    import torch

    torch.set_num_threads(1)


def pictures(records: Sequence[Record], n_bins: int) -> Json:
    """What is drawn from the logits of a row's runs, pooled over its seeds; empty without logits.

    Args:
        records: The runs.
        n_bins: Bins of the reliability diagrams.
    """
    try:
        runs = [_of_test_set(record) for record in records]
    except (CorruptRun, FileNotFoundError):
        return {}
    outputs = _pooled([run[RAW] for run in runs])
    if outputs is None or not len(outputs.target):
        return {}
    after = {name: _pooled([r[name] for r in runs]) for name in _common(runs)}
    return {
        "reliability": {name: _diagram(of, n_bins) for name, of in after.items() if of},
        "risk": _curve(risk_coverage(outputs.confidence, outputs.correct, points=POINTS)),
        "roc": {name: _curve(curve) for name, curve in _rocs(records, outputs)},
        "classes": _classes(outputs),
    }


def _of_test_set(record: Record) -> dict[str, ExampleScores]:
    """A run's outputs, raw and after each calibrator whose fit metrics.json holds."""
    test = load_predictions(record, TEST)
    raw = ExampleScores.of(test.logits, test.target, test.metadata)
    names = [name for name in dict.fromkeys(key.calibrator for key in record.values) if name != RAW]
    if not names:
        return {RAW: raw}
    from calibench.plots.calibrated import as_fitted  # torch

    return {RAW: raw, **as_fitted(record, test, names)}


def _common(runs: Sequence[Mapping[str, ExampleScores]]) -> list[str]:
    return [name for name in runs[0] if all(name in run for run in runs)] if runs else []


def _diagram(outputs: ExampleScores, n_bins: int) -> Json:
    diagram = reliability(outputs.scored, outputs.correct, n_bins=n_bins)
    return {
        "count": diagram.count.tolist(),
        "confidence": shorts(diagram.confidence),
        "accuracy": shorts(diagram.accuracy),
        "low": shorts(diagram.low),
        "high": shorts(diagram.high),
        "ece": short(diagram.ece),
    }


def _pooled(parts: Sequence[ExampleScores]) -> ExampleScores | None:
    """Several runs' outputs as one; None without runs, or if they are of other classes."""
    return (
        ExampleScores.joined(parts) if len({len(part.class_names) for part in parts}) == 1 else None
    )


def _rocs(records: Sequence[Record], inside: ExampleScores) -> Iterator[tuple[str, Curve]]:
    for name in dict.fromkeys(key.split for r in records for key in r.values if key.score):
        try:
            outside = np.concatenate(
                [ExampleScores.load(record, name).entropy for record in records]
            )
        except (CorruptRun, FileNotFoundError):
            continue
        if len(outside):
            yield name, roc(inside.entropy, outside, points=POINTS)


def _curve(curve: Curve) -> Json:
    return {"x": shorts(curve.x), "y": shorts(curve.y), "area": short(curve.area)}


def _classes(outputs: ExampleScores) -> Json:
    names = outputs.class_names
    matrix = confusion(outputs.predicted, outputs.target, num_classes=len(names))
    errors = 1 - matrix.diagonal()
    return {
        "names": names,
        "counts": outputs.class_counts,
        "errors": shorts(errors),
        "groups": {k: short(v) for k, v in shot_groups(errors, outputs.class_counts).items()},
        "confusion": [shorts(line) for line in matrix] if len(names) <= MATRIX else None,
    }


def curves(records: Sequence[Record]) -> dict[str, list[Pair]]:
    """Of each logged number the curve of each seed, as [epochs, values]."""
    found: dict[str, list[Pair]] = {}
    for record in records:
        try:
            run = training_curves(Path(record.folder), points=EPOCHS)
        except (OSError, ValueError):
            continue
        for name, points in run.items():
            pair: Pair = [
                [int(x) for x, _ in points],
                [float(f"{y:.5g}") for _, y in points],
            ]
            found.setdefault(name, []).append(pair)
    return found

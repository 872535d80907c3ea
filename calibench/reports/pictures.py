"""Pictures of a report from logits, as numbers, for the runs of a row; imports torch."""

from collections.abc import Iterator, Sequence

import numpy as np

from calibench.plots.curves import Curve, risk_coverage_curve, roc
from calibench.plots.example_scores import ExampleScores
from calibench.plots.kinds.examples import confusion, shot_groups
from calibench.plots.reliability import describe_error, name_axes
from calibench.ranking.records import Record
from calibench.reports.page import short_number, short_numbers
from calibench.runs import CorruptRun
from calibench.runs.files import Json
from calibench.statistics.number import RAW

REPORT_POINTS = 80  # points of a curve
MATRIX = 20  # with more classes, the confusion matrix is left out


def row_pictures(records: Sequence[Record], n_bins: int, problems: list[str]) -> Json:
    """Pictures from the logits of all runs of a row, which have some; empty where they cannot be read.

    `problems` receives what files are left out, and why.
    """
    try:
        runs = [ExampleScores.of_calibrators(record) for record in records]
    except CorruptRun as error:
        problems.append(str(error))
        return {}
    scores = _pooled([run[RAW] for run in runs])
    if scores is None or not len(scores.target):
        return {}
    common = [name for name in runs[0] if all(name in run for run in runs)]
    after = {name: _pooled([run[name] for run in runs]) for name in common}
    return {
        "reliability": {n: _diagram(diagrams, n_bins) for n, diagrams in after.items() if diagrams},
        "risk": _curve(
            risk_coverage_curve(scores.confidence, scores.correct, points=REPORT_POINTS)
        ),
        "roc": {name: _curve(curve) for name, curve in _rocs(records, scores, problems)},
        "classes": _classes(scores),
    }


def _diagram(scores: ExampleScores, n_bins: int) -> Json:
    diagram = scores.reliability(n_bins)
    fields = ("confidence", "accuracy", "low", "high")
    return {
        "count": diagram.count.tolist(),
        **{name: short_numbers(getattr(diagram, name)) for name in fields},
        "calibrated": [
            short_numbers(diagram.calibrated_low),
            short_numbers(diagram.calibrated_high),
        ],
        "ece": describe_error(diagram.text.splitlines()[0], scores.event),
        "axes": [*name_axes(scores.event)],
    }


def _pooled(parts: Sequence[ExampleScores]) -> ExampleScores | None:
    """Scores of the examples of several runs; None without runs, or if they have different classes."""
    sizes = {len(part.class_names) for part in parts}
    return ExampleScores.joined(parts) if len(sizes) == 1 else None


def _rocs(
    records: Sequence[Record], inside: ExampleScores, problems: list[str]
) -> Iterator[tuple[str, Curve]]:
    for name in dict.fromkeys(key.split for r in records for key in r.values if key.score):
        try:
            outside = np.concatenate([ExampleScores.load(r, name).entropy for r in records])
        except FileNotFoundError:
            continue
        except CorruptRun as error:
            problems.append(str(error))
            continue
        if len(outside):
            yield name, roc(inside.entropy, outside, points=REPORT_POINTS)


def _curve(curve: Curve) -> Json:
    return {
        "x": short_numbers(curve.x),
        "y": short_numbers(curve.y),
        "area": short_number(curve.area),
    }


def _classes(scores: ExampleScores) -> Json:
    names = scores.class_names
    matrix = confusion(scores.predicted, scores.target, num_classes=len(names))
    errors = 1 - matrix.diagonal()
    return {
        "names": names,
        "counts": scores.class_counts,
        "errors": short_numbers(errors),
        "groups": {k: short_number(v) for k, v in shot_groups(errors, scores.class_counts).items()},
        "confusion": [short_numbers(line) for line in matrix] if len(names) <= MATRIX else None,
    }

"""Pictures of test examples, whose seeds are pooled: reliability, ROC, risk and coverage, confusion."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from calibench.messages.printable_text import FileRow
from calibench.plots.curves import (
    Curve,
    draw_risk_coverage,
    draw_roc,
    risk_coverage_curve,
    roc,
)
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.selection import Request, after, row_title
from calibench.plots.style import Axes, label_outer, legend_below, panel, panels, tidied
from calibench.ranking.table import Row
from calibench.statistics.number import RAW, TEST
from calibench.tensors.arrays import Floats, Integers

NAMED_CLASSES = 30  # with more classes, their names are not written


def confusion(predicted: Integers, target: Integers, *, num_classes: int) -> Floats:
    """Confusion matrix, (K, K): the share of each true class (row) that is predicted as each class (column).

    The row of a class without examples is NaN.
    """
    counts = np.bincount(target * num_classes + predicted, minlength=num_classes**2)
    matrix = counts.reshape(num_classes, num_classes).astype(float)
    with np.errstate(invalid="ignore"):
        shares: Floats = matrix / matrix.sum(axis=1, keepdims=True)
    return shares


def draw_confusion(axes: Axes, matrix: Floats, names: Sequence[str], *, title: str = "") -> Axes:
    """Draw a confusion matrix; with few classes, shares of half a percent or more are written into it."""
    k = len(matrix)
    axes.imshow(matrix, cmap="cividis", vmin=0, vmax=1)
    if k <= NAMED_CLASSES:
        axes.set_xticks(range(k), names, rotation=90)
        axes.set_yticks(range(k), names)
    if k <= NAMED_CLASSES // 2:
        for row, column in np.argwhere(matrix >= 0.005):
            text = f"{100 * matrix[row, column]:.0f}"
            shade = "black" if matrix[row, column] > 0.6 else "white"
            axes.text(column, row, text, ha="center", va="center", fontsize=5, color=shade)
    return tidied(axes, xlabel="predicted, % of the true class", ylabel="true", title=title)


def shot_groups(errors: Floats, class_counts: Sequence[int]) -> dict[str, float]:
    """Mean class error of head, middle and tail: the thirds of classes with most to fewest training examples.

    Empty if the counts are unknown; NaN for a third whose classes have no test examples.
    """
    if len(class_counts) != len(errors):
        return {}
    order = np.argsort(-np.asarray(class_counts), kind="stable")
    thirds = zip(("head", "middle", "tail"), np.array_split(errors[order], 3), strict=True)
    return {
        name: float(np.nanmean(part)) if np.isfinite(part).any() else np.nan
        for name, part in thirds
    }


CURVE_POINTS = 500  # of a curve


def reliability_picture(request: Request) -> Picture:
    """Accuracy against confidence (two classes: P(y = 1)): smooth curve, bins, density, band of calibrated models."""
    rows_and_calibrators = list(
        product(request.rows, dict.fromkeys([RAW, request.shown.calibrator]))
    )
    figure, grid = panels(len(rows_and_calibrators))
    numbers: list[FileRow] = []
    for axes, (row, calibrator) in zip(grid, rows_and_calibrators, strict=True):
        title = row_title(row, calibrator)
        numbers += draw_reliability_of(axes, request, row, calibrator, title)
    legend_below(figure, grid)
    return Picture(figure, numbers)


def draw_reliability_of(
    axes: Axes, request: Request, row: Row, calibrator: str, title: str
) -> list[FileRow]:
    """Draw the reliability diagram of a row's runs; gives the numbers of its bins, then of its curve."""
    from calibench.plots.reliability import draw_reliability

    scores = request.scores(row, calibrator=calibrator)
    bins, curve = scores.reliability(request.shown.bins), scores.smooth_reliability()
    draw_reliability(axes, bins, curve, title=title, event=scores.event)
    named = {"loss": row.label, "calibrator": calibrator}
    rows_by_kind = {"bin": bins.rows(), "curve": curve.rows()}
    return [
        {**named, "shows": kind, **point} for kind, rows in rows_by_kind.items() for point in rows
    ]


def class_reliability_picture(request: Request) -> Picture:
    """Reliability of each class against the rest."""
    from calibench.evaluation.calibrator_fits import predicted_log_probabilities
    from calibench.evaluation.serialization import load_fitted_calibrator
    from calibench.plots import reliability as classes
    from calibench.plots.example_scores import class_names, load_predictions

    diagrams_by_loss, names, calibrator = {}, [], request.shown.calibrator
    for row in request.rows:
        records = list(row.records.values())
        test = [load_predictions(record, TEST) for record in records]
        names = class_names(test[0].metadata, test[0].logits.shape[1])
        fitted = [load_fitted_calibrator(record.folder, calibrator) for record in records]
        log_probs = map(predicted_log_probabilities, test, fitted)
        probs = [item.double().exp().numpy() for item in log_probs]
        targets = [item.target for item in test]
        diagrams_by_loss[row_title(row)] = classes.class_reliability(
            probs, targets, n_bins=request.shown.bins
        )
    worst = classes.worst_classes(list(diagrams_by_loss.values()))
    figure, grid = panels(len(worst), shared=True)
    for axes, k in zip(grid, worst, strict=True):
        diagrams = {label: item[k] for label, item in diagrams_by_loss.items()}
        classes.draw_class(axes, diagrams, title=f"class {names[k]}")
    label_outer(grid)
    selection_note = f": the {len(worst)} of {len(names)} classes with the largest errors"
    suffix = selection_note if len(worst) < len(names) else ""
    figure.suptitle(f"{request.table.title}{after(calibrator)}{suffix}", fontsize=8)
    legend_below(figure, grid)
    numbers = [
        {"loss": row.label, "calibrator": calibrator, "class": name, **bins, "error": float(item.ece.mean())}
        for row, diagrams in zip(request.rows, diagrams_by_loss.values(), strict=True)
        for name, item in zip(names, diagrams, strict=True)
        for bins in item.rows()
    ]  # fmt: skip
    return Picture(figure, numbers)


def error_by_bins(request: Request) -> Picture:
    """ECE against its number of bins, for the model and for a calibrated one."""
    from calibench.plots.reliability import binned_errors, draw_binned_errors

    calibrators = list(dict.fromkeys([RAW, request.shown.calibrator]))
    figure, grid = panels(len(calibrators), shared=True, height=3, single_size=(5, 3.8))
    numbers: list[dict[str, Any]] = []
    for axes, calibrator in zip(grid, calibrators, strict=True):
        errors_by_loss = {}
        for row in request.rows:
            scores = request.scores(row, calibrator=calibrator)
            binned = binned_errors(scores.metric_confidence, scores.correct, scores.run)
            errors_by_loss[row_title(row)] = binned
            numbers += [
                {"loss": row.label, "calibrator": calibrator, "bins": bins, "seed": seed,
                 "ece": float(error), "calibrated": float(floor)}
                for bins, errors, floor in zip(binned.bins, binned.error, binned.floor, strict=True)
                for seed, error in zip(row.records, errors, strict=True)
            ]  # fmt: skip
        title = f"{request.table.title}{after(calibrator)}"
        draw_binned_errors(axes, errors_by_loss, y="ECE %", title=title)
    label_outer(grid)
    legend_below(figure, grid)
    return Picture(figure, numbers)


def roc_picture(request: Request) -> Picture:
    """Detection of an out-of-distribution set by entropy."""
    record = next(iter(request.rows[0].records.values()))
    sets = (key.split for key in record.values if key.metric == "ood_auroc")
    name = request.shown.set or next(sets, None)
    if name is None:
        raise ValueError(f"{request.table.title} has no out-of-distribution set.")
    curves = {}
    for row in request.rows:
        inside, outside = (request.scores(row, split).entropy for split in (TEST, name))
        curves[row_title(row)] = roc(inside, outside, points=CURVE_POINTS)
    figure, axes = panel(5, 4.2)
    title = f"{request.table.title}: {name}, by entropy{after(request.shown.calibrator)}"
    draw_roc(axes, curves, title=title)
    legend_below(figure, [axes], title="AUROC %")
    return Picture(figure, list(_points(request, curves, "false_alarms", "detected", "auroc")))


def risk_coverage(request: Request) -> Picture:
    """Error among the most confident examples."""
    curves = {}
    for row in request.rows:
        scores = request.scores(row)
        curves[row_title(row)] = risk_coverage_curve(
            scores.confidence, scores.correct, points=CURVE_POINTS
        )
    figure, axes = panel(5, 3.8)
    draw_risk_coverage(
        axes, curves, title=f"{request.table.title}{after(request.shown.calibrator)}"
    )
    legend_below(figure, [axes], title="AURC %")
    return Picture(figure, list(_points(request, curves, "coverage", "error", "aurc")))


def _points(
    request: Request, curves: Mapping[str, Curve], x: str, y: str, area: str
) -> Iterator[FileRow]:
    for row, curve in zip(request.rows, curves.values(), strict=True):
        named = {"loss": row.label, "calibrator": request.shown.calibrator}
        for x_value, other in zip(curve.x, curve.y, strict=True):
            yield {**named, x: float(x_value), y: float(other), area: curve.area}


def confusion_matrices(request: Request) -> Picture:
    """Confusion matrix of each loss."""
    figure, grid = panels(len(request.rows), columns=3)
    numbers: list[FileRow] = []
    for axes, row in zip(grid, request.rows, strict=True):
        scores = request.scores(row)
        names = scores.class_names
        matrix = confusion(scores.predicted, scores.target, num_classes=len(names))
        draw_confusion(axes, matrix, names, title=row_title(row, request.shown.calibrator))
        numbers += [
            {"loss": row.label, "true": true, "predicted": predicted, "share": float(share)}
            for true, shares in zip(names, matrix, strict=True)
            for predicted, share in zip(names, shares, strict=True)
        ]
    return Picture(figure, numbers)

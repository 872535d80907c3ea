"""Learning curves: how many validation examples calibrators need, by results of `posthoc --sizes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibench.messages.errors import UsageError, near_matches
from calibench.messages.spelling import spell_argument
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.style import (
    GREY,
    Axes,
    legend_below,
    logarithmic_at,
    look,
    panels,
    tidied,
)
from calibench.statistics.number import RAW
from calibench.tables.metric_titles import initials, metric_info
from calibench.tensors.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_CURVES = 6  # calibrators, if none are named


def describe_sizes_command() -> str:
    """The command whose results have several sizes."""
    return f"`calibench posthoc` with {spell_argument('sizes', '100 300 1000', python='[100, 300, 1000]')}"


def read_curve_results(file: Path, metric: str) -> pd.DataFrame:
    """Read the results of `calibench posthoc --sizes`; a UsageError where they are not of several sizes."""
    import pandas as pd

    frame = pd.read_csv(file)
    for name in ("dataset", "model", "seed", "size", "repeat", "calibrator", metric):
        if name not in frame.columns:
            raise UsageError(f"{file} has no column `{name}`{near_matches(name, frame.columns)}.")
    frame = frame[(frame["size"] > 0) & np.isfinite(frame[metric])]
    if frame["size"].nunique() < 2:
        raise UsageError(f"{file} has fewer than two sizes: {describe_sizes_command()}.")
    return frame


def draw_learning_curves(results: pd.DataFrame, metric: str, calibrators: Sequence[str]) -> Picture:
    """The picture of results, a row for each cell."""
    calibrators_there = results["calibrator"].unique()
    for name in calibrators:
        if name not in calibrators_there:
            raise UsageError(f"no results of `{name}`{near_matches(name, calibrators_there)}.")
    drawn_calibrators = calibrators or _best_calibrators(results, metric)
    datasets = list(dict.fromkeys(results["dataset"]))
    figure, grid = panels(len(datasets), columns=3, single_size=(5, 3.6))
    info = metric_info(metric)
    numbers = []
    for axes, dataset in zip(grid, datasets, strict=True):
        curves = _average_curves(results[results["dataset"] == dataset], metric)
        curves_by_label = {
            _shorten_name(name): curves[name] for name in drawn_calibrators if name in curves
        }
        _draw_curves(axes, curves_by_label, float(curves[RAW].mean[-1]), info.scale)
        tidied(axes, xlabel="validation examples", ylabel=info.label, title=dataset)
        numbers += [
            {"dataset": dataset, "calibrator": name, "examples": int(size), metric: float(mean), "std": float(std)}
            for name in (RAW, *drawn_calibrators)
            if name in curves
            for size, mean, std in zip(curves[name].sizes, curves[name].mean, curves[name].std, strict=True)
        ]  # fmt: skip
    legend_below(figure, grid, columns=4)
    return Picture(figure, numbers)


def _shorten_name(name: str) -> str:
    short = name.removesuffix("Calibration").removesuffix("Scaling")
    return short if len(initials(name)) > 1 else name


def _best_calibrators(results: pd.DataFrame, metric: str) -> list[str]:
    """The calibrators with the best mean rank over data sets, models and sizes."""
    others = results[results["calibrator"] != RAW]
    sign = -metric_info(metric).direction or 1
    mean = others.groupby(["dataset", "model", "size", "calibrator"])[metric].mean()
    ranks = mean.mul(sign).unstack("calibrator").rank(axis=1).mean().sort_values()
    return [str(name) for name in ranks.index[:DEFAULT_CURVES]]


def _average_curves(results: pd.DataFrame, metric: str) -> dict[str, LearningCurve]:
    """The curve of each calibrator that has finite values of some model at every size, over such models."""
    draws = results.groupby(["calibrator", "model", "seed", "size"])[metric]
    by_size = draws.agg(["mean", "std"]).unstack("size")
    means = by_size[by_size["mean"].notna().all(axis=1)].groupby("calibrator").mean()
    sizes, names = by_size["mean"].columns.to_numpy(float), map(str, means.index)
    parts = (means[part].to_numpy(float) for part in ("mean", "std"))
    curves = zip(names, *parts, strict=True)
    return {name: LearningCurve(sizes, mean, std) for name, mean, std in curves}


_HEADROOM = 0.15  # of the uncalibrated value, at least, above it; what is worse leaves the panel


class LearningCurve(NamedTuple):
    """A metric after one calibrator by numbers of validation examples, (S,) each.

    Means are over models and draws; deviations are of draws, the mean over models, NaN with one draw.
    """

    sizes: Floats
    mean: Floats
    std: Floats


def _draw_curves(axes: Axes, curves: Mapping[str, LearningCurve], raw: float, scale: float) -> None:
    """Draw the curve of each calibrator with its deviations, and the uncalibrated value as a dashed line."""
    low = min([raw, *(float(np.nanmin(curve.mean)) for curve in curves.values())])
    high = raw + max(raw - low, _HEADROOM * raw)
    axes.axhline(scale * raw, color=GREY, linestyle="--", linewidth=1, label="raw")
    for index, (name, curve) in enumerate(curves.items()):
        spread = np.where(curve.mean <= high, np.nan_to_num(curve.std), 0)
        axes.errorbar(
            curve.sizes, scale * curve.mean, scale * spread, **look(index, marked=True),
            markersize=3, linewidth=1, elinewidth=0.6, label=name,
        )  # fmt: skip
    logarithmic_at(axes, sorted({float(size) for curve in curves.values() for size in curve.sizes}))
    axes.set_ylim(scale * (low - 0.1 * (high - low)), scale * high)

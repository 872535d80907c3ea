"""Every kind of picture of an under-, an overconfident and a calibrated loss: its numbers against the runs' logits."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from matplotlib.figure import Figure

from calibench.cli import main
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds import OVER_TABLES, PICTURE_KINDS
from calibench.plots.kinds.calibrators import CHOSEN
from calibench.plots.style import draw_diagonal
from calibench.tables.text import rows_csv

from .three_sets import (
    BENCHMARKS,
    CALIBRATED,
    EPOCHS,
    LOSSES,
    OVER,
    SEEDS,
    UNDER,
    K,
    N,
    Scores,
    runs,
    write_runs,
)

Rows = list[dict[str, str]]
CALIBRATORS = ("raw", "TemperatureScaling")
TABLE = "far"
"""The benchmark of the kinds that show one."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    write_runs(folder)
    return folder


def drawn(kind: str, root: Path, file: Path, *options: str) -> Rows:
    """The numbers beside a picture of a kind."""
    results = root if kind in OVER_TABLES else root / TABLE
    assert main(["plot", kind, str(results), "-o", str(file), *options]) == 0
    return list(csv.DictReader(file.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.slow
def test_the_three_losses_are_what_they_are_called() -> None:
    for benchmark, loss in product(BENCHMARKS, LOSSES):
        for run in runs(benchmark, loss).values():
            over, under = run.gap.clip(0).mean(), (-run.gap).clip(0).mean()
            assert (over > 0.1) == (loss == OVER)
            assert (under > 0.1) == (loss == UNDER)
            assert max(over, under) < 0.01 or min(over, under) < 0.001


def of(rows: Rows, **wanted: object) -> Rows:
    """The rows with some entries."""
    return [row for row in rows if all(row[name] == str(value) for name, value in wanted.items())]


def numbers(rows: Rows, *names: str) -> np.ndarray:
    """Columns of numbers, (R,) for one name, (names, R) for several."""
    found = np.array([[float(row[name]) for row in rows] for name in names])
    return found if len(names) > 1 else found[0]


def scores(loss: str, calibrator: str = "raw", name: str = "test") -> list[Scores]:
    return [run.scores(name, calibrator) for run in runs(TABLE, loss).values()]


def pooled(loss: str, calibrator: str = "raw", name: str = "test") -> Scores:
    parts = scores(loss, calibrator, name)
    return Scores(
        np.concatenate([part.probs for part in parts]),
        np.concatenate([part.target for part in parts]),
    )


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def means_of_seeds(rows: Rows) -> None:
    """Of the heat map and the bars."""
    assert len(rows) == len(LOSSES) * len(CALIBRATORS)
    for loss, calibrator in product(LOSSES, CALIBRATORS):
        (row,) = of(rows, loss=loss, calibrator=calibrator)
        values = [one.ece() for one in scores(loss, calibrator)]
        assert float(row["mean"]) == near(fmean(values))
        assert float(row["std"]) == near(stdev(values))
        assert float(row["std"]) > 0
    raw = {row["loss"]: float(row["mean"]) for row in of(rows, calibrator="raw")}
    assert raw[CALIBRATED] < min(raw[UNDER], raw[OVER])


def reliability(rows: Rows) -> None:
    excess = {}
    for loss in LOSSES:
        bins, curve = of(rows, loss=loss, shows="bin"), of(rows, loss=loss, shows="curve")
        count, confidence, accuracy = numbers(bins, "count", "confidence", "accuracy")
        test = pooled(loss)
        assert count.sum() == len(SEEDS) * N
        assert (count * confidence).sum() == pytest.approx(test.confidence.sum(), rel=1e-5)
        assert (count * accuracy).sum() == pytest.approx(test.correct.sum())
        low, high, band_low, band_high = numbers(
            bins, "low", "high", "calibrated_low", "calibrated_high"
        )
        assert ((band_low <= confidence) & (confidence <= band_high)).all()
        inside = (band_low <= accuracy) & (accuracy <= band_high)
        many = count >= 30
        assert inside[many].mean() >= 0.8 if loss == CALIBRATED else not inside[many].all()
        assert (low < high).all()
        excess[loss] = (count * (confidence - accuracy)).sum() / count.sum()
        assert numbers(curve, "confidence").min() == near(1 / K)
        assert (numbers(curve, "low") < numbers(curve, "high")).all()
    assert excess[UNDER] < -0.1 < 0.1 < excess[OVER]
    assert abs(excess[CALIBRATED]) < 0.05


def class_reliability(rows: Rows) -> None:
    for loss, (k, name) in product(LOSSES, enumerate("abcd")):
        bins = of(rows, loss=loss, **{"class": name})
        count, share, low, high = numbers(bins, "count", "accuracy", "low", "high")
        assert (count * share).sum() == pytest.approx((pooled(loss).target == k).sum())
        assert (low < high).all()
    error = {loss: fmean(numbers(of(rows, loss=loss), "error")) for loss in LOSSES}
    assert error[CALIBRATED] < min(error[UNDER], error[OVER])


def error_by_bins(rows: Rows) -> None:
    for loss, seed in product(LOSSES, SEEDS):
        of_run = of(rows, loss=loss, seed=seed, calibrator="raw")
        one = runs(TABLE, loss)[seed].scores()
        for n_bins in (2, 15, 100):
            (row,) = of(of_run, bins=n_bins)
            assert float(row["ece"]) == near(one.ece(n_bins))
            assert float(row["calibrated"]) > 0
            if n_bins < 100:
                clearly = float(row["ece"]) > 2 * float(row["calibrated"])
                assert clearly == (loss != CALIBRATED)


def roc(rows: Rows) -> None:
    for loss in LOSSES:
        inside, outside = pooled(loss).entropy, pooled(loss, name="elsewhere").entropy
        own = of(rows, loss=loss)
        expected = (outside[:, None] > inside).mean()
        assert float(own[0]["auroc"]) == pytest.approx(expected, abs=1e-4)
        alarms, detected = numbers(own, "false_alarms", "detected")
        assert (alarms[0], detected[0], alarms[-1], detected[-1]) == (0, 0, 1, 1)
        assert (np.diff(alarms) >= 0).all()
        assert (np.diff(detected) >= 0).all()


def risk_coverage(rows: Rows) -> None:
    for loss in LOSSES:
        test = pooled(loss)
        coverage, error = numbers(of(rows, loss=loss), "coverage", "error")
        assert (coverage[-1], error[-1]) == (1, near(test.error))
        most = test.confidence >= np.quantile(test.confidence, 0.5)
        half = error[np.abs(coverage - 0.5).argmin()]
        assert half == pytest.approx(1 - test.correct[most].mean(), abs=0.01)


def confusion(rows: Rows) -> None:
    for loss, (i, true), (j, guess) in product(LOSSES, enumerate("abcd"), enumerate("abcd")):
        (row,) = of(rows, loss=loss, true=true, predicted=guess)
        test = pooled(loss)
        assert float(row["share"]) == near((test.predicted == j)[test.target == i].mean())


def curves(rows: Rows) -> None:
    for loss, seed in product(LOSSES, SEEDS):
        own = of(rows, loss=loss, seed=seed, logged="val/ece")
        assert {float(row["epoch"]): float(row["value"]) for row in own} == EPOCHS


def over_under(rows: Rows) -> None:
    for loss in LOSSES:
        over, under = numbers(of(rows, loss=loss), "over", "under")
        gaps = [run.gap for run in runs(TABLE, loss).values()]
        assert over.mean() == pytest.approx(np.clip(gaps, 0, None).mean(), abs=0.03)
        assert under.mean() == pytest.approx(np.clip(np.negative(gaps), 0, None).mean(), abs=0.03)
        assert (over > 0.1).all() == (loss == OVER)
        assert (under > 0.1).all() == (loss == UNDER)
        assert np.abs(over if loss == UNDER else under).max() < (
            0.03 if loss == CALIBRATED else 0.005
        )


def tradeoff(rows: Rows) -> None:
    for loss, seed in product(LOSSES, SEEDS):
        (row,) = of(rows, loss=loss, seed=seed)
        test = runs(TABLE, loss)[seed].scores()
        assert (float(row["error"]), float(row["ece"])) == (near(test.error), near(test.ece()))


def shift(rows: Rows) -> None:
    for loss, name in product(LOSSES, ("test", "fog")):
        expected = [one.error for one in scores(loss, name=name)]
        assert numbers(of(rows, loss=loss, set=name), "error") == pytest.approx(expected)
    for loss in LOSSES:
        error = [fmean(numbers(of(rows, loss=loss, set=name), "error")) for name in ("test", "fog")]
        assert error[0] < error[1]


def over_tables(loss: str) -> list[list[float]]:
    """ECE of the seeds of a loss on each table."""
    return [[run.scores().ece() for run in runs(table, loss).values()] for table in BENCHMARKS]


def interquartile_means(rows: Rows) -> None:
    every = np.array([over_tables(loss) for loss in LOSSES])  # (losses, tables, seeds)
    relative = every / every.mean(axis=(0, 2), keepdims=True)
    for loss, values in zip(LOSSES, relative, strict=True):
        (row,) = of(rows, loss=loss)
        assert values.min() <= float(row["value"]) <= values.max()
    assert [row["loss"] for row in rows] == [CALIBRATED, UNDER, OVER]


def improvement(rows: Rows) -> None:
    for loss in (UNDER, OVER):
        (row,) = of(rows, loss=loss)
        wins = [
            fmean(ours < theirs for ours, theirs in product(*pair))
            for pair in zip(over_tables(loss), over_tables(CALIBRATED), strict=True)
        ]
        assert float(row["value"]) == near(fmean(wins))


def critical_difference(rows: Rows) -> None:
    means = [
        [fmean(run.scores().nll for run in runs(t, loss).values()) for loss in LOSSES]
        for t in BENCHMARKS
    ]
    ranks = dict(
        zip(LOSSES, np.argsort(np.argsort(means, axis=1), axis=1).mean(0) + 1, strict=True)
    )
    assert {row["loss"]: float(row["mean_rank"]) for row in rows} == ranks


def overview(rows: Rows) -> None:
    """Bars of every loss, and the bins of the one that validation chooses, raw and after its calibrator."""
    bars = [row for row in rows if row["shows"] != "bin"]
    on_val = {
        (loss, name): fmean(one.nll for one in scores(loss, name, "val"))
        for loss, name in product(LOSSES, CALIBRATORS)
    }
    best = {loss: min(CALIBRATORS, key=lambda name: on_val[loss, name]) for loss in LOSSES}
    for loss in LOSSES:
        shown = {"raw": "raw", "temperature scaling": "TemperatureScaling", CHOSEN: best[loss]}
        for shows, calibrator in shown.items():
            (bar,) = of(bars, loss=loss, shows=shows)
            values = [one.nll for one in scores(loss, calibrator)]
            assert bar["calibrator"] == calibrator
            assert (float(bar["mean"]), float(bar["std"])) == (
                near(fmean(values)),
                near(stdev(values)),
            )
    order = list(dict.fromkeys(row["loss"] for row in bars))
    assert order == sorted(LOSSES, key=lambda loss: on_val[loss, best[loss]])
    for calibrator in CALIBRATORS:
        bins = of(rows, shows="bin", calibrator=calibrator)
        assert {row["loss"] for row in bins} == {order[0]}
        count, confidence = numbers(bins, "count", "confidence")
        test = pooled(order[0], calibrator)
        assert (count * confidence).sum() == pytest.approx(test.confidence.sum(), rel=1e-5)


CHECKS: dict[str, Callable[[Rows], None]] = {
    "overview": overview,
    "heat-map": means_of_seeds,
    "bars": means_of_seeds,
    "reliability": reliability,
    "class-reliability": class_reliability,
    "ece-bins": error_by_bins,
    "roc": roc,
    "risk-coverage": risk_coverage,
    "confusion": confusion,
    "curves": curves,
    "over-under": over_under,
    "tradeoff": tradeoff,
    "shift": shift,
    "iqm": interquartile_means,
    "improvement": improvement,
    "critical-difference": critical_difference,
}


@pytest.mark.parametrize("kind", PICTURE_KINDS)
def test_the_numbers_are_those_of_the_runs(
    kind: str, root: Path, tmp_path: Path, figures: list[Figure]
) -> None:
    rows = drawn(kind, root, tmp_path / "new" / "x.svg")
    assert figures[0].axes
    assert (tmp_path / "new" / "x.svg").is_file()
    assert {row[name] for row in rows for name in ("loss", "baseline") if name in row} == {*LOSSES}
    CHECKS[kind](rows)


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.slow) for kind in PICTURE_KINDS if kind != "tradeoff"), "tradeoff"],
)  # fmt: skip
def test_every_kind_is_drawn(kind: str, root: Path, tmp_path: Path) -> None:
    """Their marks are there without this, too: a picture of a panel without one is refused before it is drawn."""
    drawn(kind, root, tmp_path / "x.svg")
    assert "<path" in (tmp_path / "x.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("kind", ["iqm", "improvement", "critical-difference"])
def test_no_interval_of_several_values_is_without_width(
    kind: str, root: Path, tmp_path: Path
) -> None:
    for row in drawn(kind, root, tmp_path / "x.svg"):
        if row["low"] != "nan":  # what cannot have an interval has none
            assert float(row["low"]) < float(row["high"]), f"an interval of no width: {row}"


def test_the_title_of_a_single_diagram_is_not_cut(root: Path, tmp_path: Path) -> None:
    one = next((root / TABLE).glob(f"*/{OVER}/*/seed=1"))
    picture = tmp_path / "x.svg"
    assert main(["plot", "reliability", str(one), "-o", str(picture)]) == 0
    found = re.search(rf'font-size: 8px[^>]* y="([0-9.]+)"[^>]*>{OVER}</text>', picture.read_text())
    assert found
    assert float(found[1]) > 8  # where the letters stand, from the upper edge


def test_over_and_underconfidence_are_drawn_to_their_own_side(
    root: Path, tmp_path: Path, figures: list[Figure]
) -> None:
    drawn("over-under", root, tmp_path / "x.svg")
    bars = [patch.get_bbox() for patch in figures[0].axes[0].patches]
    left, right = min(bars, key=lambda bar: bar.xmin), max(bars, key=lambda bar: bar.xmax)
    labels = [text.get_text() for text in figures[0].axes[0].get_yticklabels()]
    assert labels[round((left.y0 + left.y1) / 2)] == UNDER
    assert labels[round((right.y0 + right.y1) / 2)] == OVER


def test_no_picture_is_without_a_mark() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.set_title("a\npanel")
    for draw in (
        lambda: axes.axhline(0),
        lambda: draw_diagonal(axes, linewidth=1),
        lambda: axes.scatter([np.nan], [1.0]),
        lambda: axes.bar([0], [np.nan]),
        lambda: axes.plot([], []),
        lambda: axes.fill_between([0, 1], [np.nan] * 2),
    ):
        draw()
        with pytest.raises(ValueError, match="there is nothing to draw in a panel: no such number"):
            Picture(figure, [{"value": 1.0}])
    axes.scatter([0.0], [1.0])
    assert rows_csv(Picture(figure, [{"value": 1.0}]).numbers) == "value\n1.0\n"  # now there is
    with pytest.raises(ValueError, match="nothing to draw"):
        Picture(figure, [])


@pytest.mark.parametrize("kind", ["heat-map", "bars", "tradeoff", "shift", "iqm", "improvement"])
def test_a_metric_that_no_run_has_is_one_line(
    kind: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = root if kind in OVER_TABLES else root / TABLE
    picture = tmp_path / "x.png"
    assert main(["plot", kind, str(results), "--metric", "brier", "-o", str(picture)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "brier" in line
    assert not picture.exists()

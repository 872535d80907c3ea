from __future__ import annotations

import csv
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from calibench.cli import main, parser_of
from calibench.plots.curves import (
    draw_curves,
    draw_risk_coverage,
    draw_roc,
    risk_coverage_curve,
    roc,
)
from calibench.plots.kinds import PICTURE_KINDS
from calibench.plots.kinds.aggregates import draw_critical_difference
from calibench.plots.kinds.calibrators import draw_bars, draw_heat_map
from calibench.plots.kinds.examples import draw_confusion
from calibench.plots.kinds.losses import draw_shift, draw_tradeoff
from calibench.plots.reliability import draw_reliability, reliability
from calibench.plots.selection import Request, Selection
from calibench.plots.smooth_reliability import smooth_reliability
from calibench.plots.style import legend_below
from calibench.ranking import Column, read_results
from calibench.ranking.columns import ANY
from calibench.ranking.pairs import compare_pairs
from calibench.ranking.table import build_tables
from calibench.tables.text import rows_csv
from tests.run_folders import metric_rows, settings_of, write_predictions, write_run


def called(*arguments: str) -> int:
    return parser_of("plot").run(arguments)  # type: ignore[return-value]


SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("kind", [kind for kind in PICTURE_KINDS if kind != "curves"])
def test_a_metric_that_no_run_has_is_an_error(kind: str, results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run has the metric `eec`; did you mean ece"):
        called(kind, str(results), "-o", str(tmp_path / "x.png"), "--metric", "eec")
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_a_metric_is_named_as_tables_print_it(results: Path, tmp_path: Path) -> None:
    drawn = []
    for text in ("ece", "ECE", "ECE %"):
        assert (
            called("bars", str(results / "a"), "-o", str(tmp_path / "x.png"), "--metric", text) == 0
        )
        drawn.append((tmp_path / "x.csv").read_text())
    assert drawn[0] == drawn[1] == drawn[2]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SIGNATURES)
def test_the_name_decides_the_format(suffix: str, results: Path, tmp_path: Path) -> None:
    target = tmp_path / f"x{suffix}"
    called("improvement", str(results / "a"), "-o", str(target))
    assert target.read_bytes().startswith(SIGNATURES[suffix])


@pytest.mark.usefixtures("figures")
def test_one_of_several_tables_is_chosen_by_its_title(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"choose by `table`"):
        called("roc", str(results), "-o", str(tmp_path / "x.png"))
    assert called("roc", str(results), "-o", str(tmp_path / "x.png"), "--table", "b /") == 0
    with pytest.raises(ValueError, match="no table has nothing in its title: a / SmallCNN, b"):
        called("roc", str(results), "-o", str(tmp_path / "x.png"), "--table", "nothing")


@pytest.mark.usefixtures("figures")
def test_a_whole_word_is_not_the_beginning_of_another(tmp_path: Path) -> None:
    for factor in (10.0, 100.0):
        settings = settings_of("BrierLoss") | {"data.init_args.imbalance_factor": factor}
        folder = write_run(tmp_path, settings=settings, changes={"fingerprint": str(factor)})
        write_predictions(folder, n=60)
    picture = ("roc", str(tmp_path), "-o", str(tmp_path / "x.png"), "--table")
    assert called(*picture, "imbalance_factor=10") == 0
    assert called(*picture, "factor=100") == 0
    with pytest.raises(ValueError, match="this picture shows one benchmark"):
        called(*picture, "factor=10")


@pytest.mark.slow
def test_a_benchmark_without_a_finished_run_is_in_no_pictures_way(
    results: Path, tmp_path: Path, figures: list[Figure], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    shutil.copytree(results / "a", folder / "a")
    failing = {"status": "failed", "reason": "no CIFAR-10 in data/"}
    for seed in (1, 2):
        write_run(folder, benchmark="cifar10", seed=seed, **failing)
    for kind in ("reliability", "heat-map", "tradeoff", "iqm"):
        assert called(kind, str(folder), "-o", str(tmp_path / "x.svg")) == 0
        texts = _texts(figures.pop())
        assert "CrossEntropy" in "".join(texts)
        assert not any("cifar10" in text for text in texts)
    assert main(["leaderboard", str(folder)]) == 0
    out, err = capsys.readouterr()
    line = "cifar10 / SmallCNN has no finished run (2 failed: no CIFAR-10 in data/)"
    assert err.splitlines() == [f"warning: {line}"]
    assert "a / SmallCNN" in out
    assert "cifar10" not in out
    with pytest.raises(ValueError, match=re.escape(f"{line}.")):
        called("bars", str(folder / "cifar10"), "-o", str(tmp_path / "y.png"))


def test_a_wrong_format_is_told(results: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"`--output` must end in .png, .svg or .pdf, got .*x.jpg`: write .*x.png`"
    ):
        called("roc", str(results), "-o", str(tmp_path / "x.jpg"))


def test_one_picture_is_of_one_table(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shows one benchmark and backbone, got a / SmallCNN, b"):
        called("reliability", str(results), "-o", str(tmp_path / "x.png"))


@pytest.mark.parametrize("kind", ["tradeoff", "shift", "critical-difference"])
def test_a_picture_says_the_bins_that_its_runs_have(
    kind: str, tmp_path: Path, figures: list[Figure]
) -> None:
    rows = metric_rows({}, split="fog", n_bins=(20, 30))
    for benchmark in ("a", "b"):
        for loss in ("CrossEntropyLoss", "FocalLoss"):
            write_run(tmp_path, benchmark=benchmark, loss=loss, n_bins=(20, 30), rows=rows)
    where = tmp_path / "a" if kind == "shift" else tmp_path
    for metric, bins in (("ece", 20), ("ece_30", 30)):
        called(kind, str(where), "--metric", metric, "-o", str(tmp_path / "x.png"))
        texts = _texts(figures.pop())
        assert any(f"ECE % ({bins} bins)" in text for text in texts), texts


def test_reliability_has_the_bins_that_are_asked_for(
    results: Path, tmp_path: Path, figures: list[Figure]
) -> None:
    called("reliability", str(results / "a"), "--bins", "7", "-o", str(tmp_path / "x.png"))
    texts = _texts(figures[0])
    assert any(" 7 bins, 2 seeds pooled" in text for text in texts), texts


def _texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def test_reliability_states_its_numbers_and_draws_what_was_computed(axes: Axes) -> None:
    confidence, correct = np.array([0.5, 0.95, 0.9]), np.array([True, True, False])
    diagram, smooth = (
        reliability(confidence, correct, n_bins=20),
        smooth_reliability(confidence, correct),
    )
    assert draw_reliability(axes, diagram, smooth, title="t") is axes
    said = f"ECE {100 * diagram.ece[0]:.1f} %, 20 bins\nsmECE {100 * smooth.error[0]:.1f} %, kernel width"
    assert said in axes.get_xlabel()
    seen = diagram.count > 0
    drawn = np.asarray(axes.collections[-1].get_offsets())
    expected = np.c_[diagram.confidence[seen], diagram.accuracy[seen]]
    assert drawn == pytest.approx(expected)
    assert (axes.collections[-1].get_facecolor()[:, :3] == 1).all()  # hollow: one example each
    density = axes.collections[0].get_paths()[0].vertices
    assert density[density[:, 1].argmax(), 0] == smooth.confidence[smooth.density.argmax()]


def test_roc_and_risk_name_their_areas(axes: Axes) -> None:
    curve = roc(np.array([0.0, 1.0]), np.array([0.5, 2.0]))
    assert draw_roc(axes, {"A": curve}).get_legend_handles_labels()[1] == ["A: 75.0"]
    risk = risk_coverage_curve(np.array([0.9, 0.8]), np.array([True, False]))
    other = Figure().subplots()
    assert draw_risk_coverage(other, {"A": risk}).get_legend_handles_labels()[1] == ["A: 25.00"]
    assert other.lines[0].get_ydata() == pytest.approx([0, 50])


def test_confusion_writes_shares(axes: Axes) -> None:
    draw_confusion(axes, np.array([[0.9, 0.1], [0.0, 1.0]]), ["cat", "dog"])
    assert sorted(text.get_text() for text in axes.texts) == ["10", "100", "90"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cat", "dog"]


def test_heat_map_frames_the_smallest_and_marks_what_is_within_noise(axes: Axes) -> None:
    values, marks = np.array([[3.0, 1.0], [2.0, np.nan]]), np.array([[False, True], [False, False]])
    draw_heat_map(axes, values, ["A", "B"], ["raw", "TS"], marks=marks)
    assert [text.get_text() for text in axes.texts] == ["3.00", "1.00°", "2.00"]
    assert axes.lines[0].get_xdata().mean() == pytest.approx(0.904)  # around column 1, row 0
    assert axes.lines[0].get_ydata().min() == pytest.approx(-0.46)


def test_bars_stand_in_groups_with_their_deviations(axes: Axes) -> None:
    groups = {"A": {"raw": (3.0, 0.5), "TS": (1.0, math.nan)}, "B": {"raw": (2.0, 0.1)}}
    draw_bars(axes, groups, y="ece")
    assert axes.get_legend_handles_labels()[1] == ["raw", "TS"]
    raw, ts = (c for c in axes.containers if isinstance(c, BarContainer))
    assert [bar.get_height() for bar in raw] == [3.0, 2.0]
    assert [bar.get_x() + bar.get_width() / 2 for bar in ts] == pytest.approx([0.2])
    assert raw.errorbar.lines[2][0].get_segments()[0][:, 1] == pytest.approx([2.5, 3.5])


def test_heat_map_and_bars_show_every_calibrator(tmp_path: Path) -> None:
    for loss in ("BrierLoss", "FocalLoss"):
        write_run(tmp_path, loss=loss, values={"ece@raw": 0.2, "ece@TemperatureScaling": 0.01})
    column = Column("ece")
    tables = build_tables(read_results(tmp_path), [column, column.after(ANY)], column)
    (axes,) = PICTURE_KINDS["heat-map"](Request(tables, column)).figure.axes
    assert [text.get_text() for text in axes.texts] == ["20.00", "1.00", "10.00"] * 2
    picture = PICTURE_KINDS["bars"](Request(tables, column))
    (axes,) = picture.figure.axes
    assert axes.get_legend_handles_labels()[1] == ["raw", "TS", "ATS"]
    numbers = list(csv.DictReader(rows_csv(picture.numbers).splitlines()))
    assert [row["calibrator"] for row in numbers[:2]] == ["raw", "TemperatureScaling"]
    assert [float(row["mean"]) for row in numbers[:2]] == [0.2, 0.01]  # fractions


def test_risk_coverage_begins_where_errors_begin(axes: Axes) -> None:
    correct = np.r_[np.ones(80, bool), np.zeros(20, bool)]
    curve = risk_coverage_curve(np.linspace(1, 0.2, 100), correct)
    draw_risk_coverage(axes, {"A": curve})
    assert axes.get_xlim() == pytest.approx((0.76, 1))


def test_losses_are_chosen_and_renamed(
    results: Path, tmp_path: Path, figures: list[Figure]
) -> None:
    picture = ("tradeoff", str(results / "a"), "-o", str(tmp_path / "x.png"))
    called(*picture, "--losses", "CrossEntropyLoss", "--label", "CrossEntropyLoss=CE")
    texts = _texts(figures[0])
    assert "CE" in texts
    assert not any("Loss" in text for text in texts)
    with pytest.raises(ValueError, match=r"has no loss `CrossEntrop`; did you mean CrossEntropy"):
        called(*picture, "--losses", "CrossEntrop")
    with pytest.raises(ValueError, match="NAME=TEXT is expected"):
        called(*picture, "--label", "CE")


def test_tradeoff_draws_seeds_and_their_mean(axes: Axes) -> None:
    draw_tradeoff(axes, {"A": [(1.0, 2.0), (3.0, 6.0)]}, x="error", y="ece")
    seeds, mean = (collection.get_offsets() for collection in axes.collections)
    assert seeds.tolist() == [[1.0, 2.0], [3.0, 6.0]]
    assert mean.tolist() == [[2.0, 4.0]]


def test_a_loss_looks_alike_in_all_panels_and_is_named_beside_its_mean() -> None:
    figure = Figure()
    one, other = figure.subplots(1, 2)
    draw_tradeoff(one, {"A": [(1.0, 2.0)], "B": [(1.0, 3.0)]}, x="error", y="ece")
    draw_tradeoff(other, {"A": [], "B": [(2.0, 3.0)]}, x="error", y="ece")
    assert other.collections[-1].get_facecolor() == pytest.approx(
        one.collections[-1].get_facecolor()
    )
    assert [text.get_text() for text in [*one.texts, *other.texts]] == ["A", "B", "B"]


def test_a_legend_names_a_look_once() -> None:
    figure = Figure()
    one, other = figure.subplots(1, 2)
    for axes in (one, other):
        axes.plot([0, 1], label="A")
    other.plot([1, 0], label="B")
    before = figure.get_size_inches()[1]
    legend_below(figure, [one, other], title="t")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A", "B"]
    assert figure.get_size_inches()[1] > before


def test_shift_keeps_a_set_in_its_place(axes: Axes) -> None:
    series = {
        "A": {"test": [1.0], "s1": [2.0, 4.0], "s2": [3.0]},
        "B": {"test": [1.0], "s2": [4.0]},
    }
    draw_shift(axes, series, y="e")
    places = axes.containers[1].lines[0].get_xydata()
    assert places == pytest.approx(np.array([[0.0, 1.0], [2.0, 4.0]]), abs=0.2)
    (bars,) = axes.containers[0].lines[2]
    middle = bars.get_segments()[1]
    assert middle[:, 1] == pytest.approx([3 - 2**0.5, 3 + 2**0.5])  # mean and deviation of 2 and 4


@pytest.mark.parametrize(
    ("metric", "titles"),
    [
        ([], ["loss train", "ECE % val", "NLL val", "NLL val +TS"]),
        (["--metric", "ece"], ["ECE % val"]),
        (["--metric", "ece_20"], ["ECE(20) % val"]),
    ],
)
def test_curves_are_of_the_metric_that_is_asked_for_in_its_printed_unit(
    metric: list[str], titles: list[str], tmp_path: Path, figures: list[Figure]
) -> None:
    folder = write_run(tmp_path)
    head = "epoch,step,lr,train/loss,val/ece,val/ece_20,val/nll,val/nll_ts"
    (folder / "metrics.csv").write_text(f"{head}\n0,1,0.1,2,0.5,0.4,3,2\n1,2,0.1,1,0.25,0.2,2,1\n")
    called("curves", str(tmp_path), *metric, "-o", str(tmp_path / "x.png"))
    assert [axes.get_ylabel() for axes in figures[0].axes] == titles
    (ece,) = [axes for axes in figures[0].axes if axes.get_ylabel().startswith("ECE")]
    assert ece.lines[0].get_ydata()[0] == pytest.approx(
        50 if metric != ["--metric", "ece_20"] else 40
    )
    with pytest.raises(ValueError, match="has no training curves of brier"):
        called("curves", str(tmp_path), "--metric", "brier", "-o", str(tmp_path / "x.png"))


@pytest.mark.slow
def test_files_hold_text_and_have_the_width_of_a_paper(results: Path, tmp_path: Path) -> None:
    for suffix in ("svg", "pdf"):
        file = tmp_path / f"x.{suffix}"
        called("tradeoff", str(results / "a"), "-o", str(file), "--width", "column")
        if suffix == "svg":
            assert ">CrossEntropy</text>" in file.read_text()
            assert 'width="237.6pt"' in file.read_text()  # 3.3 inches
        else:
            assert b"/Type3" not in file.read_bytes()
            assert b"/Subtype /Type42" in file.read_bytes() or b"/CIDFontType2" in file.read_bytes()


def test_curves_of_a_label_share_a_colour(axes: Axes) -> None:
    draw_curves(axes, {"A": [[(0.0, 1.0)], [(0.0, 2.0)]], "B": [[(0.0, 3.0)], []]}, y="loss")
    shades = [line.get_color() for line in axes.lines]
    assert shades[0] == shades[1] != shades[2]
    assert axes.get_legend_handles_labels()[1] == ["A", "B"]


def test_critical_difference_joins_what_is_not_told_apart(axes: Axes) -> None:
    draw_critical_difference(axes, ["A", "B", "C"], [1.0, 1.5, 3.0], 1.0)
    bars = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 3]
    assert len(bars) == 1
    assert list(bars[0]) == pytest.approx([0.96, 1.54])
    texts = [text.get_text().strip() for text in axes.texts]
    assert {"A  1.00", "B  1.50", "3.00  C"} <= set(texts)


@pytest.mark.usefixtures("figures")
def test_ranks_over_holes_are_drawn_only_on_demand(tmp_path: Path) -> None:
    for benchmark in ("a", "b", "c"):
        for loss in ("BrierLoss", "CrossEntropyLoss"):
            write_run(tmp_path, benchmark=benchmark, loss=loss)
    write_run(tmp_path, benchmark="d", loss="BrierLoss")
    picture = tmp_path / "ranks.svg"
    call = ("critical-difference", str(tmp_path), "-o", str(picture))
    with pytest.raises(ValueError, match=r"CrossEntropy \(no run\) \(`allow_missing`"):
        called(*call)
    called(*call, "--allow-missing")
    assert picture.exists()


def _aggregates(root: Path) -> Request:
    for benchmark, scale in (("a", 1.0), ("b", 10.0)):
        for loss, nll in (("BrierLoss", 0.2), ("CrossEntropyLoss", 0.1)):
            for seed in (1, 2, 3, 4):
                values = {"nll": scale * (nll + 0.001 * seed)}
                write_run(root, benchmark=benchmark, loss=loss, seed=seed, values=values)
    column = Column("nll")
    tables = build_tables(read_results(root), [column, column.after(ANY)], column)
    return Request(tables, column)


def test_interquartile_means_are_relative_where_tables_differ(tmp_path: Path) -> None:
    picture = PICTURE_KINDS["iqm"](_aggregates(tmp_path))
    assert [row["loss"] for row in picture.numbers] == ["CrossEntropy", "Brier"]
    ours = [0.1 + 0.001 * seed for seed in (2, 3)]
    mean = (0.1025 + 0.2025) / 2
    assert picture.numbers[0]["value"] == pytest.approx(sum(ours) / 2 / mean)
    axes = picture.figure.axes[0]
    assert "relative to each table's mean" in axes.get_xlabel()
    assert "no intervals: fewer than 15 seeds (4)" in axes.get_xlabel()
    assert np.isnan(picture.numbers[0]["low"])


def test_improvement_is_over_the_baseline(tmp_path: Path) -> None:
    request = _aggregates(tmp_path)
    (row,) = PICTURE_KINDS["improvement"](request).numbers
    assert (row["loss"], row["baseline"], row["value"]) == ("Brier", "CrossEntropy", 0)
    (row,) = PICTURE_KINDS["improvement"](
        replace(request, shown=Selection(baseline="BrierLoss"))
    ).numbers
    assert (row["loss"], row["value"], row["high"]) == ("CrossEntropy", 1, 1)
    (pair,) = compare_pairs(request.tables, request.metric).pairs  # as the report prints it
    ends = (pair.beats.low, pair.beats.high)
    mirrored = (1 - ends[1], 1 - ends[0]) if pair.beats.probability < 0.5 else ends
    assert (row["low"], row["high"]) == pytest.approx(mirrored)
    assert 0.5 < row["low"] < 0.9
    with pytest.raises(ValueError, match=r"baseline FocalLoss.*`baseline`"):
        PICTURE_KINDS["improvement"](replace(request, shown=Selection(baseline="FocalLoss")))


def test_losses_that_some_table_lacks_are_left_out_on_demand_only(tmp_path: Path) -> None:
    request = _aggregates(tmp_path)
    write_run(tmp_path, benchmark="b", loss="FocalLoss")
    tables = build_tables(read_results(tmp_path), [request.metric], request.metric)
    with pytest.raises(ValueError, match="missing: Focal in a / SmallCNN"):
        PICTURE_KINDS["iqm"](replace(request, tables=tables))
    picture = PICTURE_KINDS["iqm"](
        replace(request, tables=tables, shown=Selection(allow_missing=True))
    )
    assert len(picture.numbers) == 2


def test_ranks_say_which_test_and_what_is_missing(tmp_path: Path) -> None:
    for benchmark in ("a", "b", "c"):
        for loss, nll in (("BrierLoss", 0.2), ("CrossEntropyLoss", 0.1), ("FocalLoss", 0.3)):
            write_run(tmp_path, benchmark=benchmark, loss=loss, values={"nll": nll})
    write_run(tmp_path, benchmark="d", loss="BrierLoss")
    column = Column("nll")
    tables = build_tables(read_results(tmp_path), [column], column)
    figure = PICTURE_KINDS["critical-difference"](
        Request(tables, column, Selection(allow_missing=True))
    ).figure
    (axes,) = figure.axes
    assert axes.get_title() == "mean ranks by NLL over 3 of 4 tables, runs missing: 2"
    said = "joined: no significant difference (Nemenyi, 5%); all alike (Friedman): p = 0.05"
    assert axes.get_xlabel() == said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reliability", "roc", "risk-coverage", "confusion"])
def test_a_title_names_the_calibrator(kind: str, results: Path) -> None:
    column = Column("ece")
    tables = build_tables(read_results(results / "a"), [column], column)
    figure = PICTURE_KINDS[kind](
        Request(tables, column, Selection(calibrator="TemperatureScaling"))
    ).figure
    assert figure.axes[-1].get_title().endswith("\nafter TemperatureScaling")
    assert "after" not in PICTURE_KINDS[kind](Request(tables, column)).figure.axes[-1].get_title()

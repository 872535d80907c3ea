"""Colours, lines and markers: no two groups look alike."""

from __future__ import annotations

import itertools
import logging
import re
from importlib.resources import files
from io import BytesIO

import pytest
from PIL import Image

from calibench.plots.kinds.aggregates import draw_critical_difference
from calibench.plots.style import (
    WIDTHS,
    as_file,
    as_page_svg,
    color,
    hatch,
    legend_below,
    look,
    marker,
    panel,
    panels,
    room_of,
    sized,
    tidied,
)
from tests.log_records import log_messages


def test_a_picture_of_a_page_has_dark_paper_and_light_ink_where_the_reader_prefers_that() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([0, 1], label="line")
    svg = as_page_svg(figure).decode()
    (theme,) = re.findall(r"@media \(prefers-color-scheme: dark\) \{(.*)\}</style>", svg)
    assert "[style*='fill: #ffffff'] { fill: #15191d !important }" in theme
    assert "[style*='stroke: #000000'] { stroke: #e6e9ec !important }" in theme
    page = files("calibench.reports").joinpath("assets", "style.css").read_text()
    assert {"--ink: #e6e9ec", "--paper: #15191d", "--rule: #39414a"} <= {
        part.strip() for part in re.split("[;{]", page)
    }


def test_groups_are_told_apart_also_where_colours_come_again() -> None:
    looks = {(color(i), marker(i)) for i in range(28)}
    assert len(looks) == 28
    assert len({tuple(look(i).values()) for i in range(28)}) == 28
    for told_by in (lambda i: look(i)["linestyle"], marker, hatch):  # without colours
        assert told_by(0) != told_by(1) != told_by(2) != told_by(0)


def test_a_long_title_stays_inside_the_picture() -> None:
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 4.2)
    axes.set_title(
        "cifar10_lt imbalance_factor=10 recipe=tail_val / CIFARResNet8: cifar100, entropy"
    )
    tidied(axes)
    figure.canvas.draw()
    box = axes.title.get_window_extent()
    assert axes.get_title().count("\n") == 1
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_a_figure_of_a_columns_width_cuts_no_text() -> None:
    with room_of("column"):
        figure, grid = panels(4)
    assert grid[0].get_subplotspec().get_gridspec().ncols == 2  # type: ignore[union-attr]
    for axes in grid:
        for number in range(3):
            axes.plot([0, 1], [number, 1], label=f"GenerativeCrossEntropy (3 seeds) {number}")
        axes.set(
            title="GenerativeCrossEntropy (3 seeds)",
            xlabel="ECE 3.26 ± 0.67 %, 15 bins, 3 seeds pooled",
        )
        tidied(axes)
    legend_below(figure, grid)
    sized(figure, "column")
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == WIDTHS["column"]
    (legend,) = figure.legends
    texts = [text for axes in grid for text in (axes.title, axes.xaxis.label)]
    for box in (text.get_window_extent() for text in (*texts, legend)):
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.width + 1
        assert box.y1 <= figure.bbox.height + 1
    assert len(legend.get_texts()) == 3
    assert panels(4)[1][0].get_subplotspec().get_gridspec().ncols == 4  # type: ignore[union-attr]


def test_titles_of_square_panels_above_a_legend_are_not_cut() -> None:
    figure, grid = panels(4)
    labels = ("density of predictions", "95 % of calibrated models", "smooth curve", "bins")
    for axes in grid:
        for label in labels:
            axes.plot([0, 1], [0, 1], label=label)
        below = "predicted P(yes)\nits ECE 8.9 ± 1.3 %, 15 bins, 2 seeds pooled\nits smECE 5.8 %"
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        tidied(axes, title="Focal (2 seeds)", xlabel=below, ylabel="observed frequency of yes")
    legend_below(figure, grid)
    with Image.open(BytesIO(as_file(figure, "png"))) as picture:
        top_rows = picture.convert("L").crop((0, 0, picture.width, 4))
        assert top_rows.getextrema() == (255, 255)


@pytest.mark.parametrize("width", ["column", "page"])
def test_a_critical_difference_diagram_cuts_no_text(width: str) -> None:
    losses = [f"GenerativeCrossEntropy{number}" for number in range(6)]
    with room_of(width):
        figure, axes = panel(7, 3.4)
        draw_critical_difference(
            axes,
            losses,
            [1.5, 2.5, 3.5, 4.0, 4.5, 5.0],
            1.2,
            title="mean ranks by NLL over 9 of 10 tables, runs missing: 3",
            note="joined: no significant difference (Nemenyi, 5%); all alike (Friedman): p = 0.0002",
        )
    sized(figure, width)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in (axes.title, axes.xaxis.label, *axes.texts)]
    for box in boxes:
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.width + 1
        assert box.y0 >= -1
        assert box.y1 <= figure.bbox.height + 1
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_cache_that_matplotlib_cannot_write_is_no_line() -> None:
    panels(1)
    log = logging.getLogger("matplotlib")
    with log_messages("matplotlib") as messages:
        log.warning(
            "Matplotlib created a temporary cache directory at %s because there was an issue",
            "/tmp/m",
        )
        log.warning("mkdir -p failed for path %s: %s", "/home/x", "Read-only file system")
        log.warning("findfont: no such font")
    assert messages == ["findfont: no such font"]


def test_lines_of_a_title_stay_lines() -> None:
    _, (axes,) = panels(1)
    axes.set_title("BrierLoss (3 seeds)\nafter TemperatureScaling")
    assert tidied(axes).get_title() == "BrierLoss (3 seeds)\nafter TemperatureScaling"

"""Style of plots: a colour-blind safe palette, a grid of panels, legends; no display is needed."""

from __future__ import annotations

import io
import logging
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibench.messages.errors import UsageError
from calibench.messages.printable_text import printable
from calibench.messages.spelling import spell_argument

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is imported where something is drawn
    Axes = Axis = Figure = Any

# Okabe and Ito (2008), without yellow, which vanishes on white; then those of Tol's muted scheme (2021) unlike them.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#882255", "#999933", "#332288", "#44AA99", "#AA4499", "#DDCC77",
)  # fmt: skip
MARKERS = "osD^vPX<>ph*d"
FONTS: Any = {"pdf.fonttype": 42, "svg.fonttype": "none"}
"""Text in files is text: venues refuse the Type 3 fonts that matplotlib embeds by default."""

_FOLDER_NOTES = (
    "is not a writable directory",
    "mkdir -p failed for path",
    "temporary cache directory",
)

WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of one column and of the page of a paper in two columns."""

PICTURE_FORMATS = (".png", ".svg", ".pdf")

HATCHES = ("", "////", "....", "xxxx", "----")
LINE_STYLES = ("-", "--", "-.", ":")
GREY = "#777777"
PANEL_SIDE = 2.7  # width in inches
CHARACTER = 0.065  # width in inches of a character of a title


def color(index: int) -> str:
    """The colour of line number `index`."""
    return PALETTE[index % len(PALETTE)]


def look(index: int, *, marked: bool = False) -> dict[str, Any]:
    """Colour, line style and, where it is `marked`, marker of line number `index`, as arguments of matplotlib.

    Without colours, neighbours differ by their style, and so are lines of the same colour.
    """
    marks = {"marker": marker(index)} if marked else {}
    return {"color": color(index), "linestyle": LINE_STYLES[index % len(LINE_STYLES)], **marks}


def hatch(index: int) -> str:
    """The hatching of bar number `index`: neighbours differ in grey, too."""
    return HATCHES[index % len(HATCHES)]


def marker(index: int) -> str:
    """The marker of group number `index`; groups of the same colour have different markers."""
    return MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]


def draw_diagonal(axes: Axes, **look_of_line: Any) -> None:
    """Draw the diagonal of the unit square in grey: a guide, which the limits of the data leave out."""
    from matplotlib.lines import Line2D

    axes.add_artist(Line2D([0, 1], [0, 1], color=GREY, **look_of_line))


NARROWEST_WIDTH = 1.55  # inches of a panel
_room: ContextVar[float] = ContextVar("room", default=math.inf)


@contextmanager
def room_of(width: str | None) -> Iterator[None]:
    """Put as many panels beside each other as a width of `WIDTHS` (None: no limit) allows, in figures made inside."""
    token = _room.set(WIDTHS[width] if width else math.inf)
    try:
        yield
    finally:
        _room.reset(token)


def inches(axes: Axes) -> float:
    """The width of the figure that axes are in, as it will be scaled by the width in force."""
    return min(float(axes.figure.bbox.width / axes.figure.dpi), _room.get())


def sized(figure: Figure, width: str) -> None:
    """Scale a figure to a width of `WIDTHS`; texts keep their size, and are broken where they must."""
    across, down = figure.get_size_inches()
    scale = WIDTHS[width] / across
    rows = len({axes.get_position().y0 for axes in figure.axes})
    drawn_height = max(down - _TEXTS * rows, 0.5 * down)
    before = max(map(_lines_of, figure.axes))
    figure.set_size_inches(WIDTHS[width], max(scale * drawn_height + down - drawn_height, 1.5))
    for axes in figure.axes:
        for text in (axes.title, axes.xaxis.label):
            text.set_text(_wrapped(text.get_text(), _width(axes)))
    further_lines = max(map(_lines_of, figure.axes)) - before
    figure.set_figheight(figure.get_figheight() + _LINE * rows * max(further_lines, 0))
    for legend in list(figure.legends):
        labels = [text.get_text() for text in legend.get_texts()]
        handles = dict(zip(labels, legend.legend_handles, strict=True))
        title = legend.get_title().get_text()
        height = legend.get_window_extent().height / figure.dpi
        figure.set_figheight(figure.get_figheight() - height)
        legend.remove()
        _add_legend(figure, handles, 4, title)


_TEXTS = 0.6  # inches of a row of panels that are texts
_LINE = 0.14  # inches of a further line of them


def _lines_of(axes: Axes) -> int:
    return axes.get_title().count("\n") + axes.get_xlabel().count("\n")


def label_points(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Write the label of each point beside it, where it covers the fewest labels and points that are there.

    The limits of the axes must be what they will be; places are in data coordinates.
    """
    from matplotlib.transforms import Bbox

    def box(x: float, y: float, width: float, height: float) -> Bbox:
        return Bbox.from_bounds(x - width / 2, y - height / 2, width, height)

    def overlap(first: Bbox, other: Bbox) -> float:
        common = Bbox.intersection(first, other)
        return common.width * common.height if common else 0.0

    scale, size = axes.figure.dpi / 72, 6.5
    places = {name: axes.transData.transform(place) for name, place in points.items()}
    taken_boxes = [box(x, y, 6 * scale, 6 * scale) for x, y in places.values()]
    inside = axes.get_window_extent()
    for name, (x, y) in places.items():
        width, height = 0.55 * size * len(name) * scale, 1.2 * size * scale
        options = []
        for side, above in product((1, -1, 0), (0, 1, -1)):
            if side or above:
                dx, dy = side * (width / 2 + 4 * scale), above * (height / 2 + 4 * scale)
                of_label = box(x + dx, y + dy, width, height)
                covered = sum(overlap(of_label, other) for other in taken_boxes)
                outside = width * height - overlap(of_label, inside)
                options.append((outside + covered, dx, dy, of_label))
        _, dx, dy, of_label = min(options, key=lambda option: option[0])
        taken_boxes.append(of_label)
        axes.annotate(
            name, points[name], (dx / scale, dy / scale), textcoords="offset points", fontsize=size,
            ha="center", va="center",
        )  # fmt: skip


def legend_below(
    figure: Figure, grid: Sequence[Axes], *, columns: int = 2, title: str | None = None
) -> None:
    """Add a legend of all panels below the figure, which grows by its height; a label has the same look in all."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    _add_legend(figure, handles, columns, title)


_ENTRY = 0.055, 0.55  # inches of a character of a legend, and of what stands beside a label


def _add_legend(
    figure: Figure, handles: Mapping[str, Any], columns: int, title: str | None
) -> None:
    """The legend, in as many columns as there is room for, up to `columns`."""
    width, height = figure.get_size_inches()
    longest = _ENTRY[0] * max(map(len, handles), default=0) + _ENTRY[1]
    columns = max(1, min(columns, int(width / longest)))
    lines = math.ceil(len(handles) / columns) + bool(title)
    figure.set_size_inches(width, height + 0.18 * lines)
    figure.legend(
        handles.values(), handles.keys(), title=title or None, ncols=columns,
        loc="outside lower center", fontsize=7, title_fontsize=7, frameon=False,
    )  # fmt: skip


def _is_no_note_on_a_folder(record: logging.LogRecord) -> bool:
    """Whether matplotlib logs anything but that it cannot write its own cache, for which it takes another folder."""
    text = record.getMessage()
    return not any(note in text for note in _FOLDER_NOTES)


def panels(
    number: int,
    *,
    columns: int = 4,
    height: float = PANEL_SIDE,
    shared: bool = False,
    single_size: tuple[float, float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure with `number` panels of the same size, in rows of at most `columns`; shared axes have one scale.

    A single one has the width and height `single_size`, in inches.
    """
    logging.getLogger("matplotlib").addFilter(_is_no_note_on_a_folder)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(number, columns, max(1, int(min(_room.get(), 99) / NARROWEST_WIDTH)))
    down = math.ceil(number / across)
    size = (
        single_size
        if single_size and number == 1
        else (PANEL_SIDE * across + 0.4, height * down + 0.4)
    )
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes_grid = figure.subplots(down, across, squeeze=False, sharex=shared, sharey=shared)
    grid = axes_grid.ravel().tolist()
    for unused in grid[number:]:
        unused.remove()
    return figure, grid[:number]


def panel(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of a single panel; its size is in inches."""
    figure, (axes,) = panels(1, single_size=(width, height))
    return figure, axes


def label_outer(grid: Sequence[Axes]) -> None:
    """Keep numbers and titles of shared axes at the left of each row and under the last panel of each column only."""
    place = grid[0].get_subplotspec()
    across = place.get_gridspec().ncols if place else 1
    for number, axes in enumerate(grid):
        lowest, first = number + across >= len(grid), number % across == 0
        axes.tick_params(labelbottom=lowest, labelleft=first)
        if not lowest:
            axes.set_xlabel("")
        if not first:
            axes.set_ylabel("")


def logarithmic_at(axes: Axes, places: Sequence[float]) -> None:
    """Make the abscissa logarithmic, with numbers at some places only."""
    axes.set_xscale("log")
    axes.set_xticks(list(places), [f"{place:g}" for place in places])
    axes.minorticks_off()


def logarithmic(axis: Axis) -> None:
    """Number a logarithmic axis plainly: matplotlib's own labels are formulas, and pictures here show text as it is."""
    from matplotlib.ticker import NullFormatter

    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def tidied(axes: Axes, **settings: Any) -> Axes:
    """Set what `Axes.set` takes, remove the frame where it carries no numbers, and break a title that is too long."""
    axes.set(**settings)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.set_title(_wrapped(axes.get_title(), _width(axes)), fontsize=8)
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    return axes


def check_kept(output: Path, *read: Path) -> None:
    """Raise a UsageError if the numbers beside a picture would replace a file that is read for it."""
    numbers = output.with_suffix(".csv")
    if numbers.resolve() in [path.resolve() for path in read]:
        other = output.with_stem(f"{output.stem}_drawn")
        raise UsageError(
            f"the numbers of {output} are written to {numbers}, which is the file to draw: "
            f"{spell_argument('output', str(other))}."
        )


def as_file(figure: Figure, form: str) -> bytes:
    """A figure as `png`, `svg` or `pdf`.

    Every text is shown literally: `$` starts no formula, control characters are shown by name.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), keep="\n"))
    buffer = io.BytesIO()
    with rc_context(FONTS):
        _settle_layout(figure)
        figure.savefig(buffer, dpi=200, format=form)
    return buffer.getvalue()


_MOST_PASSES = 8
_SETTLED = 1e-3  # of the figure: a third of a pixel


def _settle_layout(figure: Figure) -> None:
    """Repeat the layout until no panel moves: two passes leave titles of square panels above a legend cut."""
    layout = figure.get_layout_engine()
    if layout is None:
        return
    edges: list[float] = []
    for _ in range(_MOST_PASSES):
        layout.execute(figure)
        earlier, edges = edges, _panel_edges(figure)
        if edges and max(map(abs, map(sub, edges, earlier)), default=1.0) < _SETTLED:
            return


def _panel_edges(figure: Figure) -> list[float]:
    """Left, bottom, width and height of each panel, as fractions of the figure."""
    boxes = (axes.get_position(original=True) for axes in figure.axes)
    return [edge for box in boxes for edge in box.bounds]


_INK, _PAPER, _RULE = "#e6e9ec", "#15191d", "#39414a"  # of pages in the dark
_IN_THE_DARK = "".join(
    f"[style*='{part}: {light}'] {{ {part}: {dark} !important }} "
    for part in ("fill", "stroke")
    for light, dark in (
        ("#ffffff", _PAPER),
        ("#000000", _INK),
        ("#d9d9d9", _RULE),
        ("#0072b2", "#56b4e9"),
    )
)


def as_page_svg(figure: Figure) -> bytes:
    """A figure as SVG for a page, on whose theme it depends: dark paper and light ink where the reader prefers that."""
    svg = as_file(figure, "svg")
    style = (
        f"@media (prefers-color-scheme: dark) {{ svg {{ fill: {_INK} }} {_IN_THE_DARK}}}</style>"
    )
    return svg.replace(b"</style>", style.encode(), 1)


def _width(axes: Axes) -> float:
    """Width in inches that a title may have without leaving its panel."""
    place = axes.get_subplotspec()
    across = place.get_gridspec().ncols if place else 1
    return float(0.9 * axes.figure.bbox.width / axes.figure.dpi / across)


def _wrapped(title: str, width: float) -> str:
    lines = [textwrap.wrap(line, max(20, int(width / CHARACTER))) for line in title.splitlines()]
    return "\n".join(part for parts in lines for part in parts)

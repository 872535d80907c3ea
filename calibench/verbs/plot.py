"""`calibench plot`: one picture of a folder of runs, or every kind that it can feed, with a page that shows them."""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, NamedTuple

from calibench.command_line.typed_arguments import Option, checked_by
from calibench.messages.checks import names_a_folder
from calibench.messages.errors import UsageError, one_line
from calibench.messages.printable_text import fill_docstring, loading, say
from calibench.messages.progress import with_progress
from calibench.plots.curves import OverEpochs
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds import (
    BESIDE_RAW,
    KIND_LINES,
    KINDS_OF_EXAMPLES,
    OVER_TABLES,
    PICTURE_KINDS,
)
from calibench.plots.selection import Request, Selection, read_request
from calibench.plots.style import check_kept, room_of
from calibench.plugins.registries import load_plugins, plugin_lines
from calibench.predictions.file_names import describe_missing_labels, is_a_file, plain_path
from calibench.predictions.files import Reader
from calibench.ranking.columns import Column
from calibench.ranking.records import Layout, Numbers, Record, Verdicts
from calibench.ranking.table import Row, Table
from calibench.runs import CorruptRun, Predictions, RunId, write_output
from calibench.statistics.number import RAW, TEST, TS
from calibench.store.lookup import results_folder, title_of_folder
from calibench.verbs.option_groups import (
    FileReader,
    PictureFile,
    ResultsFolder,
    Width,
    check_reader_unused,
)

_READER = Reader()


def plot_kinds() -> dict[str, Callable[[Request], Picture]]:
    """The kinds of pictures, those of other packages too."""
    PICTURE_KINDS.update(load_plugins("plots"))
    return PICTURE_KINDS


def _check_kind_of_file(kind: str, results: str) -> None:
    """Raise a UsageError for a kind that needs runs beside a file of predictions."""
    if is_a_file(results):
        _refuse_kind_of_runs(kind, results)


def check_picture(kind: str, results: str, **others: object) -> None:
    """Raise a UsageError for a kind of picture that what is drawn has no data for."""
    if is_a_file(results):
        _refuse_kind_of_runs(kind, results)


@checked_by(check_picture)
@fill_docstring(kinds="\n".join(f"{kind:19}  {line}" for kind, line in KIND_LINES.items()))
def plot(
    kind: Annotated[str, Option("KIND", choices=plot_kinds)],
    results: Annotated[str, Option("RESULTS|FILE", check_beside=_check_kind_of_file)] = "results",
    *,
    output: PictureFile,
    shown: Selection,
    width: Width = None,
    reader: FileReader,
    over_epochs: OverEpochs,
) -> int:
    """Draw one picture of a folder of runs, or of a file of predictions.

    Pictures of examples (reliability, roc, risk-coverage, confusion) pool the seeds of a row; all others average over
    seeds. The numbers in a picture are written beside it as CSV: x.png and x.csv.

    Args:
        kind: What to draw.
        results: Folder of runs, or a store; or a file of test predictions, for pictures of examples.
        output: The picture.
        shown: Which runs it shows.
        width: Its width in a paper.
        reader: How a file is read.
        over_epochs: What training curves show.

    Examples:
        calibench plot reliability results/digits_lt -o reliability.png
        calibench plot reliability test.npz -o reliability.png
        calibench plot reliability results/digits_lt --calibrator TemperatureScaling -o ts.svg
        calibench plot heat-map results/digits_lt --metric nll -o heat_map.pdf --width column
        calibench plot roc results/digits_lt --set noise -o roc.pdf
        calibench plot reliability results/cifar10_lt --table imbalance_factor=100 -o lt100.png
        calibench plot ece-bins results/digits_lt --calibrator TemperatureScaling -o bins.pdf
        calibench plot tradeoff results/ --metric ece -o tradeoff.png
        calibench plot improvement results/ --metric nll --baseline FocalLoss -o improvement.pdf
        calibench plot critical-difference results/ --metric nll -o cd.png
        calibench plot curves results/digits_lt --columns val/ece val/nll --epochs 5-30 --ema 0.8 -o curves.png
        calibench plot over-under results/gaussians -o over_under.png

    Kinds:
        {kinds}
    """
    if is_a_file(results):
        check_kept(output, Path(results))
        with loading(), room_of(width):
            picture = draw_file(kind, results, shown, reader)
    else:
        check_reader_unused(results, reader)
        metric = DEFAULT_METRICS.get(kind, "ece")
        request = read_request(results, shown, over_epochs, metric, logged=kind == "curves")
        with loading(), room_of(width):
            picture = PICTURE_KINDS[kind](request)
    picture.write(output, width=width)
    say(f"{output}, its numbers in {output.with_suffix('.csv')}")
    return 0


def draw_file(
    kind: str,
    file: str,
    selection: Selection,
    reader: Reader = _READER,
) -> Picture:
    """Draw a picture of the examples in a file of test predictions, raw.

    Raises a UsageError for a kind that needs runs, or a calibrator, which is fitted on a run's validation set.
    """
    _refuse_kind_of_runs(kind, file)
    if selection.calibrator != RAW:
        raise UsageError(
            f"`--calibrator` needs a run: write calibrated predictions by `calibench calibrate {file}`, and plot these."
        )
    return draw_predictions(kind, read_drawn(kind, file, reader), file, selection)


def _refuse_kind_of_runs(kind: str, file: str) -> None:
    """Raise a UsageError for a kind that needs runs, and a file of predictions."""
    if kind not in KINDS_OF_EXAMPLES:
        raise UsageError(
            f"`plot {kind}` needs runs, and {file} is a file of predictions: "
            f"`calibench plot {KINDS_OF_EXAMPLES[0]} {file} -o {KINDS_OF_EXAMPLES[0]}.png` draws one, as do "
            f"{', '.join(KINDS_OF_EXAMPLES[1:])}."
        )


def read_drawn(kind: str, file: str, reader: Reader) -> Predictions:
    """Read the labelled predictions of every class that a picture shows; raises a UsageError for any others."""
    predictions = reader.read(file)
    if not isinstance(predictions, Predictions):
        raise UsageError(f"{file} holds pairs of confidence and hit: `plot` needs every class.")
    if (predictions.target < 0).any():
        raise UsageError(describe_missing_labels(file, f"`plot {kind}`"))
    return predictions


def draw_predictions(
    kind: str, predictions: Predictions, file: str, selection: Selection
) -> Picture:
    """Draw a picture of the examples of a test set, raw, which is called as a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "predictions" / f"{TEST}.npz"
        path.parent.mkdir()
        predictions.save(path)
        run = RunId(
            plain_path(file).name,
            f"{predictions.examples:,} examples",
            plain_path(file).stem,
            "",
            0,
        )
        values = (
            Numbers(Layout.from_keys([]), array("d")),
            Verdicts(Layout.from_keys([]), array("d")),
        )
        record = Record(run, folder, {}, "", *values, {}, {}, (), (), {})
        row = Row(plain_path(file).stem, "", "", {}, {0: record}, {})
        table = Table(run.benchmark, run.backbone, [], Column("ece"), [row], {})
        return PICTURE_KINDS[kind](Request([table], Column("ece"), selection))


DEFAULT_METRICS = {"critical-difference": "nll", "shift": "error"}
"""The metrics of kinds that do not show the ECE where none is named."""


class GalleryPicture(NamedTuple):
    """A picture of a table or of all, its file without the suffix, below the page; the reason if it is left out."""

    kind: str
    title: str
    place: str
    request: Request
    reason: str = ""


def gallery_pictures(requests: Mapping[str, Request]) -> list[GalleryPicture]:
    """The pictures of a gallery, table by table, given for each kind what it shows of all tables."""
    has_several_tables = len(next(iter(requests.values())).tables) > 1
    pictures = []
    for kind, request in requests.items():
        if kind in OVER_TABLES:
            title = (
                f"{len(request.tables)} tables" if has_several_tables else request.tables[0].title
            )
            pictures.append(GalleryPicture(kind, title, kind, request))
            continue
        for table in request.tables:
            slug = re.sub(r"[^\w.=-]+", "-", table.title).strip("-.")
            folder = f"{slug}/" if has_several_tables else ""
            table_request = replace(request, tables=[table], shown=_beside_raw(kind, request))
            pictures.append(GalleryPicture(kind, table.title, f"{folder}{kind}", table_request))
    return sorted(pictures, key=lambda task: (task.kind in OVER_TABLES, task.title))


def _beside_raw(kind: str, request: Request) -> Selection:
    """The selection of a kind; beside raw probabilities temperature scaling where runs have it."""
    if request.shown.calibrator != RAW or kind not in BESIDE_RAW:
        return request.shown
    rows = (row for table in request.tables for row in table.rows)
    keys = (key for row in rows for record in row.records.values() for key in record.values)
    names = {key.calibrator for key in keys}
    scaling_names = (name for name in (TS, f"{TS}(shrinkage=False)") if name in names)
    return replace(request.shown, calibrator=next(scaling_names, RAW))


def draw_pictures(
    todo: Sequence[GalleryPicture], folder: Path, suffix: str, width: str | None
) -> Iterator[GalleryPicture]:
    """Draw the pictures into a folder, one after the other; what results cannot feed is left out with the reason."""
    for task in todo:
        try:
            with room_of(width):
                picture = PICTURE_KINDS[task.kind](task.request)
        except (ValueError, FileNotFoundError, CorruptRun) as error:
            yield task._replace(reason=one_line(error))
            continue
        picture.write(folder / f"{task.place}{suffix}", width=width)
        yield task


def gallery_page(title: str, pictures: Sequence[GalleryPicture], suffix: str) -> str:
    """The page: the pictures, what each shows, its CSV, what is left out, kinds with a command of their own."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    text = files("calibench.plots").joinpath("gallery.html").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    titles = list(dict.fromkeys(picture.title for picture in pictures if not picture.reason))
    kind_lines = KIND_LINES | plugin_lines("plots")
    elsewhere = {
        kind: line for kind, line in kind_lines.items() if kind not in (*plot_kinds(), "all")
    }
    context = {"title": title, "titles": titles, "pictures": pictures, "suffix": suffix}
    return page.render(**context, said=kind_lines, elsewhere=elsewhere)


def plot_all(
    results: ResultsFolder = "results",
    *,
    output: Annotated[Path, Option("DIR", ("-o",)), names_a_folder],
    format: Literal["png", "svg", "pdf"] = "png",
    shown: Selection,
    width: Width = None,
    over_epochs: OverEpochs,
) -> int:
    """Draw every kind of picture for which a results folder has data, for each benchmark and backbone.

    Each picture has its numbers as CSV. The page index.html shows all pictures, and which kinds are left out and why.
    Reliability and ECE against bins are drawn raw and, if the runs have it, after temperature scaling.

    Args:
        results: Folder of runs, or a store.
        output: The folder for the pictures.
        format: Format of the pictures.
        shown: Which runs they show.
        width: Their width in a paper.
        over_epochs: What training curves show.

    Examples:
        calibench plot all results/ -o pictures
        calibench plot all results/digits_lt -o pictures --format pdf --width column
        calibench plot all shipped/digits_lt -o pictures --losses CrossEntropyLoss FocalLoss --metric nll
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"`--output` must be a folder, {output} is a file.")
    metrics = {kind: DEFAULT_METRICS.get(kind, "ece") for kind in plot_kinds()}
    requests_by_metric = {
        name: read_request(results, shown, over_epochs, name)
        for name in dict.fromkeys(metrics.values())
    }
    todo = gallery_pictures({kind: requests_by_metric[metric] for kind, metric in metrics.items()})
    drawings = draw_pictures(todo, output, f".{format}", width)
    pictures = list(with_progress(drawings, len(todo), "drawing"))
    title, page = f"Pictures of {title_of_folder(results_folder(results))}", output / "index.html"
    write_output(page, gallery_page(title, pictures, f".{format}").encode())
    left_out = [picture for picture in pictures if picture.reason]
    say(*(f"left out: {picture.kind}, {picture.title}: {picture.reason}" for picture in left_out))
    say(f"{page} shows {len(pictures) - len(left_out)} pictures")
    return 0

"""`calibench plot all`: every kind of picture that a results folder can feed, and a page that shows them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from calibench.ground.bar import with_progress
from calibench.ground.errors import UsageError
from calibench.ground.family import plugin_lines
from calibench.ground.output import say
from calibench.ground.verb import Option
from calibench.plots.command import Shown, default_metric, kinds, request_of
from calibench.plots.curves import OverEpochs
from calibench.plots.kinds import BESIDE_RAW, KINDS, LINES, OVER_TABLES
from calibench.plots.picture import Picture
from calibench.plots.request import Request
from calibench.plots.style import Width, room_of
from calibench.runs import CorruptRun, write_output
from calibench.statistics.number import RAW
from calibench.store import results_folder
from calibench.store.finding import ResultsFolder

TS = "TemperatureScaling"


class GalleryPicture(NamedTuple):
    """A picture of a table or of all, its file without the suffix, below the page; the reason if it is left out."""

    kind: str
    title: str
    place: str
    request: Request
    reason: str = ""


def tasks(requests: Mapping[str, Request]) -> list[GalleryPicture]:
    """The pictures of a gallery, table by table, given for each kind what it shows of all tables."""
    several = len(next(iter(requests.values())).tables) > 1
    found = []
    for kind, request in requests.items():
        if kind in OVER_TABLES:
            title = f"{len(request.tables)} tables" if several else request.tables[0].title
            found.append(GalleryPicture(kind, title, kind, request))
            continue
        for table in request.tables:
            slug = re.sub(r"[^\w.=-]+", "-", table.title).strip("-.")
            folder = f"{slug}/" if several else ""
            one = replace(request, tables=[table], calibrator=_calibrator(kind, request))
            found.append(GalleryPicture(kind, table.title, f"{folder}{kind}", one))
    return sorted(found, key=lambda task: (task.kind in OVER_TABLES, task.title))


def _calibrator(kind: str, request: Request) -> str:
    """The calibrator that was asked for; beside raw probabilities temperature scaling where runs have it."""
    if request.calibrator != RAW or kind not in BESIDE_RAW:
        return request.calibrator
    rows = (row for table in request.tables for row in table.rows)
    keys = (key for row in rows for record in row.records.values() for key in record.values)
    names = {key.calibrator for key in keys}
    return next((name for name in (TS, f"{TS}(shrinkage=False)") if name in names), RAW)


def drawn(
    todo: Sequence[GalleryPicture], folder: Path, suffix: str, width: str | None
) -> Iterator[GalleryPicture]:
    """Draw the pictures into a folder, one after the other; what results cannot feed is left out with the reason."""
    for task in todo:
        try:
            with room_of(width):
                picture: Picture = KINDS[task.kind](task.request)
        except (ValueError, FileNotFoundError, CorruptRun) as error:
            yield task._replace(reason=" ".join(str(error).split()))
            continue
        picture.write(folder / f"{task.place}{suffix}", width=width)
        yield task


def page_of(title: str, pictures: Sequence[GalleryPicture], suffix: str) -> str:
    """The page: the pictures, what each shows, its CSV, what is left out, kinds with a command of their own."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    text = files(__package__).joinpath("gallery.html").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    titles = list(dict.fromkeys(one.title for one in pictures if not one.reason))
    said = LINES | plugin_lines("plots")
    elsewhere = {kind: line for kind, line in said.items() if kind not in kinds() and kind != "all"}
    shown = {"title": title, "titles": titles, "pictures": pictures, "suffix": suffix}
    return page.render(**shown, said=said, elsewhere=elsewhere)


def plot_all(
    results: ResultsFolder = "results",
    *,
    output: Annotated[Path, Option("DIR", ("-o",))],
    format: Literal["png", "svg", "pdf"] = "png",
    shown: Shown,
    width: Width = None,
    over_epochs: OverEpochs,
) -> int:
    """Draw every kind of picture that a results folder can feed into a folder, for each benchmark and backbone.

    Each has its numbers as CSV, and index.html shows them and says which kinds are left out and why. Reliability and
    ECE against bins are raw and after temperature scaling, where the runs have it.

    Args:
        results: Folder of runs, or a store.
        output: The folder of the gallery.
        format: Of the pictures.
        shown: Which runs they show.
        width: Their width in a paper.
        over_epochs: What training curves show.

    Examples:
        calibench plot all results/ -o pictures
        calibench plot all results/digits_lt -o pictures --format pdf --width column
        calibench plot all store/digits_lt -o pictures --losses CrossEntropyLoss FocalLoss --metric nll
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"`--output` must be a folder, {output} is a file.")
    drawers = kinds()
    metrics = dict.fromkeys(map(default_metric, drawers))
    by_metric = {name: request_of(results, shown, over_epochs, name) for name in metrics}
    todo = tasks({kind: by_metric[default_metric(kind)] for kind in drawers})
    made = drawn(todo, output, f".{format}", width)
    pictures = list(with_progress(made, len(todo), "drawing"))
    title, page = f"Pictures of {results_folder(results).resolve().name}", output / "index.html"
    write_output(page, page_of(title, pictures, f".{format}").encode())
    left_out = [one for one in pictures if one.reason]
    say(*(f"left out: {one.kind}, {one.title}: {one.reason}" for one in left_out))
    say(f"{page} shows {len(pictures) - len(left_out)} pictures")
    return 0

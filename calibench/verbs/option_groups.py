"""Arguments that several verbs share: calibrators, results, pictures.

Settings that a room below takes as one value, `Reader` say, are that room's: their types say what a value is called and
how it is checked, and every verb that has them has their options.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from calibench.command_line.typed_arguments import Option
from calibench.messages.checks import ends_in, positive_integer
from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument
from calibench.plots.style import PICTURE_FORMATS
from calibench.predictions.files import Reader

RESAMPLES = 1000
"""Resamples of the test examples, for the intervals that a verb prints."""

Calibrators = Annotated[tuple[Any, ...], "NAME"]
"""The argument of a verb that takes names of calibrators, in Python calibrators too."""

Jobs = Annotated[
    int,
    Option(
        "N",
        help="Number of calibrators to fit at the same time (default: one per core).",
    ),
    positive_integer,
]
"""The argument of a verb that fits several calibrators."""

CalibratorName = Annotated[
    str,
    Option("NAME", help="A name of `calibench list calibrators` (default: TemperatureScaling)."),
]
"""The argument of a verb that fits one calibrator."""

_RESULTS_HELP = (
    "Folder of runs; or a store: a folder, a URL, or `shipped`, which comes with calibench."
)
ResultsFolder = Annotated[str, Option(help=_RESULTS_HELP)]
"""The argument of a verb that names a folder of runs or a store, as `results_folder` takes it."""

Width = Annotated[
    Literal["column", "page"] | None, Option(help="Draw as wide as a column or a page of a paper.")
]
"""The argument of a verb that names a width of `WIDTHS`."""

PictureFile = Annotated[
    Path,
    Option(
        "FILE",
        ("-o",),
        help="The picture: .png, .svg or .pdf; its numbers are written beside it as .csv.",
    ),
    ends_in(*PICTURE_FORMATS),
]
"""The argument of a verb that draws one picture."""

Keys = Annotated[
    tuple[str, ...],
    Option("KEY", help="Only runs with these keys (the folders above seed=...)."),
]
"""The argument of a verb that draws some runs of a folder."""

FileReader = Annotated[
    Reader, Option(help="`calibench evaluate --help` lists the formats of files that are read.")
]
"""The group of options on how a file is read, of a verb whose help does not list the formats."""


def check_reader_unused(results: str, reader: Reader) -> None:
    """Raise a UsageError for an option on how a file is read where a folder of runs is drawn."""
    defaults = Reader()
    for option in fields(Reader):
        if getattr(reader, option.name) != getattr(defaults, option.name):
            raise UsageError(
                f"{spell_argument(option.name)} is about a file of predictions, and {results} is a folder of runs: "
                "leave it out."
            )

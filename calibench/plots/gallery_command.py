"""`calibench plot all`: the gallery of a results folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.ground.bar import with_progress
from calibench.ground.errors import UsageError
from calibench.ground.family import load_plugins, plugin_lines
from calibench.ground.output import loading, say
from calibench.plots.command import add_choice_arguments, default_metric, request_of
from calibench.plots.kinds import KINDS, LINES
from calibench.plots.output import FORMATS
from calibench.store import add_results_argument, results_folder

DESCRIPTION = """\
Draws every kind of picture that a results folder can feed into a folder, for each benchmark and backbone, each with its
numbers as CSV, and index.html, which shows them and says which kinds are left out and why. Reliability and ECE against
bins are raw and after temperature scaling, where the runs have it."""

EPILOG = """\
examples:
  calibench plot all results/ -o pictures
  calibench plot all results/digits_lt -o pictures --format pdf --width column
  calibench plot all store/digits_lt -o pictures --losses CrossEntropyLoss FocalLoss --metric nll"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench plot all`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    KINDS.update(load_plugins("plots"))
    add_results_argument(parser)
    parser.add_argument(
        "--output", "-o", type=Path, required=True, metavar="DIR", help="the folder of the gallery"
    )
    parser.add_argument(
        "--format",
        choices=[suffix[1:] for suffix in FORMATS],
        default="png",
        help="of the pictures (default: png)",
    )
    add_choice_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the gallery and say what was left out. Returns the exit status, 0.

    Raises:
        UsageError: If the output is a file.
        FileNotFoundError: If the folder of results is missing.
        ValueError: If it holds no such runs.
    """
    if args.output.exists() and not args.output.is_dir():
        raise UsageError(f"`--output` must be a folder, {args.output} is a file.")
    by_metric = {name: request_of(args, name) for name in dict.fromkeys(map(default_metric, KINDS))}
    with loading():
        from calibench.plots.gallery import drawn, tasks, write_page
    todo = tasks({kind: by_metric[default_metric(kind)] for kind in KINDS})
    made = drawn(todo, args.output, f".{args.format}", args.width)
    pictures = list(with_progress(made, len(todo), "drawing"))
    said = LINES | plugin_lines("plots")
    elsewhere = {kind: line for kind, line in said.items() if kind not in KINDS and kind != "all"}
    title = f"Pictures of {results_folder(args.results).resolve().name}"
    page = write_page(args.output, title, pictures, said, elsewhere)
    for one in pictures:
        if one.reason:
            say(f"left out: {one.kind}, {one.title}: {one.reason}")
    say(f"{page} shows {sum(bool(one.file) for one in pictures)} pictures")
    return 0

"""Options of `calibench posthoc`, and the checks of what they name, for which torch is not imported."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibench.analyses.posthoc.sources import check_sources
from calibench.calibrators import CALIBRATORS
from calibench.config import read_yaml
from calibench.evaluation.calibrator_names import listed_calibrators
from calibench.ground.arguments import positive_integer, unit_interval
from calibench.ground.errors import UsageError
from calibench.ground.output import loading
from calibench.ground.processes import cores
from calibench.ground.regular_files import text_of
from calibench.metrics import METRIC_CLASSES
from calibench.predictions.files import FILES_HELP, add_reader_arguments
from calibench.tables.titles import TEST_METRICS, metric_named

DESCRIPTION = """\
Fits every calibrator on the validation predictions of every model and scores it on the test predictions: which
calibrator improves proper scores most, how often it wins, how long it takes, and from how many examples on."""

EPILOG = f"""\
examples:
  calibench posthoc store                                  the runs that come with calibench
  calibench posthoc results --calibrators default
  calibench posthoc logits/ --repeats 10                   a folder of files, each split into random halves
  calibench posthoc store --sizes 100 300 1000 3000        learning curves

A source is a store (`store`, a folder, a URL), a folder of runs, a folder of files `val` and `test` or of such
folders, a file, or a folder of files; a file `<data set>__<model>.npz` names both. A file alone is split into random
halves.

The folder --output gets results.csv (a row a cell: model, calibrator, split; written at once, so that the same command
goes on after an interruption and adds what is new), summary.md, phi.svg, critical_difference.svg, seconds.svg and,
with --sizes, learning_curves.svg, each with its numbers beside it as .csv.

{FILES_HELP}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench posthoc`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("sources", nargs="+", metavar="STORE", help="stores, folders or files")
    parser.add_argument(
        "--calibrators",
        nargs="+",
        default=["all"],
        metavar="NAME",
        help="names of `calibench list calibrators`, default, all, or a .yaml with a list of names and of "
        "{class_path, init_args} (default: all); raw and TemperatureScaling are always among them",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=["nll", "brier", "ece", "error"],
        metavar="NAME",
        help=f"of {', '.join(TEST_METRICS)}, or all for these; names of `calibench list metrics`, import paths of "
        "torchmetrics classes; the first ranks (default: nll brier ece error)",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="fit on so many validation examples, drawn at random (default: on all)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        metavar="N",
        help="random halves of a file that is alone, and draws of each size (default: 5)",
    )
    parser.add_argument(
        "--jobs", type=int, default=cores(), metavar="N", help="processes (default: one a core)"
    )
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path("posthoc"),
        metavar="DIR",
        help="folder of the results (default: posthoc)",
    )
    add_reader_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Check what the options name, then compute what is missing. Returns the exit status, 0.

    Raises:
        ValueError: For a mistake in the arguments or files.
        FileNotFoundError: If a source is not there.
    """
    unit_interval("--clip", options.clip)
    for name in ("repeats", "jobs"):
        positive_integer(f"--{name}", getattr(options, name))
    for size in options.sizes:
        positive_integer("--sizes", size)
    check_sources(options.sources)
    options.metrics = _metrics(options.metrics)
    options.calibrators = [block for given in options.calibrators for block in _calibrators(given)]
    with loading():
        from calibench.analyses.posthoc.command import benchmark
    return benchmark(options)


def _metrics(names: list[str]) -> tuple[str, ...]:
    chosen = [name for one in names for name in (TEST_METRICS if one == "all" else (one,))]
    for name in chosen:
        METRIC_CLASSES.check(name)
    return tuple(dict.fromkeys(map(metric_named, chosen)))


def _calibrators(given: str) -> list[str | dict[str, Any]]:
    """Names, and blocks of classes with arguments, that one word of the command line stands for."""
    if not given.endswith((".yaml", ".yml")):
        return [*listed_calibrators([given])]
    path = Path(given)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    blocks = read_yaml(text_of(path))
    paths = [one.get("class_path") if isinstance(one, dict) else one for one in blocks or ()]
    if not isinstance(blocks, list) or not all(isinstance(name, str) for name in paths):
        raise UsageError(
            f"{path} must hold a list of names and of {{class_path, init_args}}, as `evaluation.calibrators` does."
        )
    for name in map(str, paths):
        CALIBRATORS.check(name)
    return blocks

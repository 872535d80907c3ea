"""Options of `calibench plot grad-cam`, and the checks of what they name, for which torch is not imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.analyses.run_arguments import add_runs_arguments, finished_runs
from calibench.ground.arguments import integer_from
from calibench.ground.errors import UsageError
from calibench.ground.output import loading
from calibench.plots.output import add_output_argument, check_output

DESCRIPTION = """\
Draws where in test images trained networks find evidence for a class (Grad-CAM, Selvaraju et al. 2017): a row for each
run, a column for each image. The runs need their checkpoints and their data. The pixel of the largest evidence of each
map is written beside the picture as CSV."""

EPILOG = """\
examples:
  calibench plot grad-cam results/digits_lt -o cam.png
  calibench plot grad-cam RUN --examples 3,7 --class 8 -o cam.png
  calibench plot grad-cam RUN --boxes BBox_List_2017.csv -o cam.png

A CSV of boxes has a header; a row is image,class,x,y,width,height (later fields, as ChestX-ray14 has them, are left
out): the name of an image file, or the number of a test image where images have no files, and pixels of that image.
Then a table says of each run, for every image and class with boxes in the test set: how often the maximum of the map
lies in a box (pointing game), and how often the box around the region above 20 % of the maximum has an IoU above .1,
.3 and .5. The CSV beside the picture has these numbers too, of each run and of each image and class."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench plot grad-cam`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_runs_arguments(parser)
    add_output_argument(parser)
    parser.add_argument(
        "--examples",
        metavar="N,N",
        help="numbers of test images, from 0 (default: the first four, or the first four that have boxes)",
    )
    parser.add_argument(
        "--class",
        dest="label",
        metavar="NAME",
        help="evidence for this class (default: that of the image's first box; without boxes, the predicted one)",
    )
    parser.add_argument(
        "--layer",
        default="auto",
        metavar="NAME",
        help="layer whose feature map is taken (default: the last with more than one position)",
    )
    parser.add_argument("--boxes", type=Path, metavar="FILE", help="CSV of boxes")


def run(options: argparse.Namespace) -> int:
    """Check what the options name, then draw. Returns the exit status, 0.

    Raises:
        UsageError: If a folder holds no finished run, or an option cannot be read.
    """
    check_output(options.output, *filter(None, [options.boxes]))
    options.examples = None if options.examples is None else _numbers(options.examples)
    options.runs = finished_runs(options.runs)
    with loading():
        from calibench.analyses.grad_cam.command import draw
    draw(options)
    return 0


def _numbers(text: str) -> list[int]:
    try:
        numbers = [integer_from("--examples", int(part), 0) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"`--examples` takes numbers from 0, as in 3,7; got {text}.") from None
    return list(dict.fromkeys(numbers))

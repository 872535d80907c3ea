"""`calibench plot learning-curves`: how many validation examples calibrators need, by results of `posthoc --sizes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from calibench.calibrator_comparison.learning_curves import (
    DEFAULT_CURVES,
    describe_sizes_command,
    draw_learning_curves,
    read_curve_results,
)
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import fill_docstring
from calibench.plots.style import check_kept
from calibench.tables.metric_titles import metric_named
from calibench.verbs.option_groups import PictureFile, Width


@fill_docstring(shown=str(DEFAULT_CURVES))
def plot_learning_curves(
    results: Annotated[Path, "DIR"],
    *,
    output: PictureFile,
    metric: Annotated[str, "NAME"] = "nll",
    calibrators: Annotated[tuple[str, ...], "NAME"] = (),
    width: Width = None,
) -> int:
    """Draw a metric after each calibrator against the number of validation examples that it is fitted on.

    Each data set has a panel. Points are means over models; bars are standard deviations over draws of the examples.

    Args:
        results: Folder or results.csv of `calibench posthoc --sizes`.
        output: The picture.
        metric: A metric.
        calibrators: The calibrators (default: the {shown} with the best mean rank over sizes).
        width: Its width in a paper.

    Examples:
        calibench posthoc shipped --sizes 100 300 1000 3000 -o posthoc
        calibench plot learning-curves posthoc -o learning_curves.pdf
        calibench plot learning-curves posthoc --metric ece --calibrators TemperatureScaling VectorScaling -o ece.png
    """
    file = results / "results.csv" if results.is_dir() else results
    check_kept(output, file)
    if not file.is_file():
        raise UsageError(f"there is no {file}: {describe_sizes_command()} writes one.")
    name = metric_named(metric)
    draw_learning_curves(read_curve_results(file, name), name, calibrators).write(
        output, width=width
    )
    return 0

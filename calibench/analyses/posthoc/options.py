"""`calibench posthoc`, and the checks of what it names, for which torch is not imported."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from calibench.analyses.posthoc.sources import PosthocSettings, check_sources
from calibench.calibrators import CALIBRATORS
from calibench.config import read_yaml
from calibench.evaluation.calibrator_names import listed_calibrators
from calibench.ground.errors import UsageError
from calibench.ground.files import text_of
from calibench.ground.output import loading
from calibench.ground.verb import Option
from calibench.metrics import METRIC_CLASSES
from calibench.tables.titles import TEST_METRICS, metric_named


def posthoc(
    sources: Annotated[tuple[str, ...], "STORE"],
    *,
    asked: PosthocSettings,
    output: Annotated[Path, Option("DIR", ("-o",))] = Path("posthoc"),
) -> int:
    """Fit every calibrator on the validation predictions of every model and score it on the test predictions.

    Which calibrator improves proper scores most, how often it wins, how long it takes, and from how many examples on.

    Args:
        sources: Stores, folders or files.
        asked: What is computed.
        output: Folder of the results.

    Examples:
        calibench posthoc store                                  the runs that come with calibench
        calibench posthoc results --calibrators default
        calibench posthoc logits/ --repeats 10                   a folder of files, each split into random halves
        calibench posthoc cv-multiclass.h5 --also probmetrics:sms --arena      a file of CalArena
        calibench posthoc store --sizes 100 300 1000 3000        learning curves

    A source is a store (`store`, a folder, a URL), a folder of runs, a folder of files `val` and `test` or of such
    folders, a file, a folder of files, or an HDF5 file of CalArena, x.h5 or x.h5:DATASET/MODEL; a file
    `<data set>__<model>.npz` names both. A file alone is split into random halves.

    The folder --output gets results.csv (a row a cell: model, calibrator, split; written at once, so that the same
    command goes on after an interruption and adds what is new), summary.md, phi.svg, critical_difference.svg,
    seconds.svg and, with --sizes, learning_curves.svg, each with its numbers beside it as .csv.
    """
    check_sources(sources)
    asked = replace(asked, metrics=_metrics(asked.metrics))
    calibrators = [block for given in asked.calibrators for block in _calibrators(given)]
    with loading():
        from calibench.analyses.posthoc.command import benchmark
    benchmark(sources, asked, calibrators, output)
    return 0


def _metrics(names: Sequence[str]) -> tuple[str, ...]:
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

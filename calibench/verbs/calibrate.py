"""`calibench.calibrate` and `calibench calibrate`: fit a calibrator on validation predictions, or apply one.

What is named is checked before torch is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from calibench.calibrators import CALIBRATORS
from calibench.calibrators.names import build_calibrator
from calibench.command_line.hints import FILE_HINTS
from calibench.command_line.typed_arguments import Option, checked_by, options_from_python
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError, no_file
from calibench.messages.printable_text import loading, say
from calibench.messages.spelling import spell_argument
from calibench.predictions.file_names import check_file, has_label_file, path_of
from calibench.predictions.files import Reader, Source
from calibench.predictions.inputs import labelled_as, sources_of
from calibench.predictions.probability_tables import CALIBRATOR_KINDS, PROBABILITY_KINDS
from calibench.verbs.option_groups import CalibratorName
from calibench.verbs.python_types import is_network, refuse_file_of_labels, refuse_positional

if TYPE_CHECKING:
    from torch import nn

    from calibench.calibrators import Calibrator
    from calibench.runs import Predictions
    from calibench.verbs.python_types import CalibratorLike, Labels, PathLike, PredictionSet

File = Annotated[str | None, "FILE"]


@refuse_positional(
    2, "`calibench.calibrate(val_logits, val_labels)`, then `calibrator(test_logits)`."
)
def calibrate(
    predictions: PredictionSet | nn.Module,
    labels: Labels | None = None,
    *,
    calibrator: CalibratorLike = "TemperatureScaling",
    scores: Literal["logits", "probs"] | None = None,
    clip: float = 0.0,
    task: Literal["multiclass", "multilabel"] | None = None,
    classes: Sequence[str] | None = None,
    trust_rows: bool = False,
    output: PathLike | None = None,
) -> Calibrator:
    """Fit a calibrator on validation predictions.

    Args:
        predictions: Validation logits (N, K); or confidences (N,) in [0, 1], which are calibrated as probabilities of
            two classes, wrong and right; or a file, which contains its labels; or what `calibench.load` returns; or a
            network, with a loader in place of `labels`.
        labels: Class indices or names (N,), or labels (N, L); for confidences, whether each prediction was right.
        calibrator: The calibrator, of which a copy is fitted, or its name: "TemperatureScaling", "TS", ...
        scores: Read scores as "logits" or "probs", regardless of names in files (default: arrays are logits).
        clip: Raise probabilities below this value to it.
        task: "multiclass" or "multilabel" (default: by the shape of the labels).
        classes: Names of the columns, if labels are names (default: those of a data frame).
        trust_rows: Accept labels that seem to belong to other rows.
        output: Also write the calibrator to this file, as `save_calibrator` does.

    Returns:
        The fitted calibrator: `calibrator(logits)` maps a tensor to probabilities (N, K), `predict_proba` an array.

    Raises:
        ValueError: If a file, an array or a name is invalid, or a logit is not finite.

    Examples:
        >>> import numpy as np, calibench
        >>> random = np.random.default_rng(0)
        >>> logits = random.normal(size=(400, 3))
        >>> labels = np.array([random.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in logits])
        >>> scaling = calibench.calibrate(6 * logits, labels)
        >>> 5 < float(scaling.temperature) < 7
        True
        >>> scaling.predict_proba(6 * logits).shape
        (400, 3)
    """
    if isinstance(calibrator, str):
        CALIBRATORS.check(calibrator)
    if isinstance(labels, str) and not Path(labels).suffix:
        raise ValueError(f'a calibrator is named: `calibrator="{labels}"`.')
    refuse_file_of_labels(predictions, labels)
    if output is not None:
        output = ends_in(*CALIBRATOR_KINDS)("output", Path(output))
    if is_network(predictions):
        from calibench.verbs.collect import collect_source

        if labels is None:
            raise ValueError("`labels` must be a loader where `predictions` is a network.")
        predictions, labels = collect_source(predictions, labels, "labels"), None  # type: ignore[assignment]
    values = {
        "scores": scores,
        "clip": clip,
        "task": task,
        "classes": classes,
        "trust_rows": trust_rows,
    }
    reader = options_from_python(Reader, values)
    sources = sources_of("labels", predictions if labels is None else (predictions, labels))
    if len(sources) > 1:
        raise ValueError("`predictions` takes one file, or arrays.")
    fitted, _ = _fit(sources[0], calibrator, reader)
    if output is not None:
        from calibench.evaluation.calibrator_files import save_calibrator

        save_calibrator(fitted, output)  # type: ignore[arg-type]
    return fitted


def _fit(
    source: Source, calibrator: CalibratorLike, reader: Reader
) -> tuple[Calibrator, Predictions]:
    """Fit a calibrator on predictions; gives both."""
    if isinstance(source, str):
        check_file(source)
    with loading():
        from calibench.evaluation.calibrator_fits import check_fittable, fit_calibrator
    predictions = labelled_as(reader.of_classes(source), "val", "val", source)
    check_fittable(predictions)
    named = isinstance(calibrator, str)
    unfitted = build_calibrator(calibrator) if named else copy.deepcopy(calibrator)  # type: ignore[arg-type]
    return fit_calibrator(unfitted, predictions), predictions  # type: ignore[arg-type]


def _check_number_of_classes(
    calibrator: Calibrator, predictions: Predictions, file: str, source: str
) -> None:
    """Raise a ValueError where a calibrator in a file is not for as many classes as the predictions have."""
    columns = predictions.logits.shape[1]
    if calibrator.num_classes in (None, columns):
        return
    if calibrator.input_kind == "labels" and predictions.labels is None:
        task = spell_argument("task", "multilabel")
        raise ValueError(
            f"{file} was fitted on several labels an example: say {task} if {source} has such."
        )
    raise ValueError(
        f"{file} is not for the {columns} classes of {source}: it was fitted on {calibrator.num_classes}."
    )


def check_calibration(
    *,
    val: str | None,
    calibrator: str,
    apply: Path | None,
    input: str | None,
    output: Path,
    reader: Reader,
) -> None:
    """Raise a ValueError for names and files that `calibench calibrate` refuses before it reads an array."""
    CALIBRATORS.check(calibrator)
    fits, applies = val is not None, apply is not None
    if fits == applies or (input is not None) != applies:
        raise UsageError(f"{FILE_HINTS['calibrate']}.")
    kinds = CALIBRATOR_KINDS if fits else PROBABILITY_KINDS
    ends_in(*kinds)(spell_argument("output").strip("`"), output)
    check_file(str(val if fits else input))


@checked_by(check_calibration)
def calibrate_command(
    *,
    val: File = None,
    calibrator: CalibratorName = "TemperatureScaling",
    apply: Annotated[Path | None, "CALIBRATOR"] = None,
    input: File = None,
    output: Annotated[Path, Option("FILE", ("-o",))],
    reader: Reader,
) -> int:
    """Fit a calibrator on validation logits and write it to a file, or apply a saved calibrator to logits.

    Args:
        val: Fit a calibrator on these predictions.
        calibrator: The calibrator.
        apply: Apply the calibrator in this file.
        input: The predictions that --apply calibrates.
        output: Write the calibrator (.pt, .json), or with --apply the probabilities (.npz, .csv, .parquet, .jsonl).
        reader: How files are read.

    Examples:
        calibench calibrate --val val.npz --calibrator TemperatureScaling --output cal.pt
        calibench calibrate --apply cal.pt --input test.npz --output probs.npz
        calibench calibrate --apply cal.pt --input test.csv --output calibrated.csv     keeps the other columns
        calibench evaluate --val val.npz --test test.npz        compares calibrators, to choose one

    The output of --apply contains `probs` (N, K) float32, `target`, and the metadata of the input. For pairs of
    confidence and correct, `probs` is (N, 2), and its second column is the calibrated confidence. A table contains ids,
    a column of probabilities for each class, and the labels. If the input is a table, its other columns are kept;
    labels from a second file become a column `label`. Rows without a label are calibrated like all others. A calibrator
    file contains the name of the class, its arguments and the fitted values; reading it runs no code (weights_only).
    In Python, `calibench.load_calibrator("cal.pt")(logits)` returns probabilities.
    """
    if calibrator == "all":
        raise UsageError(
            "`calibrate` fits one calibrator; `calibench evaluate TEST --val VAL --calibrators all` compares all."
        )
    CALIBRATORS.check(calibrator)
    if val is not None and apply is None and input is None:
        ends_in(*CALIBRATOR_KINDS)("--output", output)
        fitted, part = _fit(val, calibrator, reader)
        from calibench.evaluation.calibrator_files import save_calibrator

        save_calibrator(fitted, output)
        numbers = fitted.parameters_dict().items()
        parameters = "".join(
            f", {name} {value:.4f}" for name, value in numbers if isinstance(value, float)
        )
        result = f"{calibrator} fitted on {len(part.target)} x {part.logits.shape[1]}{parameters}"
    elif val is None and apply is not None and input is not None:
        check_file(input)
        if str(apply) in CALIBRATORS.lines and not apply.is_file():
            raise UsageError(
                f"`--apply` takes a file: `calibench calibrate --val VAL --calibrator {apply} -o cal.pt` writes one."
            )
        if not apply.is_file():
            maker = f"`calibench calibrate --val VAL -o {apply.with_suffix('.pt')}` writes one"
            raise no_file(apply, maker)
        if apply.suffix not in CALIBRATOR_KINDS and Path(input).suffix in CALIBRATOR_KINDS:
            raise UsageError(f"{apply} is no calibrator: `--apply {input} --input {apply}`.")
        ends_in(*PROBABILITY_KINDS)("--output", output)
        with loading():
            from calibench.evaluation.calibrator_files import load_calibrator, save_probabilities
        fitted, part = load_calibrator(apply), reader.of_classes(input, keeps_unlabelled=True)
        fitted.class_names = fitted.class_names or reader.ordered_classes
        rows, columns = part.logits.shape
        _check_number_of_classes(fitted, part, str(apply), input)
        try:
            save_probabilities(
                fitted,
                part,
                output,
                source=path_of(input),
                separator=reader.separator,
                has_label_file=has_label_file(input),
            )
        except RuntimeError as error:  # a fitted state that does not fit the number of classes
            raise ValueError(f"{apply} is not for the {columns} classes of {input}.") from error
        result = f"{rows} x {columns} probabilities by {type(fitted).__name__}"
    elif val is not None:
        raise UsageError(f"{FILE_HINTS['calibrate']}.")
    else:
        raise UsageError("give either `--val FILE`, or `--apply CALIBRATOR` and `--input FILE`.")
    say(f"{output}  {result}")
    return 0

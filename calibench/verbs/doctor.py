"""`calibench.doctor` and `calibench doctor`: a verdict on predictions, and which calibrator helps.

What is named is checked before torch is imported.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from calibench.calibrators.names import (
    ONE_PER_CORE,
    build_calibrators,
    parse_calibrator_names,
    refuse_named_long_fits,
)
from calibench.command_line.typed_arguments import Option, checked_by, options_from_python
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions import Predictions
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.file_names import check_file, is_no_folder
from calibench.predictions.files import Arrays, Reader, Source, is_read
from calibench.predictions.hdf5 import holds_models, is_hdf5, the_model
from calibench.predictions.inputs import as_one_kind, labelled_as, say_lines, sources_of
from calibench.predictions.probability_tables import CALIBRATOR_KINDS
from calibench.predictions.row_checks import check_rows
from calibench.runs.class_names import align_sets
from calibench.verbs.option_groups import Calibrators, Jobs
from calibench.verbs.python_types import is_network, refuse_file_of_labels, refuse_positional
from calibench.verbs.run_sets import files_of_run

if TYPE_CHECKING:
    from torch import nn

    from calibench.diagnosis.diagnosis import Diagnosis
    from calibench.diagnosis.examples import LabelledExamples
    from calibench.verbs.python_types import CalibratorLike, Labels, PathLike, PredictionSet

CLIP = 1e-12  # calibrators need finite logits, and many models say exactly 0 or 1
_CLIPPED = Reader(clip=CLIP)


@dataclass(frozen=True)
class DiagnosisOptions:
    """How a diagnosis is made.

    Attributes:
        calibrators: The candidates: names of `calibench list calibrators`, or `default` or `all` (without this option,
            fast ones only).
        export: Write the chosen calibrator. If none helps, nothing is written and the exit code is 1.
        output: Write the findings to a file, as numbers and as sentences.
        jobs: Number of calibrators to fit at the same time.
        reader: How files are read.
    """

    calibrators: Calibrators = ()
    export: Annotated[Path | None, Option("CAL.pt"), ends_in(*CALIBRATOR_KINDS)] = None
    output: Annotated[Path | None, Option("X.json", ("-o",)), ends_in(".json")] = None
    jobs: Jobs = ONE_PER_CORE
    reader: Reader = _CLIPPED


@refuse_positional(2, "`calibench.doctor(test_logits, test_labels, val=(val_logits, val_labels))`.")
def doctor(
    predictions: PredictionSet | nn.Module,
    labels: Labels | None = None,
    *,
    val: PredictionSet | None = None,
    calibrators: CalibratorLike | Sequence[CalibratorLike] = (),
    jobs: int | None = None,
    scores: Literal["logits", "probs"] | None = None,
    clip: float = CLIP,
    task: Literal["multiclass", "multilabel"] | None = None,
    classes: Sequence[str] | None = None,
    pairs: bool | None = None,
    keys: Sequence[str] = (),
    separator: str | None = None,
    trust_rows: bool = False,
    output: PathLike | None = None,
    export: PathLike | None = None,
) -> Diagnosis:
    """Diagnose predictions: are they over- or underconfident, where, which calibrator helps, and by how much.

    The verdict combines three tests with Holm's correction: of the top label (its Kuiper calibration error), of the
    class frequencies, and of each class. With two classes, P(y = 1) is tested. A limit is the value that 95 % of
    perfectly calibrated models stay below. Nested cross-validation chooses the calibrator.

    Args:
        predictions: Labelled test predictions: logits (N, K); or confidences (N,) in [0, 1]; or a file; or the folder
            of a run; or what `calibench.load` returns; or a network, with a loader in place of `labels`.
        labels: Class indices or names (N,), or labels (N, L); for confidences, whether each prediction was right.
        val: Validation predictions, on which the calibrator is chosen and fitted: `(logits, labels)`, a file, or a
            loader for a network (default: cross-validation on the test predictions).
        calibrators: The candidates: calibrators or names, "default" or "all" (default: fast ones only).
        jobs: Number of calibrators to fit at the same time (default: one per core).
        scores: Read scores as "logits" or "probs", regardless of names in files (default: arrays are probabilities if
            they lie in [0, 1] and rows sum to 1).
        clip: Raise probabilities below this value to it.
        task: "multiclass" or "multilabel" (default: by the shape of the labels).
        classes: Names of the columns (default: those of a data frame).
        pairs: Whether scores (N,) are confidences, and labels state whether each prediction was right (default: if
            labels are booleans); if not, scores (N,) are P(y = 1).
        keys: Roles of arrays or columns in files, as `probs=NAME` (default: by their names); also `classes=A,B,C`.
        separator: The character between the cells of tables in files (default: the most frequent).
        trust_rows: Accept labels that seem to belong to other rows, and sets that share rows.
        output: Write the findings to a .json file.
        export: Write the chosen calibrator to this file; if none helps, nothing is written, and a warning reports it.

    Returns:
        The diagnosis: `print` and notebooks show its sentences; `calibrator` is fitted; `frame()`, `figure()`.

    Raises:
        ValueError: If a file, an array or a name is invalid; the message states what was found.
        TypeError: If there are more than two positional arguments: pass the validation set by name.

    Examples:
        >>> import numpy as np, calibench
        >>> random = np.random.default_rng(0)
        >>> logits = random.normal(size=(400, 3))
        >>> labels = np.array([random.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in logits])
        >>> diagnosis = calibench.doctor(6 * logits, labels, calibrators="TS")
        >>> "overconfident" in str(diagnosis).lower()
        True
        >>> diagnosis.calibrator.predict_proba(6 * logits).shape
        (400, 3)
    """
    refuse_file_of_labels(predictions, labels)
    test = predictions if labels is None else (predictions, labels)
    if is_network(predictions):
        from calibench.verbs.collect import collect_source

        if labels is None:
            raise ValueError("`labels` must be a loader where `predictions` is a network.")
        test = collect_source(predictions, labels, "test")
        val = None if val is None else collect_source(predictions, val, "val")
    if is_network(calibrators):  # one calibrator, not several
        calibrators = [calibrators]  # type: ignore[list-item]
    options = options_from_python(
        DiagnosisOptions,
        dict(
            calibrators=calibrators, export=export, output=output, jobs=jobs, scores=scores, clip=clip, task=task,
            classes=classes, pairs=pairs, keys=keys, separator=separator,
            trust_rows=trust_rows,
        ),
    )  # fmt: skip
    return _diagnose(test, val, options)


def check_doctor(logits: str, *, options: DiagnosisOptions, **others: object) -> None:
    """Raise a ValueError for names and files that `calibench doctor` refuses before it reads an array."""
    parse_calibrator_names(options.calibrators)
    if not Path(logits).is_dir():
        check_file(logits)


@checked_by(check_doctor)
def doctor_command(
    logits: Annotated[str, "FILE"],
    *,
    val: Annotated[str | None, "FILE"] = None,
    options: DiagnosisOptions,
) -> Diagnosis:
    """Test whether the predictions of any model are calibrated, overconfident or underconfident.

    The first line is the verdict. The next lines report where the model is miscalibrated, and whether class frequencies
    differ between validation and test. They also report which calibrator nested cross-validation chooses, how much it
    lowers the NLL, and how many examples are needed to detect a gap.

    Args:
        logits: Predictions with labels, or a run.
        val: Validation predictions, on which the calibrator is chosen and fitted.
        options: How it is made.

    Returns:
        What is found; `print` shows its sentences. `calibrator` is fitted; `frame()`, `figure()`.

    Raises:
        ValueError: If a file or an array is invalid; the message states what was found.

    Examples:
        calibench doctor test.npz                            one file: calibrators are cross-validated on it
        calibench doctor test.npz --val val.npz              chosen and fitted on val, measured on test
        calibench doctor answers.csv                         columns `confidence` and `correct` of any model
        calibench doctor arena.h5:c10/densenet40             a model of CalArena's files, cal and test
        calibench doctor test.npz --val val.npz --export cal.pt --output findings.json
        calibench doctor results/digits_lt/SmallCNN/FocalLoss/seed=1      a run of calibench, or an entry of a store
        calibench calibrate --apply cal.pt --input new.npz --output probs.npz

    The verdict combines three tests: of the top label (its Kuiper calibration error), of the class frequencies
    (predicted minus observed counts), and of each class (its Kuiper error). With Holm's correction, it rejects at most
    5 % of calibrated models. The null distributions come from labels drawn from the model's own probabilities. A limit
    is the value that 95 % of calibrated models stay below. With two classes, P(y = 1) of the second class is tested.
    For pairs of confidence and correct, and for several labels, only the top label is tested. The tests account for
    rounding in the file.

    The expected decrease in NLL, per example, is measured on folds that were not used for the choice; its 95 % interval
    comes from refits on resampled examples. Temperature scaling is chosen unless the cross-validated NLL of another
    calibrator is lower by two standard errors (structured vector scaling: 1.5). Of such calibrators, the one with the
    lowest NLL is chosen. Raw predictions are kept only if their NLL is lower by 600 / n standard errors, because
    calibrators help mainly on errors, of which a small set (n examples) contains few. Calibrators with parameters for
    each class need five examples of each class. A calibrator that was fitted on n examples mixes in a fraction
    1 / (n + 1) of the uniform distribution, because n examples without an error do not rule errors out. For pairs,
    calibrators map the confidence, and the exported calibrator has two classes, wrong and right.
    """
    return _diagnose(logits, val, options)


def _diagnose(test: Any, val: Any, options: DiagnosisOptions) -> Diagnosis:
    """Diagnose a test set, a file or arrays, and write what options name."""
    names, reader = parse_calibrator_names(options.calibrators), options.reader
    if options.calibrators and not names:
        none = spell_argument("calibrators", "none")
        raise UsageError(f"{none} leaves nothing to choose from.")
    sources = _sources(test, val)
    for source in sources.values():
        if isinstance(source, str):
            check_file(source)
    with loading():
        from calibench.diagnosis.diagnosis import diagnose
        from calibench.evaluation.calibrator_files import save_calibrator
        from calibench.evaluation.calibrator_fits import keep_names_of_fit
        from calibench.parallel.threads import one_thread

    scores = sources["test"]
    if isinstance(scores, Arrays) and scores.labels is None and not is_read(scores.values):
        raise ValueError(
            "a verdict needs labels: `calibench.doctor(logits, labels)`; of a data frame with a column of labels, "
            '`calibench.doctor(frame, labels="label")`.'
        )
    predictions = _read_predictions(sources, reader)
    sets = _examples_of(predictions, sources, reader)
    shape = sets.get("val", sets["test"]).scores.shape
    with one_thread():  # operations are small
        refuse_named_long_fits(options.calibrators, *shape)
        diagnosis = diagnose(
            sets["test"], sets.get("val"), build_calibrators(names) or None, jobs=options.jobs
        )
    if diagnosis.calibrator:
        of_classes = {
            name: part.binary(reader.clip) if isinstance(part, ConfidencePairs) else part
            for name, part in predictions.items()
        }
        fitted_on = of_classes.get("val", of_classes["test"])
        keep_names_of_fit(diagnosis.calibrator, fitted_on, of_classes.values())
    if options.output:
        options.output.write_text(json.dumps(diagnosis.to_dict(), indent=1) + "\n")
    if options.export and diagnosis.calibrator:
        save_calibrator(diagnosis.calibrator, options.export)
    elif options.export and not is_command_line():  # there it is an error, after the sentences
        refusal = diagnosis.describe_refusal()
        warnings.warn(f"{options.export} is not written: {refusal}", stacklevel=2)
    return diagnosis


def _read_predictions(
    sources: Mapping[str, Source], reader: Reader
) -> dict[str, Predictions | ConfidencePairs]:
    """The predictions of each set, with aligned classes; lines on what their rows share."""
    predictions = {name: reader.read(source) for name, source in sources.items()}
    if isinstance(val := predictions.get("val"), Predictions):
        predictions["val"] = labelled_as(val, "val", "val", sources["val"])
    of_classes = {
        name: [part] for name, part in predictions.items() if isinstance(part, Predictions)
    }
    of_classes = as_one_kind(align_sets(of_classes))
    return predictions | {name: part for name, (part,) in of_classes.items()}


def _examples_of(
    predictions: Mapping[str, Predictions | ConfidencePairs],
    sources: Mapping[str, Source],
    reader: Reader,
) -> dict[str, LabelledExamples]:
    """The labelled examples of each set; lines on what their rows share."""
    from calibench.diagnosis.examples import check_examples, check_test_and_validation

    sets = {
        name: check_examples(part, str(sources[name]), reader.clip)
        for name, part in predictions.items()
    }
    if "val" in sets:
        check_test_and_validation(sets["test"], sets["val"])
    of_classes = {
        name: [part] for name, part in predictions.items() if isinstance(part, Predictions)
    }
    say_lines(check_rows(of_classes, trust_rows=reader.trust_rows))
    return sets


def _sources(test: Any, val: Any) -> dict[str, Source]:
    """The test and validation set; of a run, and of a model in an HDF5 file, both are its own."""
    sets: Mapping[str, Any] = {"test": test, "val": val}
    text = str(test) if isinstance(test, str | Path) else ""
    if text and is_hdf5(text) and holds_models(text):
        model = the_model(text)
        sets = {"test": f"{model}/test", "val": val or f"{model}/cal"}
    elif text and not Path(text).suffix and not is_no_folder(text):
        if val is not None:
            example = "FILE --val FILE" if is_command_line() else "a file and `val=FILE`"
            raise UsageError(f"give either a RUN, which has its own validation set, or {example}.")
        files = files_of_run(text, needed=("val", "test"))
        sets = {name: files[name] for name in sets}
    sources = {name: sources_of(name, part) for name, part in sets.items() if part is not None}
    for name, parts in sources.items():
        if len(parts) > 1:
            raise ValueError(f"`{name}` takes one file, or arrays.")
    return {name: source for name, (source,) in sources.items()}

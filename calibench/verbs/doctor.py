"""`calibench doctor`, for files and for arrays, and the checks of what it names, for which torch is not imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from calibench.calibrators.names import (
    ONE_PER_CORE,
    Calibrators,
    Jobs,
    build_calibrators,
    parse_calibrator_names,
)
from calibench.command_line.verb_parser import InPython, Option, in_python
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading
from calibench.predictions import Predictions
from calibench.predictions.files import Arrays, Reader, Source, check_file
from calibench.predictions.hdf5 import is_hdf5, the_model
from calibench.predictions.inputs import labelled_as, sources_of
from calibench.verbs.evaluate import files_of_run

if TYPE_CHECKING:
    from calibench.diagnosis.diagnosis import Diagnosis

CLIP = 1e-12  # calibrators need finite logits, and many models say exactly 0 or 1
_CLIPPED = Reader(clip=CLIP)


@in_python()
def doctor(
    logits: Annotated[str, "FILE"],
    labels: InPython = None,
    *,
    val: Annotated[str | None, "FILE"] = None,
    calibrators: Calibrators = (),
    export: Annotated[Path | None, "CAL.pt"] = None,
    output: Annotated[Path | None, Option("X.json", ("-o",)), ends_in(".json")] = None,
    jobs: Jobs = ONE_PER_CORE,
    reader: Reader = _CLIPPED,
) -> Diagnosis:
    """Say of anybody's predictions whether they are overconfident, underconfident or cannot be told from calibrated.

    The verdict is the first line; then where, whether validation and test differ in class frequencies, which calibrator
    nested cross-validation chooses with which gain, and how many examples would tell a gap.

    Args:
        logits: Labelled predictions, or a run.
        labels: In Python the first argument may be test logits (N, K), an array, a tensor, a data frame or nested
            lists, and these their class indices or names (N,), or labels (N, L); or confidences (N,) in [0, 1] and
            whether each was right. `val` may be a tuple of two such, and `calibrators` hold calibrators.
        val: Validation predictions, on which the calibrator is chosen.
        calibrators: What to choose from: names of `calibench list calibrators`, default or all (default: quick ones).
        export: Write the chosen calibrator, if one helps.
        output: Write what is found as values: every number, group of examples and gain, and the sentences.
        jobs: Calibrators at a time.
        reader: How files are read.

    Returns:
        What is found; `print` shows its sentences. `calibrator` is fitted; `frame()`, `figure()`.

    Raises:
        ValueError: If a file or an array is not what it should be; the message says what was found.

    Examples:
        calibench doctor test.npz                            one file: calibrators are cross-validated on it
        calibench doctor test.npz --val val.npz              chosen and fitted on val, measured on test
        calibench doctor answers.csv                         columns `confidence` and `correct` of any model
        calibench doctor arena.h5:c10/densenet40             a model of CalArena's files, cal and test
        calibench doctor test.npz --val val.npz --export cal.pt --output findings.json
        calibench doctor results/digits_lt/SmallCNN/FocalLoss/seed=1      a run of calibench, or an entry of a store
        calibench calibrate --apply cal.pt --input new.npz --output probs.npz

    The verdict is that of the Kuiper calibration error of the top label: its limit is what 95 % of calibrated models do
    not exceed, and what is below it cannot be told from calibrated. A gain is NLL per example that the choice
    takes away, with a 95 % bootstrap interval; the choice is made anew without each fold. Temperature scaling is chosen
    unless another map's cross-validated NLL is lower by two standard errors (raw's by 600 / n after n examples, as few
    show few errors): then the lowest of those. Each is mixed with the uniform probabilities by 1 / (n + 1) after n
    examples: having seen no error rules none out. Of pairs, calibrators map the confidence; the exported one knows two
    classes, wrong and right.
    """
    chosen = parse_calibrator_names(calibrators)
    if calibrators and not chosen:
        raise UsageError("`--calibrators none` leaves nothing to choose from.")
    read = _sources(logits if labels is None else (logits, labels), val)
    for source in read.values():
        if isinstance(source, str):
            check_file(source)
    with loading():
        from calibench.diagnosis.diagnosis import diagnose
        from calibench.diagnosis.examples import check_examples, check_test_and_validation
        from calibench.evaluation.calibrate import save_calibrator
        from calibench.parallel.threads import one_thread

    if isinstance(test := read["test"], Arrays) and test.labels is None:
        raise ValueError("a verdict needs labels: `calibench.doctor(logits, labels)`.")
    found = {name: reader.read(source) for name, source in read.items()}
    if isinstance(of_val := found.get("val"), Predictions):
        found["val"] = labelled_as(of_val, "val", "val", read["val"])
    sets = {name: check_examples(of, str(read[name]), reader.clip) for name, of in found.items()}
    if "val" in sets:
        check_test_and_validation(sets["test"], sets["val"])
    given = build_calibrators(chosen) or None
    with one_thread():  # operations are small
        diagnosis = diagnose(sets["test"], sets.get("val"), given, jobs=jobs)
    if output:
        output.write_text(json.dumps(diagnosis.to_dict(), indent=1) + "\n")
    if export and diagnosis.calibrator:
        save_calibrator(diagnosis.calibrator, export)
    return diagnosis


def _sources(test: Any, val: Any) -> dict[str, Source]:
    """The test and validation set; of a run, and of a model in an HDF5 file, both are its own."""
    given = {"test": test, "val": val}
    if isinstance(test, str) and is_hdf5(test):
        model = the_model(test)
        given = {"test": f"{model}/test", "val": val or f"{model}/cal"}
    elif isinstance(test, str) and not Path(test).suffix:
        if val is not None:
            own = "give either a RUN, which has its own validation set"
            raise UsageError(f"{own}, or FILE --val FILE.")
        files = files_of_run(test, needed=("val", "test"))
        given = {name: files[name] for name in given}
    found = {name: sources_of(name, one) for name, one in given.items() if one is not None}
    for name, several in found.items():
        if len(several) > 1:
            raise ValueError(f"`{name}` takes one file, or arrays.")
    return {name: one for name, (one,) in found.items()}

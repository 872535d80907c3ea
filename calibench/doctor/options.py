"""`calibench doctor`, and the checks of what it names, for which torch is not imported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibench.calibrators import CALIBRATORS
from calibench.evaluation.calibrator_names import ONE_PER_CORE, Jobs, unfolded
from calibench.evaluation.options import files_of_run
from calibench.ground.errors import UsageError
from calibench.ground.output import loading, say
from calibench.ground.verb import Option, ends_in
from calibench.predictions import Predictions
from calibench.predictions.files import Reader, check_file
from calibench.predictions.hdf5 import is_hdf5, the_model
from calibench.predictions.sets import labelled_as

if TYPE_CHECKING:
    from calibench.doctor.diagnosis import Diagnosis

CLIP = 1e-12  # calibrators need finite logits, and many models say exactly 0 or 1
_CLIPPED = Reader(clip=CLIP)


def doctor(
    file: Annotated[str, "FILE"],
    *,
    val: Annotated[str | None, "FILE"] = None,
    calibrators: Annotated[tuple[str, ...], "NAME"] = (),
    export: Annotated[Path | None, "CAL.pt"] = None,
    output: Annotated[Path | None, Option("X.json", ("-o",)), ends_in(".json")] = None,
    jobs: Jobs = ONE_PER_CORE,
    reader: Reader = _CLIPPED,
) -> int:
    """Say of anybody's predictions whether they are overconfident, underconfident or cannot be told from calibrated.

    The verdict is the first line; then where, whether validation and test differ in class frequencies, which calibrator
    nested cross-validation chooses with which gain, and how many examples would tell a gap.

    Args:
        file: Labelled predictions, or a run.
        val: Validation predictions, on which the calibrator is chosen.
        calibrators: What to choose from: names of `calibench list calibrators`, default or all (default: quick ones).
        export: Write the chosen calibrator, if one helps.
        output: Write what is found as values: every number, group of examples and gain, and the sentences.
        jobs: Calibrators at a time.
        reader: How files are read.

    Examples:
        calibench doctor test.npz                            one file: calibrators are cross-validated on it
        calibench doctor test.npz --val val.npz              chosen and fitted on val, measured on test
        calibench doctor answers.csv                         columns `confidence` and `correct` of any model
        calibench doctor arena.h5:c10/densenet40             a model of CalArena's files, cal and test
        calibench doctor test.npz --val val.npz --export cal.pt --output findings.json
        calibench doctor results/digits_lt/SmallCNN/FocalLoss/seed=1      a run of calibench, or an entry of a store
        calibench calibrate --apply cal.pt --input new.npz --output probs.npz

    The verdict is that of the Kuiper calibration error of the top label: its floor is what a calibrated model gets, and
    what more than 5 % of such models reach cannot be told from calibrated. A gain is NLL per example that the choice
    takes away, with a 95 % bootstrap interval; the choice is made anew without each fold. Temperature scaling is chosen
    unless another map's cross-validated NLL is lower by two standard errors (raw's by 600 / n after n examples, as few
    show few errors): then the lowest of those. Each is mixed with the uniform probabilities by 1 / (n + 1) after n
    examples: having seen no error rules none out. Of pairs, calibrators map the confidence; the exported one knows two
    classes, wrong and right.
    """
    for name in calibrators:
        if name not in ("default", "all"):
            CALIBRATORS.check(name)
    file, val = _test_and_val(file, val)
    for path in (file, val):
        if path is not None:
            check_file(path)
    with loading():
        from calibench.evaluation.calibrate import save_calibrator
    diagnosis = _diagnosis(file, val, unfolded(calibrators), reader, jobs)
    say(*diagnosis.lines)
    if output:
        output.write_text(json.dumps(diagnosis.to_dict(), indent=1) + "\n")
    if export and diagnosis.calibrator:
        save_calibrator(diagnosis.calibrator, export)
        say(f"{export} is written.")
    elif export:
        say(f"{export} is not written: no calibrator helps.")
    return 0


def _test_and_val(file: str, val: str | None) -> tuple[str, str | None]:
    """The files of the test and validation set; of a run, and of a model in an HDF5 file, both are its own."""
    if is_hdf5(file):
        model = the_model(file)
        return f"{model}/test", val or f"{model}/cal"
    if Path(file).suffix:
        return file, val
    if val is not None:
        own = "give either a RUN, which has its own validation set"
        raise UsageError(f"{own}, or FILE --val FILE.")
    sets = files_of_run(file, needed=("val", "test"))
    return str(sets["test"]), str(sets["val"])


def _diagnosis(
    file: str, val_file: str | None, calibrators: Sequence[str], reader: Reader, jobs: int
) -> Diagnosis:
    """Read and diagnose files; raises a ValueError for a mistake in them."""
    from threadpoolctl import threadpool_limits

    from calibench.doctor.diagnosis import diagnose
    from calibench.doctor.examples import check_together, checked
    from calibench.evaluation.calibrator_names import calibrator_named
    from calibench.ground.bar import with_progress
    from calibench.ground.threads import one_thread

    examples, val = checked(reader.read(file), file, reader.clip), None
    if val_file is not None:
        found = reader.read(val_file)
        if isinstance(found, Predictions):
            found = labelled_as(found, "val", "val", val_file)
        val = checked(found, val_file, reader.clip)
        check_together(examples, val)
    chosen = [calibrator_named(name) for name in calibrators]
    watched = partial(with_progress, title="calibrators")
    with one_thread(), threadpool_limits(1):  # operations are small
        return diagnose(examples, val, chosen or None, jobs=jobs, watch=watched)

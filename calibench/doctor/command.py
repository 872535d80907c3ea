"""`calibench doctor`, once its options are checked: read, diagnose, print, keep the calibrator."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from calibench.doctor.diagnosis import Diagnosis, diagnose
from calibench.doctor.examples import check_together, checked
from calibench.evaluation.calibrate import save_calibrator
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.ground.bar import with_progress
from calibench.ground.output import say
from calibench.ground.threads import one_thread
from calibench.predictions import Predictions
from calibench.predictions.files import Reader
from calibench.predictions.sets import labelled_as


def diagnose_files(
    file: str,
    val_file: str | None,
    calibrators: Sequence[str],
    reader: Reader,
    *,
    jobs: int,
    export: Path | None,
    output: Path | None,
) -> None:
    """Diagnose files, print what is found, and keep the calibrator in a file if one helps.

    Raises:
        ValueError: For a mistake in the files.
    """
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
        diagnosis = diagnose(examples, val, chosen or None, jobs=jobs, watch=watched)
    say(*diagnosis.lines)
    if output:
        output.write_text(json.dumps(diagnosis.to_dict(), indent=1) + "\n")
    if export:
        say(_exported(diagnosis, export))


def _exported(diagnosis: Diagnosis, file: Path) -> str:
    if diagnosis.calibrator is None:
        return f"{file} is not written: no calibrator helps."
    save_calibrator(diagnosis.calibrator, file)
    return f"{file} is written."

"""`calibench doctor`, once its options are checked: read, diagnose, print, keep the calibrator."""

from __future__ import annotations

import argparse
from functools import partial

from threadpoolctl import threadpool_limits

from calibench.doctor.diagnosis import Diagnosis, diagnose
from calibench.doctor.examples import LabelledExamples
from calibench.evaluation.calibrate import save_calibrator
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.ground.bar import with_progress
from calibench.ground.output import say
from calibench.ground.threads import one_thread
from calibench.predictions import Predictions
from calibench.predictions.files import Reader
from calibench.predictions.pairs import ConfidencePairs
from calibench.predictions.together import labelled_as


def diagnose_files(options: argparse.Namespace) -> int:
    """Diagnose files and print what is found. Returns the exit status, 0.

    Raises:
        ValueError: For a mistake in the files.
    """
    read = Reader(options.scores, options.clip, options.task).read
    examples, val = _checked(read(options.file), options.file, options.clip), None
    if options.val is not None:
        found = read(options.val)
        if isinstance(found, Predictions):
            found = labelled_as(found, "val", "val", options.val)
        val = _checked(found, options.val, options.clip)
        _check_together(examples, val)
    chosen = [calibrator_named(name) for name in options.calibrators]
    watched = partial(with_progress, title="calibrators")
    with one_thread(), threadpool_limits(1):  # operations are small
        diagnosis = diagnose(examples, val, chosen or None, jobs=options.jobs, watch=watched)
    say(*diagnosis.lines)
    if options.export:
        say(_exported(diagnosis, options))
    return 0


def _checked(found: Predictions | ConfidencePairs, path: str, clip: float) -> LabelledExamples:
    """The examples of a file; a ValueError if they lack labels, or calibrators could not be fitted on them."""
    examples = LabelledExamples.of(found, clip)
    if len(examples) == 0:
        raise ValueError(f"{path} holds no examples.")
    if int(examples.target.min()) < 0:
        raise ValueError(f"{path} has examples without a label, which a verdict needs.")
    if not bool(examples.scores.isfinite().all()):
        raise ValueError(
            f"{path} holds a probability of exactly 0, which calibrators cannot take: say with `--clip`, 1e-12 say, "
            "what it counts as, or write finite logits."
        )
    return examples


def _check_together(examples: LabelledExamples, val: LabelledExamples) -> None:
    """Raise a ValueError unless both are of one kind, with the same classes, and not the same."""
    ours, theirs = examples.scores.shape[1], val.scores.shape[1]
    if examples.are_pairs != val.are_pairs:
        pairs = "one of the files holds pairs of confidence and correct"
        raise ValueError(f"{pairs}, and the other does not.")
    if ours != theirs:
        raise ValueError(f"`--val` has {theirs} classes, and the file {ours}.")
    if examples.scores.equal(val.scores):
        advice = "give the file alone, and calibrators are cross-validated"
        raise ValueError(f"`--val` holds the same predictions as the file: {advice}.")


def _exported(diagnosis: Diagnosis, options: argparse.Namespace) -> str:
    if diagnosis.calibrator is None:
        return f"{options.export} is not written: no calibrator helps."
    save_calibrator(diagnosis.calibrator, options.export)
    return f"{options.export} is written."

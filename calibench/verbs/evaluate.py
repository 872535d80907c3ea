"""`calibench evaluate`, for files and for arrays, and the checks of what it names, for which torch is not imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from calibench.calibrators.names import DEFAULT
from calibench.command_line.docstrings import fill_docstring
from calibench.command_line.verb_parser import InPython, Option, in_python
from calibench.evaluation.asked import EvaluationOptions
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading
from calibench.predictions.files import Arrays
from calibench.predictions.hdf5 import is_hdf5
from calibench.predictions.inputs import Sets, sources_of
from calibench.runs import Predictions, Run
from calibench.store import find_run

if TYPE_CHECKING:
    from calibench.tables.evaluation_report import Report

REPORTS = (".json", ".md", ".csv")


@in_python(every=True, bootstrap=0)
@fill_docstring(first=", ".join(DEFAULT[:4]), others=", ".join(DEFAULT[4:]))
def evaluate(
    logits: Annotated[tuple[str, ...], "FILE|RUN"] = (),
    labels: InPython = None,
    test_logits: InPython = None,
    test_labels: InPython = None,
    *,
    asked: EvaluationOptions,
    output: Annotated[Path | None, Option("FILE", ("-o",)), ends_in(*REPORTS)] = None,
    every: InPython = False,
) -> Report:
    """Score saved logits of any framework, raw and after each calibrator.

    Error, NLL, Brier score and calibration errors of the test set; calibrators are fitted on the validation set only.
    Every number has a 95 % bootstrap interval over test examples; the best calibrator is among the bold ones with 95 %
    confidence.

    Args:
        logits: Test predictions, as --test; or a run folder, <results or
            store>/<benchmark>/<backbone>/<loss>/[<key>/]seed=<k>, of which several are an ensemble.
        labels: In Python the first argument may be test logits (N, K), an array, a tensor, a data frame or nested
            lists, and these their class indices or names (N,), or labels (N, L); or confidences (N,) in [0, 1] and
            whether each was right. `val` may be a tuple of two such, `ood` a mapping of names to scores, `calibrators`
            hold calibrators; there are no intervals without `bootstrap`.
        test_logits: With four arrays the first two are the validation set (None: there is none), these the test set.
        test_labels: Their labels.
        asked: Files, calibrators and numbers.
        output: Write a report: .json, .md or .csv.
        every: Also what no table shows: numbers of the validation set and of further numbers of bins.

    Returns:
        The report: `print` shows its tables, a notebook too; `frame()`, `figure()`, `value(metric, calibrator=...)`.

    Raises:
        ValueError: If a file or an array is not what it should be; the message says what was found.

    Examples:
        calibench evaluate test.npz                            error, NLL, Brier, ECE with its limit, a verdict
        calibench evaluate test.npz --val val.npz              calibrators, compared in a table
        calibench evaluate --val val.csv --test test.csv --calibrators TemperatureScaling VectorScaling
        calibench evaluate --val val_logits.npy:val_labels.npy --test logits.npy:labels.npy --output report.md
        calibench evaluate --val val.npz --test test.npz --ood svhn=svhn.npz --shift fog5=fog5.npz --output report.json
        calibench evaluate --val val.npz --test test.npz --posterior cifar-10h/cifar10h-probs.npy
        calibench evaluate results/digits_lt/SmallCNN/FocalLoss/8287512d63/seed=1       a run
        calibench evaluate store/digits_lt/SmallCNN/FocalLoss/seed=1                    an entry of a store
        calibench evaluate --val a/val.npz b/val.npz --test a/test.npz b/test.npz       a deep ensemble of two
        calibench evaluate answers.csv                         pairs of confidence and correct

    Calibrators by default (of the others some need many examples of every class):
      {first},
      {others}
    (`calibench list calibrators` names all). Intervals are of the expected plug-in value at this number of examples
    (smECE keeps the whole set's kernel width; AUPR and FPR@95 have none): of a calibration error that is not the value
    in the population, which they hold in 0 to 2 % of calibrated models, as a finite sample alone makes it larger; the
    debiased estimate (`--metrics DebiasedCalibrationError`: it stands beside ECE) is of that one. A finite sample makes
    a calibration error too large: its floor is what a perfectly calibrated model with the same confidences gets, by
    drawing labels from them. A value that more than 5 % of such models reach has a small circle: it cannot be told from
    perfect calibration. The lines at the end say so of the ECE of each row. An infinite NLL is shown as inf: without
    their default shrinkage some calibrators give an exact 0.
    """
    if test_logits is not None:
        if asked.sets.val:
            raise ValueError("give the validation set as `val` or as the first two of four arrays.")
        val = () if labels is None else sources_of("val", (logits, labels))
        logits, labels = test_logits, test_labels
        asked = replace(asked, sets=replace(asked.sets, val=val))
    what = sources_of("test", logits if labels is None else (logits, labels))
    if any(isinstance(one, Arrays) for one in what):
        asked = replace(asked, sets=replace(asked.sets, test=what))
    elif what:
        asked = replace(asked, sets=_sets_of([*map(str, what)], asked.sets))
    chosen = asked.checked()
    with loading():
        from calibench.evaluation.command import evaluated
    return evaluated(asked, chosen, output, every=every)


def _sets_of(what: Sequence[str], sets: Sets) -> Sets:
    """The test file, or the files of runs, each set by its kind."""
    files = [
        text for text in what if is_hdf5(text) or (Path(text).suffix and not Path(text).is_dir())
    ]
    if len(what) == 1 and files and not sets.test:
        return replace(sets, test=(files[0],))
    if files:
        advice = "give one FILE of test predictions, and others as `--val FILE`, `--test FILE`"
        raise UsageError(f"`{files[-1]}` is a file, and a RUN is a folder: {advice}.")
    if sets.val or sets.test or sets.ood or sets.shift:
        raise UsageError("give either a RUN, or files: --val, --test, --ood, --shift.")
    by_name: dict[str, list[Path]] = {}
    for text in what:
        for name, path in files_of_run(text).items():
            by_name.setdefault(name, []).append(path)
    found: dict[str, Any] = {}
    for name, paths in by_name.items():
        files = [str(path) for path in paths]
        kind = Predictions.load(paths[0]).kind or name
        texts = files if kind in ("val", "test") else [f"{name}={','.join(files)}"]
        found[kind] = (*found.get(kind, ()), *texts)
    return replace(sets, **found)


def files_of_run(text: str, *, needed: Sequence[str] = ()) -> dict[str, Path]:
    """The prediction file of each split and set of a run, which are whole.

    Raises as `find_run` and `Entry.check` do, and a FileNotFoundError if one of the needed files is missing.
    """
    entry = find_run(text)
    entry.check("predictions/")
    run = Run(entry.folder)
    sets = run.sets()
    for name in needed:
        if name not in sets:
            raise FileNotFoundError(f"there is no file {run.predictions(name)}: it is needed")
    return sets

"""`calibench.evaluate` and `calibench evaluate`: every metric of predictions, raw and after each calibrator.

What is named is checked before torch is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from calibench.calibrators import CALIBRATORS
from calibench.calibrators.names import (
    DEFAULT,
    ONE_PER_CORE,
    build_calibrators,
    parse_calibrator_names,
    refuse_named_long_fits,
)
from calibench.command_line.typed_arguments import Option, checked_by, options_from_python
from calibench.evaluation.extent import Extent
from calibench.messages.checks import ends_in, integer_from, numbers_of_bins
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import fill_docstring, loading
from calibench.messages.progress import stage_bars
from calibench.messages.spelling import is_command_line, spell_argument, spell_bare, split_names
from calibench.metrics import METRIC_CLASSES
from calibench.plugins.registries import load_plugins
from calibench.predictions.confidence_pairs import NEEDS_ALL, ConfidencePairs
from calibench.predictions.file_names import check_file, plain_path
from calibench.predictions.files import Arrays, Reader, Source
from calibench.predictions.inputs import Sets, short_names, sources_of
from calibench.predictions.label_files import refuse_labels_as_model
from calibench.runs import Predictions, json_bytes, write_output
from calibench.runs.files import FILE_FORMAT
from calibench.statistics.number import RAW
from calibench.verbs.option_groups import RESAMPLES, Calibrators, Jobs
from calibench.verbs.python_types import is_network, refuse_file_of_labels, refuse_positional
from calibench.verbs.run_sets import add_runs, is_prediction_file

if TYPE_CHECKING:
    from torch import nn

    from calibench.calibrators import Calibrator
    from calibench.evaluation.evaluation import Evaluation
    from calibench.tables.evaluation_report import Report
    from calibench.verbs.python_types import (
        CalibratorLike,
        Labels,
        NamedSets,
        PathLike,
        PredictionSet,
    )

REPORTS = (".json", ".md", ".csv", ".html")
_PAGE_SUFFIX = ".html"
_EVERY_NUMBER = (".json", ".csv")  # the others hold what is printed: the test sets, the first bins


@refuse_positional(
    2, "`calibench.evaluate(test_logits, test_labels, val=(val_logits, val_labels))`."
)
def evaluate(
    predictions: PredictionSet | nn.Module,
    labels: Labels | None = None,
    *,
    val: PredictionSet | None = None,
    ood: NamedSets | None = None,
    shift: NamedSets | None = None,
    posterior: PathLike | None = None,
    calibrators: CalibratorLike | Sequence[CalibratorLike] | None = None,
    calibrate_members: str | None = None,
    priors: str | Sequence[float] | None = None,
    metrics: str | Sequence[Any] = (),
    n_bins: int | Sequence[int] = (15, 20),
    bootstrap: int = 0,
    jobs: int | None = None,
    scores: Literal["logits", "probs"] | None = None,
    clip: float = 0.0,
    task: Literal["multiclass", "multilabel"] | None = None,
    classes: Sequence[str] | None = None,
    pairs: bool | None = None,
    keys: Sequence[str] = (),
    separator: str | None = None,
    trust_rows: bool = False,
    output: PathLike | None = None,
    every_number: bool = True,
) -> Report:
    """Score predictions of any framework, raw and after each calibrator: error, NLL, Brier, calibration errors, limits.

    Calibrators are fitted on the validation set only.

    Args:
        predictions: Test logits (N, K); or confidences (N,) in [0, 1]; or a file (several files are the members of an
            ensemble); or the folder of a run, or an entry of a store, with its own validation set; or what
            `calibench.load` returns; or a network, with a loader in place of `labels`.
        labels: Class indices or names (N,), or labels (N, L); for confidences, whether each prediction was right. A
            file contains its labels.
        val: Validation predictions: `(logits, labels)`, a file, or a loader for a network.
        ood: Out-of-distribution sets by name: scores, files, or loaders for a network.
        shift: Labelled shifted sets by name: `(logits, labels)`, files, or loaders for a network.
        posterior: Known class distributions of the test examples: a file .npy (N, K).
        calibrators: Calibrators, which are fitted anew, or their names; "default", "all" or "none" (default: "default"
            with `val`, else "none").
        calibrate_members: Calibrate each member of an ensemble with this calibrator on its own validation set, then
            pool.
        priors: Correct for the class frequencies of the test data, in a second row of each calibrator: K numbers,
            "uniform", "estimated" (by EM, from the unlabelled test logits) or "oracle" (counted from the test labels).
        metrics: Additional metrics: names, import paths of torchmetrics classes, or "all".
        n_bins: Numbers of bins; tables show the first.
        bootstrap: Number of resamples for 95 % intervals over test examples; 0 for no intervals.
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
        output: Write a report: .json, .md, .csv, or .html with a reliability diagram.
        every_number: Also compute what no table shows: metrics of the validation set, and with further numbers of bins.

    Returns:
        The report: `print` and notebooks show its tables; `value("ECE", calibrator="TS")`, `figure()`, `frame()`.
        A calibration error with ° is consistent with perfect calibration: it is at most the limit, which 95 % of
        calibrated models with the same confidences do not exceed. `frame()` has the p-value `p` of each error, and
        `floor`, the mean error of such models.

    Raises:
        ValueError: If a file, an array or a name is invalid; the message states what was found.
        TypeError: If there are more than two positional arguments: pass the validation set by name.

    Examples:
        >>> import calibench
        >>> logits = [[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]]
        >>> report = calibench.evaluate(logits, [0, 1, 1, 1])
        >>> report.value("error")
        0.25
        >>> round(report.value("ECE"), 3)
        0.232
    """
    refuse_file_of_labels(predictions, labels)
    sources = _network_sources(predictions, labels, val, ood, shift)
    if is_network(calibrators):  # one calibrator, not several
        calibrators = [calibrators]  # type: ignore[list-item]
    test = sources_of("test", sources["test"])
    runs = [] if any(isinstance(source, Arrays) for source in test) else [*map(str, test)]
    are_members = len(runs) > 1 and all(is_prediction_file(run) for run in runs)
    options: EvaluationOptions = options_from_python(
        EvaluationOptions, sources | dict(
            test=test if are_members or not runs else None, posterior=posterior,
            calibrators=calibrators, calibrate_members=calibrate_members, priors=priors,
            metrics=metrics, n_bins=n_bins, bootstrap=bootstrap, jobs=jobs, scores=scores, clip=clip, task=task,
            classes=classes, pairs=pairs, keys=keys, separator=separator,
            trust_rows=trust_rows,
        ),
    )  # fmt: skip
    file = None if output is None else ends_in(*REPORTS)("output", Path(output))
    if runs and not are_members:
        options = replace(options, sets=add_runs(runs, options.sets))
    return evaluate_options(options, file, every_number=every_number)


def _network_sources(
    predictions: Any, labels: Any, val: Any, ood: Any, shift: Any
) -> dict[str, Any]:
    """The sets by name, as scores and labels; a network predicts those that are loaders."""
    if not is_network(predictions):
        test = predictions if labels is None else (predictions, labels)
        return {"test": test, "val": val, "ood": ood, "shift": shift}
    from calibench.verbs.collect import collect, collect_source

    if labels is None:
        raise ValueError("`labels` must be a loader where `predictions` is a network.")
    val_loaders = {"val": val} if val is not None else {}
    sets = {
        name: collect_source(predictions, loader, name)
        for name, loader in {"test": labels, **val_loaders}.items()
    }
    far = {name: collect(predictions, loader).logits for name, loader in dict(ood or {}).items()}
    near = {
        name: collect_source(predictions, loader, name)
        for name, loader in dict(shift or {}).items()
    }
    return {"val": None, **sets, "ood": far or None, "shift": near or None}


def check_evaluation(
    logits: Sequence[str], *, options: EvaluationOptions, ensemble: bool, output: Path | None
) -> None:
    """Raise a ValueError for names, files and sets that `calibench evaluate` refuses before it reads an array."""
    sets = add_runs(logits, options.sets) if logits else options.sets
    if len(sets.test) < 2 or ensemble:
        replace(options, sets=sets).check()
    else:
        refuse_labels_as_model(logits)
    for file in (*sets.test, *sets.val):
        check_file(str(file))


@checked_by(check_evaluation)
@fill_docstring(first=", ".join(DEFAULT[:4]), others=", ".join(DEFAULT[4:]))
def evaluate_command(
    logits: Annotated[tuple[str, ...], "FILE|RUN"] = (),
    *,
    options: EvaluationOptions,
    ensemble: bool = False,
    output: Annotated[Path | None, Option("FILE", ("-o",)), ends_in(*REPORTS)] = None,
) -> Report | list[str]:
    """Score saved logits from any framework, raw and after each calibrator.

    The table has error, NLL, Brier score and calibration errors on the test set, each with a 95 % bootstrap interval
    over test examples. Calibrators are fitted on the validation set only. Bold: no other calibrator is significantly
    better.

    Args:
        logits: Test predictions, as with --test (several files are several models); or a run folder, <results or
            store>/<benchmark>/<backbone>/<loss>/[<key>/]seed=<k>.
        options: Files, calibrators and numbers.
        ensemble: Treat several files, or runs, as the members of one deep ensemble.
        output: Write a report: .json, .md, .csv, or .html with a reliability diagram.

    Returns:
        The report: `print` and notebooks show its tables; `frame()`, `figure()`, `value(metric, calibrator=...)`.

    Raises:
        ValueError: If a file or an array is invalid; the message states what was found.

    Examples:
        calibench evaluate test.npz                            error, NLL, Brier, ECE with its limit, a verdict
        calibench evaluate test.npz --val val.npz              compare calibrators in a table
        calibench evaluate --val val.csv --test test.csv --calibrators TemperatureScaling VectorScaling
        calibench evaluate --val val_logits.npy:val_labels.npy --test logits.npy:labels.npy --output report.md
        calibench evaluate --val val.npz --test test.npz --ood svhn=svhn.npz --shift fog5=fog5.npz --output report.json
        calibench evaluate --val val.npz --test test.npz --posterior cifar-10h/cifar10h-probs.npy
        calibench evaluate results/digits_lt/SmallCNN/FocalLoss/a33e79db5c/seed=1       a run
        calibench evaluate shipped/digits_lt/SmallCNN/FocalLoss/seed=1                    an entry of a store
        calibench evaluate a.npz b.npz --val av.npz bv.npz     two models, each with its best calibrator
        calibench evaluate a.npz b.npz --val av.npz bv.npz --ensemble                   a deep ensemble of two
        calibench evaluate test.npz --val val.npz -o page.html                          a page with the diagram
        calibench evaluate answers.csv                         pairs of confidence and correct

    Default calibrators (some of the others need many examples of every class):
      {first},
      {others}
    (`calibench list calibrators` shows all). Intervals are 95 % bootstrap intervals over test examples (smECE keeps the
    kernel width of the whole set; AUPR and FPR@95 have none). Binned calibration errors are biased upwards on a finite
    sample, and so are their intervals. So compare an error with its limit: 95 % of perfectly calibrated models with
    these confidences stay below it. `--metrics DebiasedCalibrationError` prints a debiased estimate. A small circle
    marks an error that is consistent with perfect calibration: more than 5 % of calibrated models have an error at
    least as large. The last lines give the verdict for each row. An NLL can be inf: without their default shrinkage,
    some calibrators give a probability of exactly 0.
    """
    if logits:
        options = replace(options, sets=add_runs(logits, options.sets))
    if len(options.sets.test) > 1 and not (ensemble or options.calibrate_members):
        return _as_models(logits, options, output)
    if ensemble and len(options.sets.test) == 1:
        raise UsageError("`--ensemble` needs several files of test predictions, or several runs.")
    return evaluate_options(options, output, every_number=False)


def _as_models(logits: Sequence[str], options: EvaluationOptions, output: Path | None) -> list[str]:
    """The words of the leaderboard that has a row for each of several models.

    Raises a UsageError for runs, which are rows of another kind, and for an option that is about one model.
    """
    if any(not is_prediction_file(text) for text in logits):
        folders = " ".join(logits)
        raise UsageError(
            f"several runs: `calibench evaluate {folders} --ensemble` pools them, `calibench leaderboard` ranks those "
            "of a folder."
        )
    refuse_labels_as_model(logits)
    sets = Sets(val=options.sets.val, test=options.sets.test)
    if options != EvaluationOptions(sets, options.reader):
        raise UsageError(
            f"{len(sets.test)} test files are {len(sets.test)} models, a row each, without further options: add "
            "`--ensemble` to pool them, or evaluate one file at a time, with its validation set as `--val FILE`."
        )
    words = ["leaderboard", *map(str, sets.test)]
    words += ["--val", *map(str, sets.val)] if sets.val else []
    return words + (["--output", str(output)] if output else [])


def _metric_names(_: str, names: Sequence[Any]) -> tuple[Any, ...]:
    """Names that commas separate, spaces, or both; metrics that are no names as they are."""
    texts = ([name] if not isinstance(name, str) else split_names([name]) for name in names)
    return tuple(chain.from_iterable(texts))


def _priors(name: str, value: Any) -> Any:
    """A word, or the numbers of `P,P,...`; what they may be is the evaluation's to check."""
    if not isinstance(value, str) or "," not in value:
        return value
    try:
        return [float(part) for part in value.split(",")]
    except ValueError:
        expected = f"`{name}` takes numbers with commas between them"
        raise UsageError(f"{expected}, got `{value}`.") from None


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of an evaluation: the sets, the calibrators and the numbers.

    Attributes:
        sets: Files of predictions.
        reader: How files are read.
        calibrators: Names of `calibench list calibrators`, or `default`, `all` or `none` (default: `default` with
            --val, else `none`).
        calibrate_members: Calibrate each member of an ensemble on its own --val file, then pool (default: pool, then
            calibrate).
        priors: Class frequencies of the test data, for a second row of each calibrator that is corrected for them:
            uniform, estimated (by EM, from the unlabelled test logits), K numbers P,P,..., or oracle (counted from the
            test labels).
        metrics: Additional metrics: names of `calibench list metrics`, import paths of torchmetrics classes, or all.
        n_bins: Numbers of bins (default: 15 20; tables show the first).
        bootstrap: Number of resamples for the intervals; 0 for no intervals.
        jobs: Number of calibrators to fit at the same time.
    """

    sets: Sets
    reader: Reader
    calibrators: Calibrators | None = None
    calibrate_members: Annotated[str | None, "NAME"] = None
    priors: Annotated[str | list[float] | None, "PRIORS", _priors] = None
    metrics: Annotated[tuple[str, ...], "NAME", _metric_names] = ()
    n_bins: Annotated[tuple[int, ...], "N", numbers_of_bins] = (15, 20)
    bootstrap: Annotated[int, "N", partial(integer_from, low=0)] = RESAMPLES
    jobs: Jobs = ONE_PER_CORE

    @property
    def is_single_row(self) -> bool:
        """Whether there is nothing but a test set, whose numbers are one row."""
        sets, calibration = self.sets, (self.calibrators, self.priors)
        further = [*sets.val, *sets.test[1:], *sets.ood, *sets.shift, *self.metrics]
        return not further and sets.posterior is None and calibration == (None, None)

    def check(self) -> list[Any]:
        """Check names and sets, and give the calibrators that are fitted, by name or built.

        A UsageError for a name that does not exist, or what the sets do not allow; raises if a file is not there.
        """
        sets, of_members = self.sets, self.calibrate_members
        if not sets.test:
            second_file = sets.val[1:2]
            example = (
                f"`calibench evaluate {second_file[0]} --val {sets.val[0]}`"
                if second_file
                else "`calibench evaluate test.npz`"
            )
            raise UsageError(
                f"a RUN or a FILE of test predictions is missing, and comes first: {example}."
            )
        by_default = ("default",) if sets.val else ()
        names = parse_calibrator_names(by_default if self.calibrators is None else self.calibrators)
        val = spell_argument("val", "FILE", python="(logits, labels)")
        if of_members:
            CALIBRATORS.check(of_members)
        if of_members and (len(sets.test) < 2 or not sets.val):
            files = f"several {spell_bare('val')} and {spell_bare('test')} files"
            raise UsageError(f"{spell_argument('calibrate_members')} is for an ensemble: {files}.")
        if not sets.val and names:
            raise UsageError(
                f"calibrators are fitted on a validation set, {val}: give it, or say "
                f"{spell_argument('calibrators', 'none')}{_hint_at_doctor()}."
            )
        if not sets.val and self.priors is not None:
            raise UsageError(
                f"{spell_argument('priors')} corrects calibrators, which are fitted on {val}: give it."
            )
        texts = (name for name in self.metrics if isinstance(name, str))
        METRIC_CLASSES.check(*(text for text in texts if text != "all"))
        sets.check()
        return names


def _hint_at_doctor() -> str:
    """How calibrators are compared on one file, on a command line."""
    return "; `calibench doctor FILE` cross-validates them" if is_command_line() else ""


def evaluate_options(
    options: EvaluationOptions, output: Path | None, *, every_number: bool
) -> Report:
    """Evaluate the sets of options, and write the report; raises a ValueError before anything is computed.

    With `every_number` there are numbers that no table shows, as in a file of every number.
    """
    calibrators = options.check()
    with loading():
        from calibench.evaluation.evaluation import Evaluation, evaluate_pairs
        from calibench.evaluation.extra_metrics import parse_metric_names

    load_plugins("metrics", "calibrators")
    source, read = options.sets.test[0], options.reader
    first = read.read(source)
    predictions: ConfidencePairs | dict[str, dict[str, Predictions]]
    further = parse_metric_names(
        options.metrics, of_pairs=isinstance(first, ConfidencePairs), n_bins=options.n_bins[0]
    )
    if isinstance(first, ConfidencePairs):
        _check_pairs(options, calibrators)
        predictions = first
        report = evaluate_pairs(first, options.n_bins, further, options.bootstrap)
    else:
        extent = choose_extent(options, output, first, every_number=every_number)
        evaluation = Evaluation(
            build_calibrators(calibrators), extent.select_bins(options.n_bins),
            metrics=[*map(dict, further)] or None, priors=options.priors,
        )  # fmt: skip
        predictions = read_models(options, lambda file: first if file is source else read(file))
        evaluation, lines = _without_long_fits(evaluation, options, predictions)
        report = _of_models(evaluation, options, predictions, extent)
        report.remarks += lines
    report.further_metrics = [name for name in options.metrics if isinstance(name, str)]
    report.file = str(source) if options.is_single_row else ""
    if output and output.suffix == _PAGE_SUFFIX:
        write_output(output, _page(report, predictions, options))
    elif output:
        write_output(output, _content(report, options, output.suffix))
    return report


def _without_long_fits(
    evaluation: Evaluation, options: EvaluationOptions, models: Mapping[str, dict[str, Predictions]]
) -> tuple[Evaluation, list[str]]:
    """Leave out what takes too long to be fitted, with a line; a ValueError if a user named it."""
    vals = [sets["val"] for sets in models.values() if "val" in sets]
    if not (vals and evaluation.calibrators):
        return evaluation, []
    largest = max(vals, key=lambda val: val.logits.size)
    refuse_named_long_fits(options.calibrators or (), *largest.logits.shape)
    return evaluation.without_long_fits(largest)


def choose_extent(
    options: EvaluationOptions, output: Path | None, test: Predictions, *, every_number: bool
) -> Extent:
    """How much is computed: every number for Python and for files of numbers, a headline for a test set alone."""
    if every_number or (output and output.suffix in _EVERY_NUMBER):
        return Extent("every", verdicts=True)
    has_classes_alone = test.labels is None and test.posterior is None
    is_headline = options.is_single_row and has_classes_alone
    return Extent("headline" if is_headline else "printed", verdicts=True)


def _page(
    report: Report,
    predictions: ConfidencePairs | Mapping[str, dict[str, Predictions]],
    options: EvaluationOptions,
) -> bytes:
    """The page of a report, with the reliability diagram of the raw test set, of an ensemble or of its one model."""
    from calibench.plots.selection import Selection
    from calibench.plots.style import as_page_svg
    from calibench.reports.predictions_page import render_predictions
    from calibench.verbs.plot import draw_predictions
    from calibench.verbs.reliability import reliability

    file = str(options.sets.test[0])
    name = "arrays" if isinstance(options.sets.test[0], Arrays) else plain_path(file).name
    if isinstance(predictions, ConfidencePairs):
        axes = reliability(predictions.confidence, predictions.correct, pairs=True)
        figure = axes.get_figure(root=True)
        assert figure is not None  # of axes that were just made
    else:
        test = next(iter(predictions.values()))["test"]
        selection = Selection(bins=options.n_bins[0])
        figure = draw_predictions("reliability", test, name, selection).figure
    val, count = options.sets.val, len(options.sets.test)
    commands = [f"calibench plot reliability {file} -o reliability.png"]
    if count == len(val) == 1 and not isinstance(val[0], Arrays):
        commands.insert(0, f"calibench doctor {file} --val {val[0]} --export calibrator.pt")
    page = render_predictions(
        report,
        as_page_svg(figure),
        title=name,
        file=file,
        commands=commands if val or count > 1 else None,
    )
    return page.encode()


def _content(report: Report, options: EvaluationOptions, suffix: str) -> bytes:
    """The bytes of a report in the format of a suffix, one of `REPORTS`."""
    names = ("calibrate_members", "priors", "n_bins", "bootstrap")
    arguments = {part.name: getattr(options.sets, part.name) for part in fields(options.sets)}
    arguments |= {name: getattr(options, name) for name in names}
    arguments |= {name: getattr(options.reader, name) for name in ("scores", "clip")}
    content = {"format": FILE_FORMAT, "arguments": arguments, **report.to_dict()}
    texts: dict[str, Callable[[], bytes]] = {
        ".json": lambda: json_bytes(content),
        ".md": lambda: report.markdown().encode(),
        ".csv": lambda: report.csv().encode(),
    }
    return texts[suffix]()


def _of_models(
    evaluation: Evaluation,
    options: EvaluationOptions,
    models: Mapping[str, dict[str, Predictions]],
    extent: Extent,
) -> Report:
    """One report of all models, with intervals and the best."""
    from calibench.evaluation.bootstrap import add_intervals
    from calibench.evaluation.calibrator_fits import check_fittable
    from calibench.evaluation.evaluation import EVALUATION_STAGES

    for sets in models.values() if evaluation.calibrators else ():
        check_fittable(sets["val"])
    reports = {}
    for model, sets in models.items():
        label = model if len(models) > 1 else ""
        names = {name: f"{label} {name}".strip() for name in (*evaluation.list_fits(sets), RAW)}
        with stage_bars(names, EVALUATION_STAGES) as watch:
            reports[model] = evaluation(
                sets, bootstrap=options.bootstrap, jobs=options.jobs, extent=extent, watch=watch,
                after_fits=partial(sets.pop, "val", None),
            ).of_model(label)  # fmt: skip
    first, *others = reports.values()
    for other in others:
        first.numbers += other.numbers
        first.replicates |= other.replicates
        first.calibration |= other.calibration
        first.unavailable |= other.unavailable
        first.remarks = [*dict.fromkeys([*first.remarks, *other.remarks])]
    first.fitted = {model: report.calibrators for model, report in reports.items()}
    k = next(iter(models.values()))["test"].logits.shape[1]
    first.numbers = add_intervals(first.numbers, first.replicates, k)
    return first


def _check_pairs(options: EvaluationOptions, calibrators: Sequence[str | Calibrator]) -> None:
    """Raise a UsageError if an option needs the probabilities of every class."""
    path, *members = options.sets.test
    if calibrators:
        none = spell_argument("calibrators", "none")
        raise UsageError(f"{path}: {NEEDS_ALL} for calibrators: say {none}.")
    names = ("ood", "shift", "posterior")
    further = {spell_bare(name): getattr(options.sets, name) for name in names}
    for option, files in {**further, "an ensemble": members}.items():
        if files:
            raise UsageError(f"{path}: {NEEDS_ALL} for {option}.")


def read_models(
    options: EvaluationOptions, read: Callable[[Source], Predictions]
) -> dict[str, dict[str, Predictions]]:
    """Read the sets of each model by name; several files of a set are the members of an ensemble, which comes first."""
    from calibench.evaluation.ensemble import pool_members
    from calibench.tables.evaluation_report import MODEL

    reader = options.reader
    sets = options.sets.read(read, reader.of_ood, trust_rows=reader.trust_rows)
    members = {
        name: {split: parts[position] for split, parts in sets.items()}
        for position, name in enumerate(short_names(options.sets.test))
    }
    if len(members) == 1:
        return {MODEL: next(iter(members.values()))}
    ensemble = pool_members([*members.values()], options.calibrate_members)
    after = f" after {options.calibrate_members}" if options.calibrate_members else ""
    return {f"ensemble of {len(members)}{after}": ensemble, **members}

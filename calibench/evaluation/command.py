"""Evaluation of files or arrays, once what is asked for is checked: every metric, raw and after each calibrator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

from calibench.calibrators import Calibrator
from calibench.calibrators.names import build_calibrators
from calibench.evaluation.asked import EvaluationOptions
from calibench.evaluation.bootstrap import add_intervals
from calibench.evaluation.calibrator_fits import check_fittable
from calibench.evaluation.ensemble import pool_members
from calibench.evaluation.evaluation import EVALUATION_STAGES, Evaluation, Extent, evaluate_pairs
from calibench.evaluation.extra_metrics import parse_metric_names
from calibench.messages.errors import UsageError
from calibench.messages.progress import stage_bars
from calibench.plugins.registries import load_plugins
from calibench.predictions.confidence_pairs import NEEDS_ALL, ConfidencePairs
from calibench.predictions.files import Source
from calibench.predictions.inputs import short_names
from calibench.runs import FORMAT, Predictions, json_bytes, write_output
from calibench.statistics.number import RAW
from calibench.tables.evaluation_report import MODEL, Report
from calibench.tables.metric_titles import HEADLINE

_EVERY_NUMBER = (".json", ".csv")  # the others hold what is printed: the test sets, the first bins


def evaluated(
    asked: EvaluationOptions,
    chosen: Sequence[str | Calibrator],
    output: Path | None,
    *,
    every: bool,
) -> Report:
    """Evaluate with the chosen calibrators, and write the report; raises a ValueError before anything is computed.

    With `every` there are numbers that no table shows, as in a file of every number.
    """
    load_plugins("metrics", "calibrators")
    every = every or bool(output and output.suffix in _EVERY_NUMBER)
    source, read = asked.sets.test[0], asked.reader
    first = read.read(source)
    further = parse_metric_names(asked.metrics, of_pairs=isinstance(first, ConfidencePairs))
    if isinstance(first, ConfidencePairs):
        _check_pairs(asked, chosen)
        report = evaluate_pairs(first, asked.n_bins, further, asked.bootstrap)
    else:
        evaluation = Evaluation(
            build_calibrators(chosen), [*asked.n_bins][: None if every else 1],
            metrics=[*map(dict, further)] or None, priors=asked.priors,
        )  # fmt: skip
        files = models(asked, lambda one: first if one is source else read(one))
        alone = asked.plain and not every and first.labels is None and first.posterior is None
        extent = Extent(every=every, panel=HEADLINE if alone else None)
        report = _of_models(evaluation, asked, files, extent)
    report.metrics = [name for name in asked.metrics if isinstance(name, str)]
    report.file = str(source) if asked.plain else ""
    if output:
        write_output(output, _content(report, asked, output.suffix))
    return report


def _content(report: Report, asked: EvaluationOptions, suffix: str) -> bytes:
    """A report in one of `calibench.verbs.evaluate.REPORTS`."""
    names = ("calibrate_members", "priors", "n_bins", "bootstrap")
    arguments = {of.name: getattr(asked.sets, of.name) for of in fields(asked.sets)}
    arguments |= {name: getattr(asked, name) for name in names}
    arguments |= {name: getattr(asked.reader, name) for name in ("scores", "clip")}
    content = {"format": FORMAT, "arguments": arguments, **report.to_dict()}
    texts: dict[str, Callable[[], bytes]] = {
        ".json": lambda: json_bytes(content),
        ".md": lambda: report.markdown().encode(),
        ".csv": lambda: report.csv().encode(),
    }
    return texts[suffix]()


def _of_models(
    evaluation: Evaluation,
    asked: EvaluationOptions,
    models: Mapping[str, dict[str, Predictions]],
    extent: Extent,
) -> Report:
    """One report of all models, with intervals and the best."""
    for sets in models.values() if evaluation.calibrators else ():
        check_fittable(sets["val"])
    reports = {}
    for model, sets in models.items():
        of = model if len(models) > 1 else ""
        names = {name: f"{of} {name}".strip() for name in (*evaluation.list_fits(sets), RAW)}
        with stage_bars(names, EVALUATION_STAGES) as watch:
            reports[model] = evaluation(
                sets, bootstrap=asked.bootstrap, jobs=asked.jobs, extent=extent, watch=watch,
                after_fits=partial(sets.pop, "val", None),
            ).of_model(of)  # fmt: skip
    first, *others = reports.values()
    for other in others:
        first.numbers += other.numbers
        first.replicates |= other.replicates
        first.unavailable |= other.unavailable
        first.remarks = [*dict.fromkeys([*first.remarks, *other.remarks])]
    first.fitted = {model: report.calibrators for model, report in reports.items()}
    k = next(iter(models.values()))["test"].logits.shape[1]
    first.numbers = add_intervals(first.numbers, first.replicates, k)
    return first


def _check_pairs(asked: EvaluationOptions, chosen: Sequence[str | Calibrator]) -> None:
    """Raise a UsageError if something is asked for that needs the probabilities of every class."""
    path, *more = asked.sets.test
    if chosen:
        raise UsageError(f"{path}: {NEEDS_ALL} for calibrators: say `--calibrators none`.")
    further = {f"--{name}": getattr(asked.sets, name) for name in ("ood", "shift", "posterior")}
    for option, files in {**further, "an ensemble": more}.items():
        if files:
            raise UsageError(f"{path}: {NEEDS_ALL} for {option}.")


def models(
    asked: EvaluationOptions, read: Callable[[Source], Predictions]
) -> dict[str, dict[str, Predictions]]:
    """Read the sets of each model by name; several files of a set are the members of an ensemble, which comes first."""
    sets = asked.sets.read(read)
    members = {
        name: {which: parts[position] for which, parts in sets.items()}
        for position, name in enumerate(short_names(asked.sets.test))
    }
    if len(members) == 1:
        return {MODEL: next(iter(members.values()))}
    ensemble = pool_members([*members.values()], asked.calibrate_members)
    after = f" after {asked.calibrate_members}" if asked.calibrate_members else ""
    return {f"ensemble of {len(members)}{after}": ensemble, **members}

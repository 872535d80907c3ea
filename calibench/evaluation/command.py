"""`calibench evaluate`, once its options are checked: every metric of saved logits, raw and after each calibrator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from calibench.calibrators import Calibrator
from calibench.evaluation.asked import EvaluationOptions
from calibench.evaluation.bootstrap import summarised
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.ensemble import deep_ensemble
from calibench.evaluation.evaluation import STAGES, Evaluation, evaluate_pairs
from calibench.evaluation.fitting import check_fittable, fit_calibrator
from calibench.evaluation.further_metrics import MetricBlock, blocks_named
from calibench.ground.arrays import Floats
from calibench.ground.bar import stage_bars
from calibench.ground.console import Terminal
from calibench.ground.errors import UsageError
from calibench.ground.family import load_plugins
from calibench.ground.output import say
from calibench.ground.wrapping import wrapped
from calibench.predictions.pairs import NEEDS_ALL, ConfidencePairs
from calibench.predictions.sets import short_names
from calibench.runs import FORMAT, Predictions, json_bytes, write_output
from calibench.statistics.number import RAW, Key, Number
from calibench.tables.block import block
from calibench.tables.shown import EvaluatedFiles
from calibench.tables.terminal import show

_EVERY_NUMBER = (".json", ".csv")  # the others hold what is printed: the test sets, the first bins


def evaluate_files(asked: EvaluationOptions, output: Path | None, *, alone: bool = False) -> None:
    """Evaluate, print the tables, or a block if a test set stands alone, and write the report.

    Raises:
        ValueError: For a mistake in the arguments or files, before anything is computed.
    """
    load_plugins("metrics", "calibrators")
    every_number = bool(output and output.suffix in _EVERY_NUMBER)
    first_file, read = asked.sets.test[0], asked.reader
    first = read.read(first_file)
    further = blocks_named(asked.metrics, of_pairs=isinstance(first, ConfidencePairs))
    if isinstance(first, ConfidencePairs):
        result = _of_pairs(first, asked, further)
    else:
        chosen = [calibrator_named(name) for name in asked.calibrators or ()]
        n_bins = [*asked.n_bins] if every_number else [asked.n_bins[0]]
        evaluation = Evaluation(
            chosen, n_bins, metrics=[*map(dict, further)] or None, priors=asked.priors
        )
        files = models(asked, lambda path: first if path == first_file else read(path))
        result = _evaluated(evaluation, asked, files, score_val=every_number)
    console = Terminal()
    if alone and len(result.sheets) == 1:
        below = [*block(result.numbers, first_file, result.labels["test"]), *result.remarks]
    else:
        for sheet in result.sheets:
            show(sheet, console)
        below = [result.footer, *result.lacking, *result.remarks, *result.verdicts]
    for line in below:
        say(*(wrapped(line).splitlines() or [""]))
    if output:
        write_output(output, _report(result, asked, output.suffix))
        console.print(f"{output} is written.", soft_wrap=True)


def _report(result: EvaluatedFiles, asked: EvaluationOptions, suffix: str) -> bytes:
    """A report in one of `calibench.evaluation.options.REPORTS`."""
    names = ("calibrate_members", "priors", "n_bins", "bootstrap")
    arguments = {
        **asdict(asked.sets),
        **{name: getattr(asked, name) for name in names},
        "scores": asked.reader.scores,
        "clip": asked.reader.clip,
    }
    content = {"format": FORMAT, "arguments": arguments, **result.to_dict()}
    texts: dict[str, Callable[[], bytes]] = {
        ".json": lambda: json_bytes(content),
        ".md": lambda: result.markdown().encode(),
        ".csv": lambda: result.csv().encode(),
    }
    return texts[suffix]()


def _evaluated(
    evaluation: Evaluation,
    asked: EvaluationOptions,
    models: Mapping[str, Mapping[str, Predictions]],
    *,
    score_val: bool,
) -> EvaluatedFiles:
    for sets in models.values() if evaluation.calibrators else ():
        check_fittable(sets["val"])
    numbers: list[Number] = []
    replicates: dict[Key, Floats] = {}
    fitted: dict[str, Mapping[str, object]] = {}
    lacking: dict[str, str] = {}
    remarks: dict[str, None] = {}
    for model, sets in models.items():
        of = model if len(models) > 1 else ""
        names = {name: f"{of} {name}".strip() for name in (*evaluation.fittings(sets), RAW)}
        with stage_bars(names, STAGES) as watch:
            report = evaluation(
                sets, bootstrap=asked.bootstrap, jobs=asked.jobs, score_val=score_val, watch=watch
            )
        numbers += [number.at(model=model) for number in report.numbers]
        replicates |= {key._replace(model=model): of for key, of in report.replicates.items()}
        fitted[model] = report.calibrators
        lacking |= report.unavailable
        remarks |= dict.fromkeys(report.remarks)
    first = next(iter(models.values()))
    sizes = {name: part.examples for name, part in first.items()}
    labels = {name: len(part.target) for name, part in first.items()}
    posterior = str(first["test"].metadata.get("posterior", ""))
    found = summarised(numbers, replicates, first["test"].logits.shape[1])
    how = asked.metrics, asked.n_bins, asked.priors, asked.bootstrap
    return EvaluatedFiles(found, *how, sizes, labels, lacking, posterior, fitted, [*remarks])


def _of_pairs(
    pairs: ConfidencePairs, asked: EvaluationOptions, metrics: Sequence[MetricBlock]
) -> EvaluatedFiles:
    """The result of a test set of pairs.

    Raises:
        UsageError: If something is asked for that needs the probabilities of every class.
    """
    path, *more = asked.sets.test
    if asked.calibrators:
        raise UsageError(f"`--test {path}`: {NEEDS_ALL} to calibrate: say `--calibrators none`.")
    further = {f"--{name}": getattr(asked.sets, name) for name in ("ood", "shift", "posterior")}
    for option, files in {**further, "an ensemble": more}.items():
        if files:
            raise UsageError(f"`--test {path}`: {NEEDS_ALL} for {option}.")
    report = evaluate_pairs(pairs, n_bins=asked.n_bins, metrics=metrics, bootstrap=asked.bootstrap)
    numbers = [number.at(model="model") for number in report.numbers]
    sizes = {"test": len(pairs)}
    how = asked.metrics, asked.n_bins, asked.priors, asked.bootstrap
    return EvaluatedFiles(numbers, *how, sizes, sizes, report.unavailable)


def models(
    asked: EvaluationOptions, read: Callable[[str], Predictions]
) -> dict[str, dict[str, Predictions]]:
    """Read the sets of each model, by name; several files for a set are the members of an ensemble, which comes first.

    Raises:
        ValueError: If the files do not belong together.
    """
    sets = asked.sets.read(read)
    members = {
        name: {which: parts[position] for which, parts in sets.items()}
        for position, name in enumerate(short_names(asked.sets.test))
    }
    if len(members) == 1:
        return {"model": next(iter(members.values()))}
    fitted = _fitted_on_members(asked.calibrate_members, sets.get("val", ()))
    ensemble = {which: deep_ensemble(parts, calibrators=fitted) for which, parts in sets.items()}
    after = f" after {asked.calibrate_members}" if fitted else ""
    return {f"ensemble of {len(members)}{after}": ensemble, **members}


def _fitted_on_members(name: str | None, val: Sequence[Predictions]) -> list[Calibrator] | None:
    """A calibrator for each member, fitted on its own validation predictions; None if the members stay as they are."""
    if name is None:
        return None
    for part in val:
        check_fittable(part)
    return [fit_calibrator(calibrator_named(name), part) for part in val]

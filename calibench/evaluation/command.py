"""`calibench evaluate`, once its options are checked: every metric of saved logits, raw and after each calibrator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from calibench.calibrators import Calibrator
from calibench.evaluation.asked import Asked
from calibench.evaluation.bootstrap import Floats, summarised
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.ensemble import deep_ensemble
from calibench.evaluation.evaluation import Evaluation, Watch, evaluate_pairs
from calibench.evaluation.fitting import check_fittable, fit_calibrator
from calibench.evaluation.further_metrics import blocks_named
from calibench.ground.console import Terminal
from calibench.ground.errors import UsageError
from calibench.ground.family import load_plugins
from calibench.ground.output import FileRow, say
from calibench.ground.wrapping import wrapped
from calibench.predictions.files import check_together, labelled_as, short_names, with_posterior
from calibench.predictions.pairs import NEEDS_ALL, ConfidencePairs
from calibench.runs import FORMAT, Predictions, json_bytes, write_output
from calibench.runs.files import Json
from calibench.statistics.number import RAW, Key, Number
from calibench.tables.block import block
from calibench.tables.evaluation import CSV_COLUMNS, sheets
from calibench.tables.grid import Grid
from calibench.tables.scores import sentences
from calibench.tables.terminal import show
from calibench.tables.text import csv_text, markdown


@dataclass(frozen=True)
class Result:
    """The result of an evaluation: what was evaluated, and every number."""

    asked: Asked
    sizes: Mapping[str, int]
    labels: Mapping[str, int]
    posterior: str
    fitted: Mapping[str, Any]
    numbers: Sequence[Number]
    unavailable: Mapping[str, str]
    remarks: Sequence[str] = ()

    @property
    def rows(self) -> list[FileRow]:
        """The numbers as rows of a file, with their model even where there is only one."""
        return [{"model": number.key.model, **number.to_dict()} for number in self.numbers]

    @property
    def sheets(self) -> list[Grid]:
        """The tables."""
        return sheets(self.numbers, self.asked.metrics)

    def markdown(self) -> str:
        """The tables and the footer as Markdown."""
        verdicts = "".join(f"- {sentence}\n" for sentence in self.verdicts)
        below = [self.footer, *self.lacking, *self.remarks]
        return "\n".join([*map(markdown, self.sheets), *below, "", verdicts])

    @property
    def lacking(self) -> list[str]:
        """A line for each reason why numbers are missing."""
        reasons = dict.fromkeys(self.unavailable.values())
        named = {why: [of for of, its in self.unavailable.items() if its == why] for why in reasons}
        return [f"{', '.join(names)}: {why}." for why, names in named.items()]

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each row of each table: whether it can be told from calibrated."""
        return sentences(self.numbers, self.labels)

    @property
    def footer(self) -> str:
        """The line under the tables: sets, bins and intervals."""
        sets = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        known = ", ".join(f"{name} {size}" for name, size in self.labels.items())
        sets += f"; known labels: {known}" if self.labels != self.sizes else ""
        fitted = "; calibrators fitted on val" if any(self.fitted.values()) else ""
        posterior = f"; posterior: {self.posterior}" if self.posterior else ""
        interval = (
            f"; 95 % intervals of the expected plug-in value at this number of examples, from {self.asked.bootstrap} "
            "resamples of them (of a calibration error not the population's: see its floor; DebiasedCalibrationError)"
        )
        return (
            f"Examples: {sets}{fitted}; binned errors with {self.asked.n_bins[0]} bins"
            f"{interval if self.asked.bootstrap else ''}{posterior}{self._priors}."
        )

    @property
    def _priors(self) -> str:
        said = {
            None: "",
            "estimated": "; class frequencies of the test data estimated from its logits",
            "oracle": "; ORACLE: class frequencies counted from the test labels, which nobody knows",
        }
        priors = self.asked.priors
        shown = f"; class frequencies of the test data: {priors}"
        return shown if isinstance(priors, list) else said.get(priors, shown)

    def content(self) -> Json:
        """Arguments, numbers and fitted parameters, for JSON."""
        return {
            "format": FORMAT,
            "arguments": {
                **asdict(self.asked.sets),
                **{name: getattr(self.asked, name) for name in _REPORTED},
                "scores": self.asked.reader.scores,
                "clip": self.asked.reader.clip,
            },
            "examples": dict(self.sizes),
            "posterior": self.posterior,
            "calibrators": dict(self.fitted),
            "unavailable": dict(self.unavailable),
            "remarks": list(self.remarks),
            "rows": self.rows,
            "verdicts": self.verdicts,
        }


_REPORTED = ("calibrate_members", "priors", "n_bins", "bootstrap")

# The kinds of `calibench.evaluation.options.REPORTS`.
_WRITERS: dict[str, Callable[[Result], bytes]] = {
    ".json": lambda result: json_bytes(result.content()),
    ".md": lambda result: result.markdown().encode(),
    ".csv": lambda result: csv_text(CSV_COLUMNS, result.rows).encode(),
}
_EVERY_NUMBER = (".json", ".csv")  # the others hold what is printed: the test sets, the first bins


def evaluate_files(asked: Asked, output: Path | None, *, alone: bool = False) -> None:
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
        evaluation = Evaluation(chosen, n_bins, metrics=[*further] or None, priors=asked.priors)
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
        write_output(output, _WRITERS[output.suffix](result))
        console.print(f"{output} is written.", soft_wrap=True)


def _evaluated(
    evaluation: Evaluation,
    asked: Asked,
    models: Mapping[str, Mapping[str, Predictions]],
    *,
    score_val: bool,
) -> Result:
    for sets in models.values() if evaluation.calibrators else ():
        check_fittable(sets["val"])
    numbers: list[Number] = []
    replicates: dict[Key, Floats] = {}
    fitted: dict[str, Any] = {}
    lacking: dict[str, str] = {}
    remarks: dict[str, None] = {}
    for model, sets in models.items():
        with _bars(model if len(models) > 1 else "", [*evaluation.fittings(sets), RAW]) as watch:
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
    return Result(asked, sizes, labels, posterior, fitted, found, lacking, [*remarks])


def _of_pairs(pairs: ConfidencePairs, asked: Asked, metrics: Sequence[dict[str, Any]]) -> Result:
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
    return Result(asked, sizes, sizes, "", {}, numbers, report.unavailable)


_STAGES = ("fit", "score", "resample", "done")


@contextmanager
def _bars(model: str, names: Sequence[str]) -> Iterator[Watch]:
    """A progress bar for each calibrator on stderr; none if stderr is no terminal."""
    console = Terminal(stderr=True)
    title = TextColumn("{task.description}", markup=False)
    columns = (title, BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    last = len(_STAGES) - 1
    tasks = {
        name: bars.add_task(f"{model} {name}".strip(), start=False, total=last, stage="")
        for name in names
    }

    def watch(name: str, stage: str) -> None:
        bars.start_task(tasks[name])
        bars.update(tasks[name], completed=_STAGES.index(stage), stage=stage)

    with bars:
        yield watch


def models(asked: Asked, read: Callable[[str], Predictions]) -> dict[str, dict[str, Predictions]]:
    """Read the sets of each model, by name; several files for a set are the members of an ensemble, which comes first.

    Raises:
        ValueError: If the files do not belong together.
    """
    own: dict[str, tuple[str, Sequence[str]]] = {
        "val": ("val", asked.sets.val),
        "test": ("test", asked.sets.test),
    }
    sets = {
        name: [labelled_as(read(path), name, kind, path) for path in paths]
        for name, (kind, paths) in (own | asked.sets.further).items()
        if paths
    }
    check_together(sets)
    if asked.sets.posterior:
        sets["test"] = [with_posterior(part, asked.sets.posterior) for part in sets["test"]]
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

"""Our numbers for the settings of a paper's table: the same bins, metric variant and post-hoc method."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibench.configuration.files import list_configuration_files
from calibench.configuration.merging import short_name
from calibench.ranking.columns import COSTS
from calibench.ranking.records import version_counts
from calibench.runs import (
    Run,
    evaluated_calibrators,
    read_json,
)
from calibench.statistics import mean_std
from calibench.statistics.number import Key, Number
from calibench.store import results_folder
from calibench.sweeps.plan import find_runs
from calibench.sweeps.suite_files import load_suite
from calibench.sweeps.suites import Setting, Suite
from calibench.tables.metric_titles import METRICS, Title, metric_info
from calibench.tables.published import (
    PAPERS,
    PUBLISHED_STAGES,
    Published,
    load_published,
    model_names,
)

SCORE = "entropy"  # of the out-of-distribution tables
_AGAIN = "sweep the suite again, nothing is trained anew"
Contents = Sequence[Mapping[str, Any]]
"""What metrics.json says of runs, each with its costs."""
_BY_STAGE = {stage: calibrator for calibrator, stage in PUBLISHED_STAGES.items()}


@dataclass
class Measurement:
    """Our runs for a published number.

    Attributes:
        planned: Seeds that the suite names.
        values: The metric of each finished seed.
        temperatures: The fitted temperature of each, where the calibrator has one.
        differs: How the suite's protocol differs from the paper's here, and what the runs say of their data.
        machines: The machines that the runs were made on.
        missing: Why there is no value, empty if there is one.
    """

    planned: int = 0
    values: list[float] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    missing: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean over seeds (Student's t); None with fewer than two."""
        n = len(self.values)
        if n < 2:
            return None
        from scipy.special import stdtrit

        mean, std = mean_std(self.values)
        half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n)
        return mean - half, mean + half


@dataclass(frozen=True)
class Line:
    """One published number and ours."""

    number: Published
    ours: Measurement
    reading: str = ""  # what the metric is taken for, where the paper does not say what it means

    @property
    def info(self) -> Title:
        """How the metric is printed."""
        return metric_info(self.reading or self.number.measure)

    @property
    def difference(self) -> float:
        """Ours minus the paper's; NaN without ours."""
        return mean_std(self.ours.values)[0] - self.number.value

    @property
    def inside(self) -> bool | None:
        """Whether the paper's value lies in our interval; None without one, or if theirs may be of something else."""
        if self.ours.interval is None or self.reading:
            return None
        low, high = self.ours.interval
        return low <= self.number.value <= high


def machine(environment: Mapping[str, Any]) -> str:
    """The machine in a run's environment.json: `NVIDIA A100`, `2 x NVIDIA A100`, `AMD EPYC 7R13, 4 threads`."""
    device, processes = environment.get("device") or "unknown machine", environment.get("processes")
    if device == "cpu":
        name = environment.get("processor") or f"cpu of {environment.get('platform', 'unknown')}"
        device = f"{name}, threads: {environment.get('threads', 'unknown')}"
    is_parallel = isinstance(processes, int) and processes > 1
    return f"{processes} x {device}" if is_parallel else str(device)


def timed_on(environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line that names the machines of our runs; several make their seconds incomparable."""
    counts = Counter(map(machine, environments))
    if counts:
        named = "; ".join(f"{name} ({count} runs)" for name, count in counts.most_common())
        warning = " - seconds of several machines do not compare" if len(counts) > 1 else ""
        yield f"ours timed on: {named}{warning}"


def in_multiples(lines: Sequence[Line]) -> Iterator[str]:
    """One line for each network: the seconds of each loss over those of cross-entropy, the paper's and ours."""
    for model in dict.fromkeys(line.number.model for line in lines):
        lines_by_loss = {line.number.loss: line for line in lines if line.number.model == model}
        if base := lines_by_loss.pop("cross_entropy", None):
            parts = [f"{loss} {_multiples(line, base)}" for loss, line in lines_by_loss.items()]
            yield f"{model}, multiples of cross-entropy's seconds (paper, ours): {'; '.join(parts)}"


def _multiples(line: Line, base: Line) -> str:
    ratio = mean_std(line.ours.values)[0] / mean_std(base.ours.values)[0]
    text = "-" if math.isnan(ratio) else f"{ratio:.2f}"
    return f"{line.number.value / base.number.value:.2f}, {text}"


@dataclass(frozen=True)
class Reproduction:
    """A paper's table, every number in its order with ours, and the name of its suite, if there is one.

    The remarks are what the suite says of itself, and several versions that made our runs.
    """

    paper: str
    table: str
    suite: str | None
    lines: Sequence[Line]
    remarks: Sequence[str] = ()


def reproduction(paper: str, table: str, results: Path | str) -> Reproduction:
    """Every number of a table with ours, from the runs of its suite below `results`, or in a store.

    Without such a folder there are the paper's numbers alone.

    Raises:
        ValueError: If there is no such paper or table.
    """
    folder = folder_of(results)
    numbers = load_published(paper, table=table)
    table = numbers[0].table
    name = suite_of(paper, table)
    suite = load_suite(name) if name else Suite([])
    settings = suite.settings()
    # Results of the settings of which the table has numbers, and why another run does not count.
    contents_by_place: dict[int, tuple[Contents, str]] = {}

    def ours(number: Published, metric: str) -> Measurement:
        dataset, _, outside = number.dataset.partition("->")
        for place, setting in enumerate(settings):
            models = (setting.model, *model_names(setting.backbone))
            same = (setting.dataset, setting.loss) == (dataset, number.loss)
            if same and number.model in models:
                if place not in contents_by_place:
                    contents_by_place[place] = _usable(setting, folder)
                contents, why_none = contents_by_place[place]
                split = setting.sets.get(outside, outside) or "test"
                measured = _measured(number, metric, setting, contents, split)
                differs = suite.differences(dataset, outside, setting.model, setting.loss)
                measured.differs = list(dict.fromkeys([*differs, *measured.differs]))
                if not contents:
                    measured.missing = suite.absent(dataset) or why_none
                return measured
        return Measurement(
            missing=suite.absent(number.loss) or suite.absent(dataset) or "in no suite"
        )

    lines = [
        Line(n, ours(n, metric), metric if len(n.readings) > 1 else "")
        for n in numbers
        for metric in n.readings
    ]
    environments = [
        content["environment"] for contents, _ in contents_by_place.values() for content in contents
    ]
    remarks = [*filter(None, [suite.note]), *version_counts(environments)]
    if any(number.measure in COSTS for number in numbers):
        remarks += [*timed_on(environments), *in_multiples(lines)]
    return Reproduction(paper, table, name, lines, remarks)


def folder_of(results: Path | str) -> Path:
    """The folder of results, which need not be there."""
    try:
        return results_folder(results)
    except FileNotFoundError:
        return Path(results)


def suite_of(paper: str, table: str) -> str | None:
    """The suite of a table, if there is one: `suites/gce_table3`, `suites/fcl_ood`."""
    table = PAPERS[paper].table(table)
    names = (f"suites/{paper}_table{table}", f"suites/{paper}_{table}")
    return next((name for name in names if name in list_configuration_files()), None)


def _usable(setting: Setting, results: Path) -> tuple[Contents, str]:
    """The results of a setting's finished runs, and why another run does not count."""
    jobs = [setting.job(seed) for seed in setting.seeds]
    run_contents = [_finished(run) for run in find_runs(jobs, results).values()]
    reasons = [_why_unusable(content, setting) for content in run_contents]
    usable = [content for content, reason in zip(run_contents, reasons, strict=True) if not reason]
    return usable, next(filter(None, reasons), "no run")


def _finished(run: Run) -> Mapping[str, Any]:
    """The metrics of a finished run, with its costs under `environment`; empty for an unfinished one."""
    if not run.done:
        return {}
    content = read_json(run.folder / "metrics.json")
    costs = run.folder / "environment.json"
    return {**content, "environment": read_json(costs) if costs.is_file() else {}}


def _why_unusable(content: Mapping[str, Any], setting: Setting) -> str:
    if not content:
        return "no run"
    if content.get("fast_dev_run"):
        return "a trial (fast_dev_run)"
    evaluated = evaluated_calibrators(content).values()
    for block in setting.calibrators:
        if not any(_same_calibrator(block, evaluated_block) for evaluated_block in evaluated):
            return f"evaluated with other calibrators: {_AGAIN}"
    return ""


def _same_calibrator(block: Mapping[str, Any], evaluated: Mapping[str, Any]) -> bool:
    """Whether a resolved block is the one a suite asks for; what the suite leaves open has its default."""
    if short_name(block["class_path"]) != short_name(evaluated["class_path"]):
        return False
    arguments, block_arguments = (
        init_block.get("init_args") or {} for init_block in (evaluated, block)
    )
    if any(arguments.get(key) != value for key, value in block_arguments.items()):
        return False
    left_open = {key: value for key, value in arguments.items() if key not in block_arguments}
    return not left_open or left_open.items() <= _default_arguments(block["class_path"]).items()


def _default_arguments(class_path: str) -> Mapping[str, Any]:
    from calibench.evaluation.serialization import fill_defaults  # imported here, as it needs torch

    (block,) = fill_defaults({"calibrators": [class_path]})["calibrators"]
    arguments: Mapping[str, Any] = block.get("init_args") or {}
    return arguments


def _measured(
    number: Published, measure: str, setting: Setting, contents: Contents, split: str
) -> Measurement:
    measurement, metric = Measurement(len(setting.seeds)), as_coded(measure)
    for content in contents:
        calibrator = _calibrator(number, setting, content)
        value = _value(number, content, metric, split, calibrator)
        if value is not None:
            measurement.values.append(value)
            measurement.machines.append(machine(content["environment"]))
        temperature = content["calibrators"].get(calibrator, {}).get("temperature")
        measurement.temperatures += [temperature] if isinstance(temperature, int | float) else []
        measurement.differs += content.get("caveats") or ()
    measurement.machines = list(dict.fromkeys(measurement.machines))
    if not measurement.values:
        variant = f" as the papers' code computes it: {_AGAIN}" if metric != measure else ""
        measurement.missing = f"no {measure} of {split}{variant}"
    return measurement


def as_coded(metric: str) -> str:
    """Our name of a metric as the papers' code computes it, which all three have from Mukhoti et al. (2020)."""
    return f"{metric}_reference" if f"{metric}_reference" in METRICS else metric


def _calibrator(number: Published, setting: Setting, content: Mapping[str, Any]) -> str:
    """Name in a run of the paper's post-hoc method; of several of a class, the one that the suite asks for."""
    name = _BY_STAGE.get(number.stage, "")
    blocks = [block for block in setting.calibrators if short_name(block["class_path"]) == name]
    if number.calibrator_bins:
        others = blocks[0].get("init_args") or {} if blocks else {}
        arguments = {**others, "n_bins": number.calibrator_bins}
        blocks = [{"class_path": name, "init_args": arguments}]
    evaluated = evaluated_calibrators(content).items() if blocks else ()
    return next(
        (
            evaluated_name
            for evaluated_name, evaluated_block in evaluated
            if _same_calibrator(blocks[0], evaluated_block)
        ),
        name,
    )


def _value(
    number: Published, content: Mapping[str, Any], metric: str, split: str, calibrator: str
) -> float | None:
    if metric in COSTS:
        cost = content["environment"].get(metric)
        return cost if isinstance(cost, int | float) else None
    measured, _, label = metric.partition(":")  # `auroc:Pleural Thickening`
    if label == "Average":
        measured, label = f"macro_{measured}", ""
    wanted_key = Key(measured, split, calibrator, label=label.replace(" ", "_") or None)
    for row_number in map(Number.from_row, content["rows"]):
        same = row_number.key._replace(n_bins=None, score=None) == wanted_key
        of_bins = row_number.key.n_bins in (None, number.bins) and row_number.key.score in (
            None,
            SCORE,
        )
        if same and of_bins:
            return None if math.isnan(row_number.value) else row_number.value
    return None

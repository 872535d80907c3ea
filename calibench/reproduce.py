"""`calibench reproduce`: a paper's table in its layout, our numbers of the same cells under the paper's."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from calibench.cells import runs_of
from calibench.config import available, short_name
from calibench.leaderboard.columns import metric_info
from calibench.published import PAPERS, Published, load, model_names
from calibench.published.names import STAGES
from calibench.runs import Run, read_json
from calibench.statistics import mean_std
from calibench.suites import Setting, load_suite
from calibench.titles import Metric

SCORE = "entropy"  # of the out-of-distribution tables
_ATS_BINS = "ats_bins="
_BY_STAGE = {stage: calibrator for calibrator, stage in STAGES.items()}


@dataclass
class Ours:
    """Our runs of a published cell.

    Attributes:
        planned: Seeds that the suite names.
        values: The metric of each finished seed.
        temperatures: The fitted temperature of each, where the calibrator has one.
        missing: Why there is no value, empty if there is one.
    """

    planned: int = 0
    values: list[float] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
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
    ours: Ours

    @property
    def info(self) -> Metric:
        """How the metric is printed."""
        return metric_info(self.number.metric)

    @property
    def difference(self) -> float:
        """Ours minus the paper's; NaN without ours."""
        return mean_std(self.ours.values)[0] - self.number.value

    @property
    def inside(self) -> bool | None:
        """Whether the paper's value lies in our interval; None if we have no interval."""
        interval = self.ours.interval
        return None if interval is None else interval[0] <= self.number.value <= interval[1]

    def text(self) -> str:
        """The cell: the paper's value, ours, and their difference, one under the other."""
        number, ours = self.number, self.ours
        lines = [self._value(number.value, number.std, number.temperature)]
        if not ours.values:
            return "\n".join([*lines, "-"])
        count = len(ours.values)
        mean, std = mean_std(ours.values)
        temperature = mean_std(ours.temperatures)[0] if ours.temperatures else None
        seeds = "" if count == ours.planned else f" [{count}/{ours.planned}]"
        lines.append(self._value(mean, std if count > 1 else None, temperature) + seeds)
        verdict = {True: " in", False: " out", None: ""}[self.inside]
        lines.append(f"{self.difference * self._unit:+.{self.info.decimals}f}{verdict}")
        return "\n".join(lines)

    @property
    def _unit(self) -> int:
        return 100 if self.info.percent else 1

    def _value(self, mean: float, std: float | None, temperature: float | None) -> str:
        decimals = self.info.decimals
        spread = "" if std is None else f"±{std * self._unit:.{decimals}f}"
        fitted = "" if temperature is None else f" ({temperature:.2f})"
        return f"{mean * self._unit:.{decimals}f}{spread}{fitted}"


def reproduction(paper: str, table: str, results: Path) -> list[Line]:
    """Every number of a table with ours, from the runs of its suite below `results`.

    Raises:
        ValueError: If there is no such paper or table.
    """
    numbers = load(paper, table=table)
    name = suite_of(paper, table)
    settings = load_suite(name).settings() if name else []
    found: dict[int, _Runs] = {}

    def runs(setting: Setting) -> _Runs:
        if id(setting) not in found:
            found[id(setting)] = _Runs.of(setting, results)
        return found[id(setting)]

    return [Line(number, _ours(number, settings, runs)) for number in numbers]


def suite_of(paper: str, table: str) -> str | None:
    """The suite of a table, if there is one: `suites/gce_table3`, `suites/fcl_ood`."""
    names = (f"suites/{paper}_table{table}", f"suites/{paper}_{table}")
    return next((name for name in names if name in available()), None)


@dataclass(frozen=True)
class _Runs:
    """What the finished runs of a setting have written, and why others do not count."""

    setting: Setting
    contents: Sequence[Mapping[str, Any]]
    reasons: Sequence[str]

    @classmethod
    def of(cls, setting: Setting, results: Path) -> _Runs:
        contents, reasons = [], []
        jobs = [setting.job(seed) for seed in setting.seeds]
        for run in runs_of(jobs, results).values():
            content = _finished(run)
            reason = _why_unusable(content, setting)
            contents += [] if reason else [content]
            reasons += [reason] if reason else []
        return cls(setting, contents, reasons or ["no run"])


def _finished(run: Run) -> Mapping[str, Any]:
    content: Mapping[str, Any] = read_json(run.folder / "metrics.json") if run.done else {}
    return content


def _why_unusable(content: Mapping[str, Any], setting: Setting) -> str:
    if not content:
        return "no run"
    if content.get("fast_dev_run"):
        return "a trial (fast_dev_run)"
    evaluated = (content.get("evaluation") or {}).get("calibrators") or []
    if not all(any(_is(block, done) for done in evaluated) for block in setting.calibrators):
        return "evaluated with other calibrators: sweep the suite again, nothing is trained anew"
    return ""


def _is(block: Mapping[str, Any], done: Mapping[str, Any]) -> bool:
    """Whether a resolved block is the one a suite asks for."""
    same_class = short_name(block["class_path"]) == short_name(done["class_path"])
    arguments = done.get("init_args") or {}
    asked = (block.get("init_args") or {}).items()
    return same_class and all(arguments.get(key) == value for key, value in asked)


def _ours(number: Published, settings: Sequence[Setting], runs: Callable[[Setting], _Runs]) -> Ours:
    dataset, _, outside = number.dataset.partition("->")
    for setting in settings:
        names = (setting.dataset, setting.loss)
        if names == (dataset, number.loss) and number.model in model_names(setting.backbone):
            return _measured(number, runs(setting), setting.sets.get(outside, outside) or "test")
    return Ours(missing="in no suite")


def _measured(number: Published, runs: _Runs, split: str) -> Ours:
    ours = Ours(len(runs.setting.seeds))
    for content in runs.contents:
        calibrator = _calibrator(number, runs.setting, content)
        value = _value(number, content, split, calibrator)
        if value is not None:
            ours.values.append(value)
        temperature = content["calibrators"].get(calibrator, {}).get("temperature")
        ours.temperatures += [temperature] if isinstance(temperature, int | float) else []
    if not ours.values:
        lacks = f"no {number.metric} of {split}" if runs.contents else runs.reasons[0]
        ours.missing = lacks
    return ours


def _calibrator(number: Published, setting: Setting, content: Mapping[str, Any]) -> str:
    """Our name of the stage; where a run has several calibrators of the class, the one with the paper's bins."""
    name = _BY_STAGE.get(number.stage, "")
    blocks = [block for block in setting.calibrators if short_name(block["class_path"]) == name]
    arguments = (blocks[0].get("init_args") or {}) if blocks else {}
    if number.note.startswith(_ATS_BINS):
        arguments = {"n_bins": number.note.removeprefix(_ATS_BINS).partition(";")[0]}
    spelled = [f"{name}({key}={value})" for key, value in arguments.items()]
    return next((other for other in spelled if other in content["calibrators"]), name)


def _value(
    number: Published, content: Mapping[str, Any], split: str, calibrator: str
) -> float | None:
    n_bins = number.n_bins or PAPERS[number.paper].n_bins
    metrics = (number.metric, f"{number.metric}_{n_bins}")
    for row in content["rows"]:
        if (
            (row["split"], row["calibrator"]) == (split, calibrator)
            and row["metric"] in metrics
            and row.get("n_bins") in (None, n_bins)
            and row.get("score") in (None, SCORE)
        ):
            return None if row["value"] is None else float(row["value"])
    return None


# --- what is printed ---


def tables(lines: Sequence[Line]) -> Iterator[Table]:
    """One table a metric: data sets and networks down, losses across, raw before calibrated, as in the papers."""
    for metric in dict.fromkeys(line.number.metric for line in lines):
        own = [line for line in lines if line.number.metric == metric]
        info = own[0].info
        title = f"{info.title}{' %' if info.percent else ''}{_bins(own[0].number)}"
        table = Table(title=title, box=box.SIMPLE_HEAD, show_lines=True, title_justify="left")
        table.add_column("", no_wrap=True)
        columns = list(dict.fromkeys((n.loss, n.stage) for n in (line.number for line in own)))
        for loss, stage in columns:
            table.add_column(f"{loss}\n{stage}", justify="right", no_wrap=True)
        cells = {(_row(line.number), line.number.loss, line.number.stage): line for line in own}
        for row in dict.fromkeys(_row(line.number) for line in own):
            found = [cells.get((row, *column)) for column in columns]
            table.add_row(row, *(line.text() if line else "" for line in found))
        yield table


def _row(number: Published) -> str:
    varied = number.note.partition(";")[0] if number.note.startswith(_ATS_BINS) else ""
    return "\n".join(part for part in (number.dataset, number.model, varied) if part)


def _bins(number: Published) -> str:
    binned = number.metric in ("ece", "adaptive_ece", "classwise_ece")
    return f", {number.n_bins or PAPERS[number.paper].n_bins} bins" if binned else ""


def notes(paper: str, table: str, lines: Sequence[Line]) -> Iterator[str]:
    """How to read the tables, and what is missing."""
    yield (
        f"{PAPERS[paper].title} ({PAPERS[paper].source}), Table {table}. In each cell: the paper's value ± std "
        "(temperature), ours, ours - the paper's"
    )
    yield "in, out: whether the paper's value lies in our 95 % interval of the mean over seeds (t)"
    have = sum(bool(line.ours.values) for line in lines)
    inside = sum(bool(line.inside) for line in lines)
    tested = sum(line.inside is not None for line in lines)
    yield f"{have} of {len(lines)} numbers are here; {inside} of {tested} with an interval hold the paper's value"
    for reason in dict.fromkeys(line.ours.missing for line in lines if line.ours.missing):
        missing = [line.number for line in lines if line.ours.missing == reason]
        rows = dict.fromkeys(f"{number.dataset} {number.model}" for number in missing)
        yield f"missing, {reason}: {len(missing)} numbers ({', '.join(rows)})"
    name = suite_of(paper, table)
    if name and have < len(lines):
        yield f"calibench sweep {name} --dry-run says what it takes"


CSV_COLUMNS = (
    "dataset", "model", "loss", "metric", "stage", "n_bins", "note", "published", "published_std",
    "published_temperature", "seeds", "ours", "std", "low", "high", "temperature", "difference", "inside", "missing",
)  # fmt: skip


def csv_lines(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """Every number as fractions, for a program."""
    for line in lines:
        number, ours = line.number, line.ours
        row = {name: getattr(number, name) for name in CSV_COLUMNS[:7]}
        row |= {"published": number.value, "published_std": number.std}
        row |= {"published_temperature": number.temperature, "seeds": len(ours.values)}
        if ours.values:
            mean, std = mean_std(ours.values)
            low, high = ours.interval or (None, None)
            row |= {"ours": mean, "std": std if len(ours.values) > 1 else None}
            row |= {"low": low, "high": high, "difference": line.difference}
        if ours.temperatures:
            row["temperature"] = mean_std(ours.temperatures)[0]
        yield {**row, "inside": line.inside, "missing": ours.missing}


# --- the verb ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench reproduce`."""
    parser.description = (
        "Prints a paper's table in its layout, our numbers of the same cells below the paper's."
    )
    parser.epilog = """\
examples:
  calibench reproduce gce --table 3
  calibench reproduce fcl --table ood --results results/ --format csv"""
    parser.add_argument("paper", choices=PAPERS, help="the paper")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of runs (default: results)"
    )
    parser.add_argument("--table", required=True, help="number of the table, as printed")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def run(args: argparse.Namespace) -> int:
    """Print the table; returns the exit status, 0.

    Raises:
        ValueError: If the paper has no such table.
    """
    FORMATS[args.format](args.paper, args.table, reproduction(args.paper, args.table, args.results))
    return 0


def _as_table(paper: str, table: str, lines: Sequence[Line]) -> None:
    for made in tables(lines):
        console = Console()
        wide = console.options.update(width=10_000)
        if not console.is_terminal:  # a file has no width
            console = Console(
                width=max(console.width, Measurement.get(console, wide, made).maximum)
            )
        console.print(made)
    for note in notes(paper, table, lines):
        print(note)


def _as_csv(paper: str, table: str, lines: Sequence[Line]) -> None:
    writer = csv.DictWriter(sys.stdout, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_lines(lines))


FORMATS: dict[str, Callable[[str, str, Sequence[Line]], None]] = {
    "table": _as_table,
    "csv": _as_csv,
}

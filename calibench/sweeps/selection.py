"""What a suite fixes in advance: the selection of the best setting by a validation metric, the primary comparison."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from calibench.configuration.building import Options
from calibench.configuration.merging import short_name
from calibench.messages.errors import UsageError, near_matches
from calibench.ranking import Column, rank_results
from calibench.ranking.comparison import Primary, compare_over_sets
from calibench.ranking.reading import read_results
from calibench.ranking.table import Table
from calibench.runs import CorruptRun, Run, write_json
from calibench.sweeps.plan import find_runs
from calibench.sweeps.pool import Job
from calibench.sweeps.suites import Setting, Suite
from calibench.tables.grid import Grid


@dataclass(frozen=True)
class GridSelection:
    """The best setting of a benchmark, network and loss by a metric of the validation set.

    A setting counts as tried only if every seed of it is done: means over different seeds do not compare. The values
    are those of the best setting by key, None if none is done, and its `value` is the mean of the criterion over seeds.
    """

    dataset: str
    benchmark: str
    backbone: str
    loss: str
    criterion: str
    tried: int
    not_done: int
    values: Mapping[str, Any] | None
    value: float | None


def select_settings(suite: Suite, root: Path, overrides: Options = ()) -> list[GridSelection]:
    """The best setting of each benchmark, network and loss."""
    kinds: dict[tuple[str, str, str, str], list[Setting]] = defaultdict(list)
    for setting in suite.settings():
        kinds[setting.dataset, setting.benchmark, setting.backbone, setting.loss].append(setting)
    split, _, metric = str(suite.select).partition("/")
    column = Column.parse(metric)._replace(split=split)
    selections = []
    for names, settings in kinds.items():
        scored = [(_mean_score(setting, column, root, overrides), setting) for setting in settings]
        scores = [(score, setting.values) for score, setting in scored if score is not None]
        value, values = min(scores, key=lambda scored: scored[0], default=(None, None))
        counts = len(scores), len(settings) - len(scores)
        selections.append(GridSelection(*names, str(suite.select), *counts, values, value))
    return selections


def _mean_score(setting: Setting, column: Column, root: Path, overrides: Options) -> float | None:
    """Mean over seeds of a column; None if a seed has no finite value of it."""
    jobs = [setting.job(seed, overrides) for seed in setting.seeds]
    runs = find_runs(jobs, root)
    scores = [_read_value(run, column) for run in runs.values()]
    values = [value for value in scores if value is not None and isfinite(value)]
    return fmean(values) if len(values) == len(jobs) else None


def _read_value(run: Run, column: Column) -> float | None:
    if not run.done:
        return None
    read = read_results(run.folder)
    for key, value in (item for record in read.records for item in record.values.items()):
        if column.holds(key):
            return value
    whys = [problem.reason for problem in read.problems]
    raise CorruptRun(f"{run.folder}: {whys[0] if whys else f'it has no {column} to select by'}")


def record_selection(name: str, suite: Suite, root: Path, overrides: Options) -> Iterator[str]:
    """Write `selections/<suite>.json` and report the chosen settings, if the suite selects."""
    if suite.select is None:
        return
    selections = select_settings(suite, root, overrides)
    write_json(root / "selections" / f"{name}.json", [asdict(entry) for entry in selections])
    for entry in selections:
        names = " ".join(filter(None, (entry.dataset, entry.backbone, entry.loss)))
        unfinished = f", {entry.not_done} not done" if entry.not_done else ""
        if entry.values is None:
            yield f"{names}: nothing to select from{unfinished}"
            continue
        setting = ", ".join(f"{key}={value}" for key, value in entry.values.items())
        by = f"by {entry.criterion} {entry.value:.4f} of {entry.tried} tried"
        yield f"{names}: {setting or 'its only setting'} {by}{unfinished}"


def check_primary(primary: Primary, jobs: Sequence[Job]) -> None:
    """Raise a UsageError unless the jobs of a suite have the losses and benchmarks of its primary comparison."""
    losses = {short_name(job.config["model"]["loss"]["class_path"]) for job in jobs}
    benchmarks = {job.benchmark for job in jobs}
    requirements = [("loss", name, losses) for name in (primary.baseline, *primary.losses)]
    requirements += [("benchmark", name, benchmarks) for name in primary.benchmarks]
    for kind, name, names in requirements:
        if name not in names:
            raise UsageError(
                f"`primary`: the suite has no {kind} {name}{near_matches(name, names)}"
            )


def build_primary_grid(primary: Primary, jobs: Sequence[Job], root: Path) -> Grid:
    """The comparison over the benchmarks of some jobs, from the runs below the folder of results."""
    column = Column.parse(primary.metric)
    benchmarks = dict.fromkeys(job.benchmark for job in jobs)
    tables: list[Table] = []
    for benchmark in primary.benchmarks or benchmarks:
        with suppress(FileNotFoundError, ValueError):  # no runs yet, or none with the metric
            ranking = rank_results(root / benchmark, metrics=[primary.metric], sort=primary.metric)
            tables += ranking.tables
    comparison = compare_over_sets(
        tables, column, baseline=primary.baseline, primary=primary.losses
    )
    return comparison.grid()

"""`calibench.sweep` and `calibench sweep`: train many losses and seeds, in worker processes or in SLURM jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.live import Live

from calibench.command_line.typed_arguments import Option, checked_by, options_from_python
from calibench.command_line.verb_parser import VerbParser
from calibench.configuration.building import Options
from calibench.configuration.files import (
    find_configuration_file,
    list_configuration_files,
    load_configuration_file,
)
from calibench.configuration.run_arguments import read_arguments
from calibench.messages.errors import ExpectedFailure, UsageError, pip_install
from calibench.messages.printable_text import fill_docstring, next_commands, say
from calibench.messages.spelling import spell_argument, spell_key, split_names
from calibench.messages.terminal import Terminal
from calibench.parallel.processes import Terminated, cores, unwinding
from calibench.ranking import Leaderboard, rank_results
from calibench.run_configuration.checks import check_configuration
from calibench.run_configuration.keys import KEY_TYPES, KEYS_HELP, find_class_place, loss_file
from calibench.sweeps.durations import estimate_durations, time_left
from calibench.sweeps.launchers.sbatch import split_slurm_options
from calibench.sweeps.launchers.slurm import Slurm
from calibench.sweeps.losses_and_seeds import parse_losses, parse_seeds
from calibench.sweeps.plan import find_requested, list_jobs
from calibench.sweeps.pool import FINAL, Job, LauncherOptions, Pool, build_pool
from calibench.sweeps.selection import build_primary_grid, check_primary, record_selection
from calibench.sweeps.suite_files import is_suite, load_suite
from calibench.sweeps.suites import Suite, build_suite, losses_by_label
from calibench.tables.grid import Grid, Heading
from calibench.tables.terminal import Printed, show
from calibench.verbs.python_types import refuse_unknown_keywords

if TYPE_CHECKING:
    from calibench.losses import CalibrationLoss
    from calibench.verbs.python_types import PathLike

_PLAIN_KEYS = ["data", *(key for key in KEY_TYPES if key not in ("overwrite", "ckpt_path"))]


# --- what the terminal shows ---


def live_table(jobs: Sequence[Job], size: int, *, height: int = 40) -> Grid:
    """The live table of a sweep: benchmark and loss by seed; finished rows are left out where it is too high."""
    finished = sum(job.state in FINAL for job in jobs)
    running = sum(job.state == "running" for job in jobs)
    title = f"{finished} of {len(jobs)} cells, {running} running, {time_left(jobs, size)} left"
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    labels = [Heading(name, label=True, left=True) for name in ("benchmark", "loss")]
    headings = [*labels, *(Heading(f"seed {seed}") for seed in seeds)]
    rows: dict[tuple[str, str], dict[int, Job]] = {}
    for job in jobs:
        rows.setdefault((job.benchmark, job.row), {})[job.seed] = job
    states = {name: {job.state for job in row.values()} for name, row in rows.items()}
    first = sorted(rows, key=lambda name: states[name] <= {"done", "skipped"})[: max(3, height - 8)]
    cells_of_rows = [
        [*name, *_seed_texts(cells, seeds)] for name, cells in rows.items() if name in first
    ]
    hidden = len(rows) - len(cells_of_rows)
    return Grid(title, headings, cells_of_rows, [f"{hidden} more rows"] if hidden else [])


def _seed_texts(cells: Mapping[int, Job], seeds: Sequence[int]) -> list[str]:
    """The text of each seed's cell in a row, empty where the row has no such seed."""
    return [cells[seed].text if seed in cells else "" for seed in seeds]


def run_jobs(jobs: Sequence[Job], launcher: Pool | Slurm, console: Terminal) -> None:
    """Run the jobs and show their progress: a live table in a terminal, a line for each finished job in a log."""
    if not console.is_terminal:
        states: set[str] = set()
        for job in filter(None, launcher.run(jobs)):
            line = f"{job.label}: {job.text}"
            if job.state == "waiting":
                _print(console, [line])
            elif job.state in FINAL:
                _print(console, [f"{line} {job.reason}".rstrip()])
            # by its first epochs, and again by the first whole cell, which was evaluated
            is_new = job.state not in states and (job.state == "done" or job.seconds_by_epochs)
            unfinished = sum(job.state in ("queued", "running") for job in jobs)
            if is_new and unfinished:
                states.add(job.state)
                left = f"{time_left(jobs, launcher.size)} left"
                _print(console, [f"{unfinished} of {len(jobs)} cells, {left}"])
        return
    with Live(
        console=console,
        refresh_per_second=4,
        get_renderable=lambda: Printed(live_table(jobs, launcher.size, height=console.height)),
    ):
        for _ in launcher.run(jobs):
            pass


# --- the verb ---


def check_override(name: str, parser: VerbParser) -> None:
    """Raise a UsageError unless another option can be a key of a configuration, before any job starts."""
    if name == "--print_config" or name.endswith(".help"):
        raise UsageError(f"`{name}` is for `calibench fit`.")
    if "." in name or name.removeprefix("--") in _PLAIN_KEYS:
        return
    others = [f"--{plain}" for plain in _PLAIN_KEYS]
    parser.refuse_option(name, others, hint=_describe_loss_argument(name))


def _describe_loss_argument(option: str) -> str:
    """The key of an argument that losses have, `--model.loss.gamma` for `--gamma`; an empty string otherwise."""
    word, place = option.removeprefix("--").replace("-", "_"), find_class_place("loss")
    names = (word, word.removesuffix("s"))
    name = next((name for name in names if place and place.classes_with(name)), "")
    if not name:
        return ""
    return f"{spell_key(f'model.loss.{name}', 'VALUE')} sets it; several values are a `grid` in a suite"


@dataclass(frozen=True)
class Compared:
    """Which benchmarks, losses and seeds are compared.

    Attributes:
        benchmarks: Benchmarks or suites: files, or short names of `calibench list benchmarks`.
        losses: Files or short names of losses; your own as mymodule.MyLoss; `core` for seven common losses (default),
            or `all`. For a suite: only these of its losses.
        datasets: For a suite: only these of its data sets.
        seeds: 1..3 (default), 1,2,5 or 1 2 5; for a suite, they replace the suite's seeds.
        config: Another configuration file, merged before that of the loss.
    """

    benchmarks: Annotated[tuple[str, ...], "BENCHMARK"] = ()
    _: KW_ONLY
    losses: Annotated[tuple[str, ...] | None, "NAME"] = None
    datasets: Annotated[tuple[str, ...] | None, "NAME"] = None
    seeds: Annotated[tuple[str, ...] | None, "SEED"] = None
    config: Annotated[tuple[str, ...], Option("OVERLAY", repeated=True)] = ()


@refuse_unknown_keywords(
    ': keys of a configuration belong to `options`, `{"model.optimizer.lr": 0.1}`'
)
def sweep(
    benchmarks: PathLike | Sequence[PathLike],
    *,
    losses: str | CalibrationLoss | Sequence[str | CalibrationLoss] | None = None,
    datasets: Sequence[str] | None = None,
    seeds: str | Sequence[int] | None = None,
    overlays: PathLike | Sequence[PathLike] = (),
    jobs: int | None = None,
    cells_per_gpu: int | None = None,
    results: PathLike = "results",
    progress: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Leaderboard:
    """Train benchmarks with several losses and seeds, or suites, in worker processes, and rank the results.

    Finished runs are skipped; an interrupted sweep resumes where it stopped when you call it again.

    Args:
        benchmarks: Benchmarks or suites: names in `calibench list benchmarks`, or YAML files.
        losses: Losses, or their names or files; "core" for seven common losses (default), or "all". For a suite: only
            these of its losses.
        datasets: For a suite: only these of its data sets.
        seeds: Seeds, `[1, 2, 3]` or "1..3" (the default); for a suite, they replace the suite's seeds.
        overlays: Further configuration files, merged before the loss.
        jobs: Number of runs at the same time (default: one per core, or per GPU if GPUs are used).
        cells_per_gpu: Number of runs at the same time on each visible GPU, instead of `jobs`.
        results: Folder of results.
        progress: Show a live table on a terminal, and a line for each finished run elsewhere.
        options: Any other keys of a configuration, as `calibench fit --help` names them.

    Returns:
        The leaderboard of the benchmarks.

    Raises:
        ValueError: If a name or value is wrong; before training starts.
        ExpectedFailure: If a run failed; the message names it and its log. The other runs are finished.

    Examples:
        >>> import calibench
        >>> quick = {"trainer.max_epochs": 1}
        >>> board = calibench.sweep("digits_lt", losses=["focal"], seeds=[1], options=quick, progress=False)
        >>> 0 < board.value("FocalLoss", "nll") < 3
        True
    """
    names = [benchmarks] if isinstance(benchmarks, str | Path) else benchmarks
    files = [overlays] if isinstance(overlays, str | Path) else overlays
    is_one_loss = losses is None or isinstance(losses, str) or not isinstance(losses, Sequence)
    parts = [losses] if is_one_loss and losses is not None else losses
    texts = None if seeds is None else (seeds,) if isinstance(seeds, str) else map(str, seeds)
    compared = Compared(
        tuple(map(str, names)),
        losses=None if parts is None else tuple(parts),  # type: ignore[arg-type]
        datasets=None if datasets is None else tuple(datasets),
        seeds=None if texts is None else tuple(texts),
        config=tuple(map(str, files)),
    )
    keys = [*(options or {}).items(), ("trainer.default_root_dir", str(results))]
    launcher_options = options_from_python(
        LauncherOptions, {"jobs": jobs, "cells_per_gpu": cells_per_gpu}
    )
    planned = _plan(compared, launcher_options, keys)
    planned.run(Terminal() if progress else Terminal(quiet=True))
    if failed := planned.failed:
        raise ExpectedFailure("; ".join(planned.describe_failure(job) for job in failed))
    folders = [planned.root / name for name in dict.fromkeys(job.benchmark for job in planned.jobs)]
    return rank_results(folders[0] if len(folders) == 1 else planned.root, processes=1)


@dataclass
class _Planned:
    """The jobs of a sweep, and what runs them."""

    suites: Mapping[str, Suite]
    jobs: Sequence[Job]
    root: Path
    launcher: Pool | Slurm

    @property
    def remarks(self) -> list[str]:
        """Remarks of the suites, one line each."""
        return [remark for suite in self.suites.values() for remark in suite.remarks]

    @property
    def failed(self) -> list[Job]:
        """The jobs that failed."""
        return [job for job in self.jobs if job.state == "failed"]

    def run(self, console: Terminal) -> None:
        """Run the jobs that are not done, and show their progress; an interruption says how the sweep goes on."""
        estimate_durations(self.jobs, self.root)
        with unwinding():
            try:
                with closing(self.launcher):
                    run_jobs(self.jobs, self.launcher, console)
            except (KeyboardInterrupt, Terminated) as error:
                if isinstance(self.launcher, Pool):
                    error.add_note(self.describe_interruption())
                raise

    def describe_interruption(self) -> str:
        """Describe how many jobs are done, and how the sweep goes on."""
        finished = find_requested(self.jobs, self.root)  # one may have ended without a word
        finished_count = sum(
            job.state in ("done", "skipped") or position in finished
            for position, job in enumerate(self.jobs)
        )
        return f"with {finished_count} of {len(self.jobs)} cells done; the same command resumes where it stopped"

    def describe_failure(self, job: Job) -> str:
        """One line about a job that failed."""
        log = self.launcher.logs / job.log_name
        return f"{job.label} failed: {job.reason}{f' (see {log})' if log.exists() else ''}"


def _plan(
    compared: Compared,
    options: LauncherOptions,
    keys: Options,
    slurm: Mapping[str, object] | None = None,
) -> _Planned:
    """Plan the jobs of a sweep, and check them before any starts."""
    _check(options, slurm or {}, keys)
    _refuse_benchmark_as_key(compared, keys)
    suites = _suites(compared)
    jobs = [job for suite in suites.values() for job in suite.jobs(keys)]
    for config in {(job.benchmark, job.loss, job.variant): job.config for job in jobs}.values():
        check_configuration(config)
    for suite in suites.values():
        if suite.primary is not None:
            check_primary(suite.primary, suite.jobs(keys))
    if not jobs:
        remarks = " ".join(remark for suite in suites.values() for remark in suite.remarks)
        raise UsageError(f"the suite has nothing to run. {remarks}".rstrip())
    root = results_root(keys)
    local = options.launcher == "local"
    launcher = (
        build_pool(jobs, root / "logs", options)
        if local
        else Slurm(root, dict(slurm or {}), options)
    )
    return _Planned(suites, jobs, root, launcher)


def check_sweep(compared: Compared, *, overrides: Sequence[str], **others: object) -> None:
    """Raise a UsageError for names that `calibench sweep` refuses before it plans a run."""
    _refuse_benchmark_as_key(compared, read_arguments(overrides).options)
    if not compared.benchmarks:
        _suites(compared)
    parse_losses(compared.losses or ())


@checked_by(check_sweep)
@fill_docstring(keys=KEYS_HELP.rstrip(), slurm=pip_install("slurm"))
def sweep_command(
    compared: Compared,
    *,
    where: LauncherOptions,
    dry_run: bool = False,
    overrides: Annotated[Sequence[str], Option(rest=check_override)] = (),
) -> int:
    """Train a benchmark with several losses and seeds, or a suite, and print the leaderboard.

    Each run (one benchmark, network, loss and seed) is a cell of the comparison. Finished cells are skipped.

    Args:
        compared: Which benchmarks, losses and seeds.
        where: Where cells run.
        dry_run: Only list the cells, mark those that are done, and estimate the time left.
        overrides: Keys and values of the configuration and of SLURM.

    Returns:
        0 if every job is done, 1 if some failed.

    Examples:
        calibench sweep digits_lt --seeds 1..3
        calibench sweep digits_lt --losses cross_entropy gce my_loss.yaml --seeds 1,2,3 --jobs 2
        calibench sweep digits_lt --losses all --trainer.max_epochs 10
        calibench sweep suites/gce_table3 --dry-run
        calibench sweep suites/gce_table3 --losses gce --seeds 1..3
        calibench sweep cifar10 --cells-per-gpu 3
        calibench sweep cifar10 --launcher slurm --cells-per-gpu 3 --slurm.partition gpu --slurm.time 2:00:00

    Any KEY of the configuration can follow, as for `calibench fit`:
    {keys}

    The configuration sets the threads per cell (`threads`), so --jobs never changes a number. An interrupted sweep
    resumes if you run the same command again.

    Suites are YAML files; see `calibench list benchmarks`, docs/howto/suites.md and benchmarks/suites/digits_focal.yaml

    Suites:
        benchmark, losses, backbones, seeds   every combination is run; `parts` lists several such products
        set: {KEY: VALUE}                     values of configuration keys
        grid: {KEY: [VALUE, ...]}             every combination of values is a separate row
        select: val/nll                       choose the best setting of the grid by a validation metric, for each
                                              benchmark, network and loss; printed, and written into selections/
        primary: {metric: nll, baseline: CrossEntropyLoss, losses: [FocalLoss]}
                                              the comparison that is fixed in advance: tested alone, over data sets,
                                              and printed at the end; all other comparisons are exploratory

    On SLURM (needs `{slurm}` and a results folder that all nodes share), the unfinished cells become one job array.
    --slurm.KEY VALUE sets any job parameter of submitit: partition, time, gpus_per_node, cpus_per_task, mem, account,
    qos, constraint, setup, array_parallelism, ... A job that is pre-empted or reaches its time limit is queued again,
    and its cells resume from their last checkpoints. The command waits and shows the same table. You can stop it
    (Ctrl-C) or start it with --detach: the jobs continue, and running the same command again waits for them. `scancel`
    ends the jobs; running the same command again then starts what is left. --dry-run prints the script.
    """
    slurm, keys = split_slurm_options(read_arguments(overrides).options)
    planned = _plan(compared, where, keys, slurm)
    if lone := _lone_seed(compared.seeds):
        say(
            f"calibench: `--seeds {lone}` is seed {lone} alone; {lone} seeds are `--seeds 1..{lone}`",
            to=sys.stderr,
        )
    console, launcher = Terminal(), planned.launcher
    if dry_run:
        _print(console, [*_dry_run(launcher, planned.jobs, planned.root), *planned.remarks])
        return 0
    if isinstance(launcher, Slurm) and where.detach:
        launcher.submit(planned.jobs)
        launcher.close()
        return 0
    planned.run(console)
    code = _conclude(planned)
    for name, suite in planned.suites.items():
        _print(console, record_selection(name, suite, planned.root, keys))
        if suite.primary is not None:
            show(build_primary_grid(suite.primary, suite.jobs(keys), planned.root))
    return code


def _lone_seed(texts: Sequence[str] | None) -> int | None:
    """The seed of `--seeds 3`, where somebody may mean three of them."""
    seeds = parse_seeds(" ".join(texts)) if texts else []
    return seeds[0] if len(seeds) == 1 and seeds[0] > 1 else None


def results_root(overrides: Options) -> Path:
    """The folder of results: `trainer.default_root_dir`, or else `results`."""
    return Path(dict(overrides).get("trainer.default_root_dir", "results"))


def _check(options: LauncherOptions, slurm: Mapping[str, object], keys: Options) -> None:
    """Raise a UsageError for options that exclude each other."""
    if options.launcher == "local" and (slurm or options.detach):
        name = spell_argument("detach") if options.detach else f"`--slurm.{next(iter(slurm))}`"
        raise UsageError(f"{name} is for {spell_argument('launcher', 'slurm')}.")
    if options.jobs and options.cells_per_gpu:
        raise UsageError(
            f"{spell_argument('jobs')} and {spell_argument('cells_per_gpu')} exclude each other: give one of them."
        )
    values = dict(keys)
    for key in ("trainer.devices", "trainer.num_nodes"):
        if values.get(key, "1") not in ("1", "auto"):
            raise UsageError(
                f"{spell_key(key, values[key])}: a sweep runs each cell in one process on one device; "
                "`fit` uses several."
            )


def _dry_run(launcher: Pool | Slurm, jobs: Sequence[Job], root: Path) -> Iterator[str]:
    if isinstance(launcher, Pool):
        yield from list_jobs(jobs, root, launcher.size, f"with --jobs {launcher.size}")
        return
    count, script = launcher.script(jobs)
    yield from list_jobs(jobs, root, 1, f"of work in {count} SLURM jobs")
    if count:
        yield from ("", *script.splitlines())


def _print(console: Terminal, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _refuse_benchmark_as_key(compared: Compared, keys: Options) -> None:
    """Raise a UsageError where a benchmark is named as `--benchmark NAME`, and none as a word of its own."""
    name = dict(keys).get("benchmark")
    if not compared.benchmarks and name in list_configuration_files():
        raise UsageError(
            f"unknown option {spell_argument('benchmark')}: a benchmark is a word of its own, `{name}`; "
            "the option names it in tables."
        )


def _suites(compared: Compared) -> dict[str, Suite]:
    """The named suites, restricted to what was asked for, and one without a name of all benchmarks."""
    text = None if compared.seeds is None else " ".join(compared.seeds)
    if text is not None:
        parse_seeds(text)
    if not compared.benchmarks:
        parse_losses(compared.losses or ())  # a benchmark among them is named
        with_data = (name for name in compared.config if "data" in load_configuration_file(name))
        first = next(with_data, "digits_lt")
        raise UsageError(
            f"a benchmark or a suite is needed: `calibench sweep {first}` (see `calibench list benchmarks`)."
        )
    suites, benchmarks = {}, []
    for name in split_names(compared.benchmarks):
        if loss_file(name) and len(compared.benchmarks) > 1:
            says = spell_argument("losses", name, python=f'["{name}"]')
            raise UsageError(f"`{name}` is a loss: {says}.")
        path = find_configuration_file(name, folders=("", "suites", "losses", "protocols"))
        if is_suite(path):
            suites[path.stem] = load_suite(str(path)).restricted(
                losses=None if compared.losses is None else split_names(compared.losses),
                seeds=text,
                overlays=compared.config,
                datasets=compared.datasets,
            )
        else:
            benchmarks.append(name)
    if benchmarks:
        losses, seeds = compared.losses or ["core"], text or "1..3"
        names = [loss for loss in losses if isinstance(loss, str)]
        by_label = losses_by_label(names) if names else {}
        by_label |= {
            repr(loss): [{"model.loss": _block_of(loss)}]
            for loss in losses
            if not isinstance(loss, str)
        }
        suites[""] = build_suite(benchmarks, by_label, seeds, compared.config)
    return suites


def _block_of(loss: Any) -> Any:
    """The block of a loss that a program built; another process must be able to import it."""
    from calibench.run_configuration import python_objects

    block = python_objects.describe_loss(loss)
    if python_objects.__name__ in str(block):
        raise UsageError(
            f"`losses`: {type(loss).__name__} exists only in this program, but a sweep runs in other processes: "
            "give a loss of calibench, or a file that names yours by its import path."
        )
    return block


def _conclude(planned: _Planned) -> int:
    """Print the leaderboard of each benchmark and the failed jobs. Returns the exit status."""
    finished = [job for job in planned.jobs if job.state in ("done", "skipped")]
    for benchmark in dict.fromkeys(job.benchmark for job in finished):
        rank_results(planned.root / benchmark, processes=cores()).show(sys.stdout)
    for job in planned.failed:
        say(f"calibench: {planned.describe_failure(job)}", to=sys.stderr)
    if finished:
        say(f"results in {planned.root}; {next_commands(planned.root)}")
    return 1 if planned.failed else 0

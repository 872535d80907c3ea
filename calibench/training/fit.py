"""`calibench fit`: train, collect logits, evaluate them, write the run folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Literal

from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning_utilities.core.rank_zero import rank_zero_only

from calibench.config import Terminated, UsageError
from calibench.evaluation import Report
from calibench.evaluation.further_metrics import described
from calibench.evaluation.settings import built, spelled_out, united
from calibench.printing.terminal import Terminal
from calibench.runs import FORMAT, CorruptRun, Predictions, Run, read_json, settings, write_json
from calibench.tables.run import run_table
from calibench.tables.terminal import show
from calibench.training.beginning import (
    Beginning,
    check_options,
    first_checkpoint,
    refusals,
)
from calibench.training.callbacks import (
    EpochReport,
    NaNGuard,
    SavePredictions,
    Timing,
    TrainingCurve,
)
from calibench.training.checkpoints import LastCheckpoint, SeededSteps
from calibench.training.environment import environment
from calibench.training.experiment import Experiment
from calibench.training.interruption import interruptible
from calibench.training.progress import EpochProgress

Outcome = Literal["done", "skipped"]

_INTERRUPTIONS: dict[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted (Ctrl-C)",
    Terminated: "terminated (SIGTERM)",
}


def fit(
    arguments: Sequence[str],
    *,
    report: Callable[[int, int], None] | None = None,
    console: Terminal | None = None,
) -> tuple[Outcome, Run]:
    """Train one run, collect its logits, evaluate them, and write the run folder.

    A run that is done is not trained again; if it is asked for with other calibrators or bins, its saved logits
    are evaluated anew. A run that was cut short goes on from its last checkpoint, to the same numbers. A trial
    (`fast_dev_run`, or a run without a training step) is written too, but never done, so that nothing counts it.

    Args:
        arguments: The command line after `fit`.
        report: Called with (epochs done, epochs in all); without it a progress bar is shown.
        console: Where the table goes; nowhere if None.

    Returns:
        Whether the run was trained now, and its folder.

    Raises:
        UsageError: For a mistake in the arguments.
        BlockingIOError: If another process has the run.
    """
    experiment = Experiment(arguments)
    check_options(experiment.config)
    run = experiment.run
    lead = _leads()
    if _finished(experiment, run):
        return _skip(experiment, run, console, lead)
    with run.claimed() if lead else nullcontext():
        if lead and _finished(experiment, run):  # by another process, before the claim
            return _skip(experiment, run, console, lead)
        with _failure_recorded(experiment, run, lead):
            status = _train(experiment, run, report)
            if lead:
                run.write_status(status)
    if lead:
        _show(run, console, _SAID[status])
    return "done", run


_SAID: dict[str, str] = {
    "done": "is done",
    "trial": "is a trial (fast_dev_run, or no training step): nothing counts it, and the next one takes its place",
}


def _leads() -> bool:
    """Whether this process is the only one of the run, or the first."""
    return bool(rank_zero_only.rank == 0)  # type: ignore[attr-defined]


def _finished(experiment: Experiment, run: Run) -> bool:
    return run.done and not experiment.config.overwrite


def _skip(
    experiment: Experiment, run: Run, console: Terminal | None, lead: bool
) -> tuple[Outcome, Run]:
    if lead:
        _evaluate_again(experiment, run)
        _show(run, console, "is already done (train it again with --overwrite true)")
    return "skipped", run


@contextmanager
def _failure_recorded(experiment: Experiment, run: Run, lead: bool) -> Iterator[None]:
    """Write into status.json why the run ended early, if it had begun or failed to begin.

    What was refused, or interrupted before it began, leaves the folder as it was.
    """
    try:
        yield
    except BaseException as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        begun = run.status.get("status") == "running"
        if isinstance(error, tuple(_INTERRUPTIONS)) and begun:
            error.add_note(_way_on(experiment, run))
        if lead and (begun or not isinstance(error, (UsageError, *_INTERRUPTIONS))):
            with suppress(OSError):  # the run's own error is the one to tell
                run.write_status("failed", _INTERRUPTIONS.get(type(error), text))
        raise


def _way_on(experiment: Experiment, run: Run) -> str:
    """Where a run was interrupted, and what takes it up again."""
    trainer, config = experiment.trainer, experiment.config
    epoch, epochs = trainer.current_epoch + 1, trainer.max_epochs
    where = f"at epoch {epoch} of {epochs}" if epoch <= (epochs or epoch) else "at the evaluation"
    if not (run.checkpoints / "last.ckpt").is_file():
        return f"{where}, before the first checkpoint; the same command starts anew"
    if config.overwrite or config.ckpt_path not in (None, "last"):
        return f"{where}; the same command without --overwrite and --ckpt_path goes on"
    return f"{where}; the same command goes on, --overwrite true starts anew"


def _train(
    experiment: Experiment, run: Run, report: Callable[[int, int], None] | None
) -> Literal["done", "trial"]:
    """Train, evaluate and write everything but the status, which is returned."""
    config = experiment.config
    start = first_checkpoint(experiment, run, told=_leads())
    beginning = Beginning(run, experiment.yaml(), anew=config.overwrite and start is None)
    started, timing = time.perf_counter(), Timing()
    last = LastCheckpoint(run.checkpoints, config.checkpoint_every_n_steps)
    best = _best_checkpoint(config.evaluated_checkpoint, run)
    save = SavePredictions(run.folder / "predictions")
    trace = experiment.trace
    callbacks: list[Callback] = [
        beginning,
        SeededSteps(config.seed_everything),
        NaNGuard(),
        timing,
        save,
        TrainingCurve(run.folder / "metrics.csv", trace.values),
        *best,
        last,
        *trace.callbacks(run.checkpoints),
    ]
    shown: dict[str, Any] = {}
    if report is not None:
        callbacks.append(EpochReport(report))
        shown = {"enable_progress_bar": False}  # the caller shows how far it is
    elif config.trainer.enable_progress_bar is not False:
        callbacks.append(EpochProgress())
    with interruptible() as interruption:
        experiment.build([*callbacks, interruption], **shown)
        trainer, module, data = experiment.trainer, experiment.model, experiment.datamodule
        module.caveats = experiment.caveats
        if experiment.caveats and _leads():
            warnings.warn(
                f"{'; '.join(experiment.caveats)}. Their number is in the run's key.", stacklevel=2
            )
        with refusals(beginning, start):
            trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
        trial = bool(config.trainer.fast_dev_run) or trainer.global_step == 0
        # Now: to load the best checkpoint below is to load its callbacks' states as well.
        earlier, seconds = sum(timing.earlier), [*timing.earlier, *timing.seconds]
        path = best[0].best_model_path if best and not trial else None
        trainer.validate(module, datamodule=data, ckpt_path=path, verbose=False, weights_only=True)
        trainer.test(module, datamodule=data, ckpt_path=path, verbose=False, weights_only=True)
        if trainer.is_global_zero:
            wall = time.perf_counter() - started + earlier
            made = environment(trainer, wall_seconds=wall, epoch_seconds=seconds)
            write_json(run.folder / "environment.json", made, sealed=True)
            evaluated = experiment.evaluation(save.saved, data.unavailable)
            _write_metrics(
                experiment,
                run,
                save.saved,
                evaluated,
                experiment.evaluation_settings,
                trial,
            )
        trainer.strategy.barrier("calibench: the run is written")
    return "trial" if trial else "done"


def _best_checkpoint(choice: str, run: Run) -> list[ModelCheckpoint]:
    if choice == "last":
        return []
    metric = choice.removeprefix("best_")
    return [
        ModelCheckpoint(
            run.checkpoints,
            filename="best",
            monitor=f"val/{metric}",
            mode="min",
            enable_version_counter=False,
        )
    ]


def _write_metrics(
    experiment: Experiment,
    run: Run,
    sets: Mapping[str, Predictions],
    evaluated: Report,
    evaluation: Mapping[str, Any],
    fast: bool,
) -> None:
    cell = experiment.cell
    test = sets["test"].metadata
    content = {
        "format": FORMAT,
        "benchmark": cell.benchmark,
        "backbone": cell.backbone,
        "loss": cell.loss,
        "key": cell.key,
        "seed": cell.seed,
        "settings": settings(experiment.resolved),
        "evaluation": evaluation,
        "fingerprint": test["fingerprint"],
        "class_counts": test["class_counts"],
        "caveats": test["caveats"],
        "posterior": test.get("posterior"),
        "fast_dev_run": fast,
        "unavailable": evaluated.unavailable,
        "calibrators": evaluated.calibrators,
        "metrics": described(evaluation.get("metrics") or ()),
        "rows": evaluated.rows,
    }
    write_json(run.folder / "metrics.json", content, sealed=True)


def _evaluate_again(experiment: Experiment, run: Run) -> None:
    """Evaluate the saved logits of a finished run if calibrators or bins are asked for that it was not evaluated with.

    What it was evaluated with before stays.
    """
    asked = experiment.evaluation_settings
    try:
        before = read_json(run.folder / "metrics.json")
        earlier = spelled_out(before["evaluation"])
        unavailable, fast = before["unavailable"], before["fast_dev_run"]
        wanted = united(earlier, asked)
        if wanted == earlier:
            return
    except (CorruptRun, KeyError, TypeError, ValueError):
        wanted, unavailable, fast = asked, {}, False
    sets = {
        path.stem: Predictions.load(path)
        for path in sorted((run.folder / "predictions").glob("*.npz"))
    }
    missing = {"val", "test"} - set(sets)
    if missing:
        raise CorruptRun(
            f"{run.folder} is done, but its logits of {' and '.join(sorted(missing))} are gone."
        )
    order = ["val", "test", *(name for name in sets if name not in ("val", "test"))]
    ordered = {name: sets[name] for name in order}
    evaluated = built(wanted)(ordered, unavailable)
    _write_metrics(experiment, run, ordered, evaluated, wanted, fast)


def _show(run: Run, console: Terminal | None, what: str) -> None:
    if console is None:
        return
    content = read_json(run.folder / "metrics.json")
    report = Report(content["rows"], content["calibrators"], content["unavailable"])
    show(run_table(report), console)
    for name, reason in content["unavailable"].items():
        console.print(f"not available: {name} ({reason})")
    if content.get("posterior"):
        console.print(f"posterior: {content['posterior']}")
    for caveat in content["caveats"]:
        console.print(f"note: {caveat}")
    console.print(f"{run.folder} {what}.", soft_wrap=True)

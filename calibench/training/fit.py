"""`calibench fit`: train a run, save its logits, evaluate them, write the run folder."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Literal

from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning_utilities.core.rank_zero import rank_zero_only

from calibench.configuration.merging import Config
from calibench.evaluation import Evaluation
from calibench.evaluation.serialization import build_evaluation, fill_defaults, unite_evaluations
from calibench.messages.errors import UsageError, one_line
from calibench.messages.printable_text import next_commands, say
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.messages.terminal import Terminal
from calibench.parallel.processes import Terminated
from calibench.runs import (
    Busy,
    Claim,
    CorruptRun,
    Predictions,
    Run,
    effective_settings,
    read_json,
    write_json,
)
from calibench.runs.durations import mean_duration
from calibench.runs.folder import check_loss_folder
from calibench.runs.requests import digest_request
from calibench.tables.evaluation import metrics_table
from calibench.tables.metric_titles import add_described
from calibench.tables.terminal import PIPE_WIDTH, show
from calibench.training.callbacks import (
    DataInventory,
    EpochProgress,
    NaNGuard,
    Timing,
    TrainingCurve,
    claim_guard,
    epoch_report,
)
from calibench.training.checkpoints import LastCheckpoint, SeededSteps
from calibench.training.distributed import interruptible, report_deaths
from calibench.training.environment import describe_environment
from calibench.training.experiment import Experiment
from calibench.training.infer import save_predictions
from calibench.training.run_metrics import divergence_remarks, write_metrics
from calibench.training.shape_check import ShapeCheck
from calibench.training.start_checks import (
    Beginning,
    FitLengthCheck,
    ValidationCheck,
    check_callbacks,
    check_monitors,
    check_options,
    first_checkpoint,
    refuse_in_one_line,
)

# What `evaluated_checkpoint` minimises.
MONITORED = {"best_error": "val/error", "best_nll": "val/nll", "best_refinement": "val/nll_ts"}

Outcome = Literal["done", "skipped"]


def fit(
    config: Config,
    *,
    report: Callable[[int, int], None] | None = None,
    console: Terminal | None = None,
    keep: Callable[[Sequence[Logger], Run], None] | None = None,
    quiet: bool = False,
) -> tuple[Outcome, Run]:
    """Train one run, collect its logits, evaluate them, and write the run folder.

    A run that is done is not trained again; if other calibrators or bins are asked for, its saved logits are evaluated
    again. A run that was cut short goes on from its last checkpoint, to the same numbers. A trial (`fast_dev_run`, or
    a run without a training step) is written too, but is never done, so that it is not counted.

    Args:
        config: Merged files and options, as `calibench.configuration.building.build_configuration` gives them.
        report: Called with (epochs done, epochs in all); without it a progress bar is shown.
        console: Prints the table; None for no table.
        keep: Called with the loggers of a run that was trained, for what they keep of it when it is done.
        quiet: Print nothing; warnings are warnings still.

    Returns:
        Whether the run was trained now, and its folder.

    Raises:
        UsageError: For a mistake in the configuration.
        OldFormat: If its results hold a run of this loss and seed in an earlier format.
        Busy: If another process holds the run.
        LostClaim: If another process took the run over.
    """
    experiment = Experiment(config)
    check_options(experiment.config)
    check_callbacks(experiment.config)
    run, lead = experiment.run, rank_zero_only.rank == 0  # type: ignore[attr-defined]
    check_loss_folder(run.folder)
    outcome: Literal["done", "trial", "skipped"] = "skipped"
    if not _is_finished(experiment, run):
        with run.claimed() if lead else nullcontext() as claim:
            if not (lead and _is_finished(experiment, run)):  # by another process, before the claim
                with _failure_recorded(experiment, run, claim):
                    outcome = _train(experiment, run, claim, report, quiet=quiet)
                    if claim is not None:
                        claim.check()
                        run.write_status(outcome, request=digest_request(config))
    if lead and outcome == "done" and keep is not None:
        keep(experiment.trainer.loggers, run)
    if lead and outcome == "skipped":
        _evaluate_again(experiment, run, patient=report is None, quiet=quiet)
    if lead and console is not None:
        curve, is_done = run.folder / "metrics.csv", outcome == "skipped"
        lacks_trace = is_done and not experiment.trace.has_record(curve, run.checkpoints)
        text = _OUTCOME_TEXTS["untraced" if lacks_trace else outcome]
        _print_table(run, console, text.format(anew=_spell_anew()))
        if outcome != "trial":
            console.print(next_commands(experiment.root), soft_wrap=True)
    return "skipped" if outcome == "skipped" else "done", run


_OUTCOME_TEXTS: dict[str, str] = {
    "done": "is done",
    "skipped": "is already done ({anew} trains it again)",
    "untraced": "is already done, without what `trace` records ({anew} trains it again)",
    "trial": "is a dry run (fast_dev_run, or no training step): not counted, and overwritten by the next run",
}


def _spell_anew() -> str:
    """The argument with which a finished or interrupted run is trained from its beginning."""
    return spell_argument("overwrite", "true", python="True")


def _is_finished(experiment: Experiment, run: Run) -> bool:
    return run.done and not experiment.config.overwrite


@contextmanager
def _failure_recorded(experiment: Experiment, run: Run, claim: Claim | None) -> Iterator[None]:
    """Record in status.json why the run failed, if this process still holds it.

    A run that was refused, or interrupted before it began, leaves the folder as it was.
    """
    try:
        yield
    except BaseException as error:
        status = run.status
        begun = (status.get("status"), status.get("pid")) == ("running", os.getpid())
        ended = isinstance(error, (KeyboardInterrupt, Terminated))
        if begun and ended:
            error.add_note(_describe_resume(experiment, run))
        is_holder = claim is not None and claim.lasts
        if is_holder and (begun or not (ended or isinstance(error, UsageError))):
            with suppress(OSError):  # the run's own error matters more
                run.write_status("failed", _reason(error))
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted (Ctrl-C)"
    text, name = one_line(error), type(error).__name__
    return text if isinstance(error, Terminated) or text == name else f"{name}: {text}"


def _describe_resume(experiment: Experiment, run: Run) -> str:
    """Where a run was interrupted, and by which command it goes on."""
    trainer, config = experiment.trainer, experiment.config
    epoch, epochs = trainer.current_epoch + 1, trainer.max_epochs
    place = f"at epoch {epoch} of {epochs}" if epoch <= (epochs or epoch) else "at the evaluation"
    call = "command" if is_command_line() else "call"
    if not (run.checkpoints / "last.ckpt").is_file():
        return f"{place}, before the first checkpoint; the same {call} starts anew"
    if config.overwrite or config.ckpt_path not in (None, "last"):
        names = f"{spell_argument('overwrite')} and {spell_argument('ckpt_path')}"
        return f"{place}; the same {call} without {names} goes on"
    return f"{place}; the same {call} goes on, {_spell_anew()} starts anew"


def _train(
    experiment: Experiment,
    run: Run,
    claim: Claim | None,
    report: Callable[[int, int], None] | None,
    *,
    quiet: bool,
) -> Literal["done", "trial"]:
    """Train, evaluate and write everything but the status. Returns the status. The first process has the claim."""
    start = first_checkpoint(experiment, run, warn=claim is not None)
    anew = experiment.config.overwrite and start is None
    beginning = Beginning(run, experiment.yaml(), anew=anew)
    started, timing = time.perf_counter(), Timing()
    best, trace = _best_checkpoint(experiment, run), experiment.trace
    guards = [] if claim is None else [claim_guard(claim)]
    callbacks: list[Callback] = [
        ValidationCheck(experiment.config.evaluated_checkpoint),  # before anything is written
        ShapeCheck(),
        FitLengthCheck(experiment),
        beginning,
        SeededSteps(experiment.config.seed_everything),
        NaNGuard(),
        *guards,  # before the callbacks that write files
        timing,
        TrainingCurve(run.folder / "metrics.csv", trace.values),
        *best,
        LastCheckpoint(run.checkpoints, experiment.config.checkpoint_every_n_steps),
        *trace.callbacks(run.checkpoints),
        *([] if quiet else _progress(experiment, report)),
    ]
    with interruptible() as interruption, report_deaths(lambda: experiment.trainer):
        experiment.build([*callbacks, interruption], enable_progress_bar=False)
        trainer, module, data = experiment.trainer, experiment.model, experiment.datamodule
        check_monitors(trainer, module.logged)
        _take_caveats(experiment, aloud=claim is not None and not quiet, warn=claim is not None)
        with refuse_in_one_line(beginning, start):
            trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
        evaluated_alone = trainer.max_epochs == 0 and module.backbone.is_trained
        untrained = trainer.global_step == 0 and not evaluated_alone
        trial = bool(experiment.config.trainer.fast_dev_run) or untrained
        # Before the best checkpoint is loaded, which brings its callbacks' states with it.
        earlier, seconds = sum(timing.earlier), [*timing.earlier, *timing.seconds]
        path = best[0].best_model_path if best and not trial else None
        saved = _predict_sets(experiment, run, claim, path)
        if claim is not None and trainer.is_global_zero:
            wall = time.perf_counter() - started + earlier
            description = describe_environment(trainer, wall_seconds=wall, epoch_seconds=seconds)
            write_json(run.folder / "environment.json", description, sealed=True)
            evaluation, lines = experiment.evaluation.without_long_fits(saved["val"])
            numbers = evaluation(saved, data.unavailable)
            numbers.remarks += [*lines, *divergence_remarks(saved)]
            claim.check()
            is_of = experiment.run_id, effective_settings(experiment.resolved)
            settings = _keep_calibrators(experiment, evaluation)
            write_metrics(run, *is_of, saved, numbers, settings, fast=trial)
        trainer.strategy.barrier("calibench: the run is written")
    return "trial" if trial else "done"


def _keep_calibrators(experiment: Experiment, evaluation: Evaluation) -> Config:
    """The settings of the evaluation with the calibrators that were fitted."""
    settings, fitted = experiment.evaluation_settings, evaluation.named()
    blocks = zip(experiment.evaluation.named(), settings["calibrators"], strict=True)
    return {**settings, "calibrators": [block for name, block in blocks if name in fitted]}


def _best_checkpoint(experiment: Experiment, run: Run) -> list[ModelCheckpoint]:
    """Callback that keeps the best checkpoint, where that one is evaluated and not the last."""
    monitor = MONITORED.get(experiment.config.evaluated_checkpoint)
    numbered: Any = {"filename": "best", "monitor": monitor, "enable_version_counter": False}
    return [] if monitor is None else [ModelCheckpoint(run.checkpoints, **numbered)]


def _progress(experiment: Experiment, report: Callable[[int, int], None] | None) -> list[Callback]:
    """Callback that reports epochs: to the caller's function, or on a progress bar."""
    if report is not None:
        return [epoch_report(report)]
    shows_progress = experiment.config.trainer.enable_progress_bar is not False
    if not shows_progress:
        return [DataInventory()]
    kind = experiment.run.folder.parents[2]  # of the benchmark and network
    return [DataInventory(), EpochProgress(mean_duration(kind))]


def _take_caveats(experiment: Experiment, *, aloud: bool, warn: bool) -> None:
    """Give the module the caveats of the run; one process prints them, and warns of what is in its key."""
    caveats = experiment.model.caveats = [*experiment.caveats]
    if experiment.lacks_float16:
        caveats.append("trained with bf16-mixed: a CPU has no 16-mixed precision")
        if aloud:
            say(f"calibench: {caveats[-1]}.", to=sys.stderr)
    if experiment.goes_on_in_float32:
        caveats.append("trained in float32: the CPU had no bfloat16 instructions")
        if aloud:
            say(
                "calibench: this CPU has no bfloat16 instructions: training goes on in float32, which takes about "
                "twice as long as with them.",
                to=sys.stderr,
            )
    if experiment.caveats and warn:
        warnings.warn(
            f"{'; '.join(experiment.caveats)}. Their number is in the run's key.", stacklevel=3
        )


def _predict_sets(
    experiment: Experiment, run: Run, claim: Claim | None, checkpoint: str | None
) -> dict[str, Predictions]:
    """Predict every set, by a checkpoint if there is one, and save that; in the first process by name."""
    saved: dict[str, Predictions] = {}
    trainer, module, data = experiment.trainer, experiment.model, experiment.datamodule
    for verb in (trainer.validate, trainer.test):
        verb(module, datamodule=data, ckpt_path=checkpoint, verbose=False, weights_only=True)
        if claim is not None:
            claim.check()
        saved |= save_predictions(experiment, run.folder / "predictions")
    return saved


def _evaluate_again(experiment: Experiment, run: Run, *, patient: bool, quiet: bool) -> None:
    """Evaluate the saved logits of a finished run again, if calibrators, metrics or bins are asked for that it lacks.

    Earlier numbers stay, also those that another process adds at the same time; if `patient`, this one waits for it,
    which takes seconds. Raises Busy otherwise, or if another process trains the run.
    """
    has_said_so = quiet
    while _missing_evaluation(experiment, run) is not None:
        try:
            with run.claimed() as claim:
                _add_missing(experiment, run, claim)
            return
        except Busy as busy:
            if not (patient and run.done):
                raise
            if not has_said_so:
                waits = f"calibench: waiting for {busy.owner}, which evaluates {run.folder}"
                say(waits, to=sys.stderr)
            has_said_so = True
            time.sleep(0.2)


def _add_missing(experiment: Experiment, run: Run, claim: Claim) -> None:
    missing = _missing_evaluation(
        experiment, run
    )  # again: another process may have added it just before
    if missing is not None:
        settings, unavailable, fast = missing
        sets = _load_sets(run)
        evaluation = build_evaluation(settings)
        for calibrator in evaluation.named().values():
            if reason := calibrator.describe_long_fit(*sets["val"].logits.shape):
                raise UsageError(f"`evaluation.calibrators`: {reason}")
        numbers = evaluation(sets, unavailable)
        claim.check()
        is_of = experiment.run_id, effective_settings(experiment.resolved)
        write_metrics(run, *is_of, sets, numbers, settings, fast=fast)


def _missing_evaluation(
    experiment: Experiment, run: Run
) -> tuple[Config, dict[str, str], bool] | None:
    """The settings of the new evaluation, the unavailable sets and `fast_dev_run`; None if metrics.json has all."""
    requested = experiment.evaluation_settings
    try:
        before = read_json(run.folder / "metrics.json")
        earlier = fill_defaults(before["evaluation"])
        combined = unite_evaluations(earlier, requested)
        new = combined, before["unavailable"], before["fast_dev_run"]
    except (CorruptRun, KeyError, TypeError, ValueError):
        return requested, {}, False
    return None if combined == earlier else new


def _load_sets(run: Run) -> dict[str, Predictions]:
    """The predictions of every set of a run, val and test first."""
    sets = {name: Predictions.load(path) for name, path in run.sets().items()}
    missing = {"val", "test"} - set(sets)
    if missing:
        raise CorruptRun(
            f"{run.folder} is done, but its logits of {' and '.join(sorted(missing))} are gone "
            f"({_spell_anew()} trains it again)."
        )
    return sets


def _print_table(run: Run, console: Terminal, outcome: str) -> None:
    content = read_json(run.folder / "metrics.json")
    add_described(content.get("metrics") or {})
    show(metrics_table(content), console, pipe_width=PIPE_WIDTH)
    for name, reason in content["unavailable"].items():
        console.print(f"not available: {name} ({reason})")
    if content.get("posterior"):
        console.print(f"posterior: {content['posterior']}")
    for caveat in content["caveats"]:
        console.print(f"note: {caveat}")
    console.print(f"{run.folder} {outcome}.", soft_wrap=True)

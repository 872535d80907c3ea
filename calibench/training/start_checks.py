"""The beginning of a run: checks of its options, its first checkpoint, and the moment its folder is written."""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    BatchSizeFinder,
    Callback,
    LearningRateFinder,
    StochasticWeightAveraging,
)

from calibench.data import ClassificationDataModule
from calibench.data.task import Multilabel
from calibench.messages.errors import ExpectedFailure, UsageError, near_matches
from calibench.messages.spelling import spell_argument
from calibench.plugins.import_paths import import_by_path
from calibench.run_configuration.parser_messages import shorten_parser_message
from calibench.runs import CorruptRun, Run
from calibench.training.checkpoints import read_checkpoint, refuse_other_network
from calibench.training.experiment import Experiment

# Packages whose callbacks watch nothing but what a run of ours logs.
_OF_OURS = ("calibench", "lightning", "pytorch_lightning")

# Smallest values of options that nothing else checks: a run would end in the middle, or train on nonsense.
_AT_LEAST = {
    "threads": 1,
    "checkpoint_every_n_steps": 0,
    "trainer.accumulate_grad_batches": 1,
    "trainer.check_val_every_n_epoch": 1,
    "trainer.gradient_clip_val": 0,
}
# Options that must have one value, with the reason.
_NOT = {
    "trainer.limit_val_batches": (0, "a run needs validation batches to be evaluated"),
    "trainer.limit_test_batches": (0, "a run needs test batches to be evaluated"),
    "trainer.val_check_interval": (0, "1.0 is once an epoch"),
    "trainer.enable_checkpointing": (False, "a run goes on from its last checkpoint"),
    "trainer.barebones": (True, "a run writes checkpoints and logits"),
}


def check_options(config: Any) -> None:
    """Raise a UsageError for option values with which no run can finish."""
    for name, minimum in _AT_LEAST.items():
        value = config[name]
        if value is not None and value < minimum:
            raise UsageError(f"`{name}` must be at least {minimum}, got {value}.")
    for name, (wrong, reason) in _NOT.items():
        value = config[name]
        if value == wrong and isinstance(value, bool) == isinstance(wrong, bool):
            raise UsageError(f"`{name}` must not be {str(wrong).lower()}: {reason}.")


# Callbacks of Lightning that change what a run's configuration says, with what to use in their place.
_REFUSED_CALLBACKS: dict[type[Callback], str] = {
    BatchSizeFinder: "would train with another batch size than is recorded: set `data.batch_size`",
    LearningRateFinder: (
        "would train with another learning rate than is recorded: set `model.optimizer.lr`, or compare several by "
        "`grid` of a suite"
    ),
    StochasticWeightAveraging: (
        "trains an epoch more than is recorded: use `protocols/swa`, whose callback is in "
        "`calibench.training.averaging`"
    ),
}


def check_callbacks(config: Any) -> None:
    """Raise a UsageError for a callback that would train otherwise than the configuration says."""
    callbacks = config.trainer.callbacks or []
    for callback in callbacks if isinstance(callbacks, list) else [callbacks]:
        cls = import_by_path(callback.class_path)
        for kind, reason in _REFUSED_CALLBACKS.items():
            if isinstance(cls, type) and issubclass(cls, kind):
                raise UsageError(f"`trainer.callbacks`: {cls.__name__} {reason}.")


def check_validations(trainer: L.Trainer, evaluated_checkpoint: str, batches: int) -> None:
    """Raise a UsageError where something waits for a validation, and the run ends before the first one.

    An epoch has so many `batches`, before what the trainer's limits leave of them.
    """
    interval, epochs_between = trainer.val_check_interval, trainer.check_val_every_n_epoch  # type: ignore[attr-defined]
    limit = trainer.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    if trainer.fast_dev_run or trainer.max_epochs == 0 or not batches:  # type: ignore[attr-defined]
        return
    if isinstance(interval, int) and epochs_between is not None and interval > batches:
        raise UsageError(
            f"`trainer.val_check_interval` is {interval}, and an epoch has {batches} batches: an integer of at most "
            "that, or a share of the epoch, is expected; with `trainer.check_val_every_n_epoch null` it counts the "
            "batches of all epochs."
        )
    within = interval if isinstance(interval, int) else max(1, int(batches * interval))
    first = within if epochs_between is None else (epochs_between - 1) * batches + within
    total = _count_training_batches(trainer, batches)
    waiting = (
        [] if evaluated_checkpoint == "last" else [f"`evaluated_checkpoint` {evaluated_checkpoint}"]
    )
    waiting += [
        f"{type(callback).__name__} of `{callback.monitor}`"
        for callback in trainer.callbacks  # type: ignore[attr-defined]
        if str(getattr(callback, "monitor", "")).startswith("val/")
    ]
    if waiting and total is not None and total < first:
        options = "`trainer.check_val_every_n_epoch` or `trainer.val_check_interval`"
        raise UsageError(
            f"the run ends after {total} training batches, before the first validation, which comes after {first}, and "
            f"{waiting[0]} needs one: lower {options}."
        )


def _count_training_batches(trainer: L.Trainer, batches: int) -> int | None:
    """Number of training batches of all epochs, of which each has some; None without an end."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    accumulated = trainer.accumulate_grad_batches
    totals = [] if epochs in (None, -1) else [epochs * batches]
    if steps != -1:
        steps_per_epoch = -(-batches // accumulated)
        whole_epochs, remaining_steps = divmod(steps, steps_per_epoch)
        totals.append(whole_epochs * batches + min(remaining_steps * accumulated, batches))
    return min(totals, default=None)


class ValidationCheck(Callback):
    """Refuses a run that ends before a validation that something waits for, before anything is written."""

    def __init__(self, evaluated_checkpoint: str) -> None:
        self.evaluated_checkpoint = evaluated_checkpoint

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check; the data know by now how many batches an epoch has."""
        data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
        check_validations(trainer, self.evaluated_checkpoint, data.training_batches)


class FitLengthCheck(Callback):
    """Refuses a calibrator whose fit at the end of a run would take too long, before anything is trained."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check; the data know by now how many validation examples there are."""
        data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
        if isinstance(data.task, Multilabel):
            return  # a label is one of two classes
        batches, n = trainer.limit_val_batches, data.set_size("val")
        n = min(n, batches * data.batch_size) if isinstance(batches, int) else int(n * batches)
        for calibrator in self.experiment.evaluation.named().values():
            if reason := calibrator.describe_long_fit(n, data.num_classes):
                raise UsageError(f"`evaluation.calibrators`: {reason}")


def check_monitors(trainer: L.Trainer, logged: Collection[str]) -> None:
    """Raise a UsageError for a callback that watches what no run logs; callbacks of others may log more."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    are_ours = [type(member).__module__.partition(".")[0] in _OF_OURS for member in callbacks]
    for callback in callbacks if all(are_ours) else ():
        name = getattr(callback, "monitor", None)
        if name is not None and name not in logged:
            near = near_matches(name, logged) or f"; there are {', '.join(logged)}"
            raise UsageError(
                f"`trainer.callbacks`: {type(callback).__name__} watches `{name}`, which is not logged{near}"
            )


def first_checkpoint(experiment: Experiment, run: Run, *, warn: bool) -> str | None:
    """The checkpoint to start from: the given one, or else the run's own last one; None to start anew.

    It may `warn` of a damaged checkpoint, without which the run starts anew.
    """
    requested, last = experiment.config.ckpt_path, run.checkpoints / "last.ckpt"
    if requested not in (None, "last"):
        return str(requested)
    if not last.is_file() or (requested is None and experiment.config.overwrite):
        return None
    try:
        read_checkpoint(last)
    except CorruptRun as error:
        if warn:
            warnings.warn(f"{error}; the run starts anew.", stacklevel=2)
        return None
    return str(last)


class Beginning(Callback):
    """Writes status.json and config.yaml right before the first step, when everything was accepted.

    What begins `anew` removes the checkpoints of an earlier training, from which nothing must go on.
    """

    def __init__(self, run: Run, config: str, *, anew: bool) -> None:
        self.run, self.config, self.anew = run, config, anew
        self.over = False

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """From here on an error is no refusal."""
        self.over = True

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the two files."""
        if not trainer.is_global_zero:
            return
        self.run.write_status("running")
        self.run.write_config(self.config)
        for path in self.run.checkpoints.glob("*.ckpt") if self.anew else ():
            path.unlink()


@contextmanager
def refuse_in_one_line(beginning: Beginning, checkpoint: str | None) -> Iterator[None]:
    """Turn errors of data, checkpoint, optimiser or schedule before training begins into one-line UsageErrors."""
    anew = spell_argument("overwrite", "true", python="True")
    other = f"holds another network or loss than this configuration ({anew} starts anew)."
    try:
        with refuse_other_network(f"{checkpoint} {other}"):
            yield
    except (UsageError, ExpectedFailure):
        raise
    except (ValueError, TypeError, MisconfigurationException) as error:
        if beginning.over:
            raise
        raise UsageError(shorten_parser_message(str(error))) from error

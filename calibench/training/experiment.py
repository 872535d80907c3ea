"""Experiment: the trainer, module, data module and evaluation that a configuration describes."""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer, loggers
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from calibench import backbones, calibrators, data, losses
from calibench.configuration.merging import Config
from calibench.data import ClassificationDataModule
from calibench.evaluation import Evaluation
from calibench.evaluation.extra_metrics import import_metrics
from calibench.evaluation.serialization import fill_defaults
from calibench.messages.errors import UsageError, pip_install
from calibench.messages.printable_text import relative_word
from calibench.messages.spelling import spell_argument, spell_key
from calibench.parallel.threads import use_threads
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import load_plugins, reach_own_classes
from calibench.run_configuration.adapters import wrap_foreign_classes
from calibench.run_configuration.checks import check_configuration
from calibench.run_configuration.keys import RunKeys
from calibench.run_configuration.parser_messages import Parser, shorten_parser_message
from calibench.runs import Run, RunId, effective_settings
from calibench.training.checkpoints import AtomicCheckpointIO
from calibench.training.distributed import (
    Replicas,
    build_cluster_plugins,
    describe_devices_remedy,
    follow_launcher,
    lacks_bfloat16,
    plan_replicas,
    replace_float16_on_cpu,
)
from calibench.training.module import ClassificationModule
from calibench.training.per_epoch_test import Trace


def _quiet() -> None:
    """Silence Lightning's tips and device lines, and its warnings about our own choices."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for text in (
        ".*does not have many workers.*",
        ".*LeafSpec.*is deprecated.*",
        "Checkpoint directory .* exists and is not empty.*",
        ".*there is no last checkpoint available.*",
        ".*`srun` command is available.*",
        "GPU available but not used.*",  # whoever has one and trains on the CPU has said so
        ".*is smaller than the logging interval.*",
        ".*sync_dist=True.*",  # what we log is computed from all processes already
        ".*callbacks used to create the checkpoint need to be provided.*",
        ".*JsonargparseDeprecationWarning.*",
    ):
        warnings.filterwarnings("ignore", text)


_REFUSALS = (
    ValueError, TypeError, ImportError, RuntimeError, ArithmeticError, MisconfigurationException,
)  # fmt: skip


@contextmanager
def _refusals(key: str = "", hint: str = "") -> Iterator[None]:
    """Turn errors of constructors into one-line UsageErrors, which name a key where the error names nothing."""
    try:
        yield
    except UsageError:
        raise
    except _REFUSALS as error:
        text = shorten_parser_message(str(error))
        if "can not run on your system" in text:
            text = "there is no such device here"
        if text.startswith("`devices` selected with"):
            count, kind = spell_key("trainer.devices", "N"), spell_key("trainer.accelerator", "gpu")
            text = f"{count} is a number of devices; their kind is {kind}."
        raise UsageError(text if not key or "`" in text else f"`{key}`: {text}{hint}") from error


# --- loggers of Lightning by a short name ---


def _tensorboard(folder: Path, name: str) -> loggers.Logger:
    return loggers.TensorBoardLogger(
        folder / "tensorboard", name, version="", default_hp_metric=False
    )


def _mlflow(folder: Path, name: str) -> loggers.Logger:
    benchmark, _, run_name = name.partition("/")
    place = os.environ.get("MLFLOW_TRACKING_URI")
    if not place:
        # a folder needs no database; 3.x asks
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        place = (folder / "mlruns").absolute().as_uri()
    return loggers.MLFlowLogger(benchmark, run_name=run_name, tracking_uri=place)


def _wandb(folder: Path, name: str) -> loggers.Logger:
    benchmark, _, run_name = name.partition("/")
    place = folder / "wandb"
    place.mkdir(parents=True, exist_ok=True)
    return loggers.WandbLogger(run_name, place, project=benchmark)


LOGGERS: dict[str, Callable[[Path, str], loggers.Logger]] = {
    "csv": lambda folder, name: loggers.CSVLogger(folder / "csv", name),
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}


def build_logger(kind: str, run_id: RunId, root: Path) -> loggers.Logger:
    """The logger of a run, which keeps its files below the folder of results unless it sends them elsewhere.

    TensorBoard, CSV: `root/<kind>/<benchmark>/...`, named as the run folder. MLflow: the server of MLFLOW_TRACKING_URI,
    or else `root/mlruns`; an experiment for each benchmark. W&B: a project for each benchmark, as the account or
    WANDB_MODE says. Raises a UsageError if its library is not installed.
    """
    try:
        return LOGGERS[kind](root, run_id.folder(Path()).as_posix())
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{spell_argument('logger', kind)} needs a library: {pip_install(kind)}"
        ) from error


# --- the experiment ---

GROUP_CLASSES: dict[str, type] = {
    "trainer": Trainer,
    "model": ClassificationModule,
    "evaluation": Evaluation,
    "trace": Trace,
}
"""The classes whose arguments the groups of keys hold: `KEY_GROUPS` are those of the table."""

_PARSERS: dict[type, Any] = {}  # by class of experiment


class Experiment(LightningCLI):
    """A resolved configuration, and the objects that it describes once `build` was called.

    Every verb uses the same parser, so the config.yaml of a run works with all of them.

    Args:
        config: Merged files and options, as `calibench.configuration.building.build_configuration` gives them.
        questions: Options that the parser answers and then exits (`--print_config`, `--model.loss.help FocalLoss`).
        trusted: Whether the configuration may name classes of the current folder; one of strangers may not.

    Raises:
        TypeError: If the configuration is no mapping.
        UsageError: For a mistake in it, in one line.
        SystemExit: After the answer to a question.
    """

    def __init__(
        self, config: Config, questions: Sequence[str] = (), *, trusted: bool = True
    ) -> None:
        if not isinstance(config, dict):
            raise TypeError(
                f"`config` must be a dict, as `merging.configuration` gives it, got {type(config).__name__}."
            )
        if trusted and not questions:  # it imports the classes that are named
            check_configuration(config)
        self._asked = bool(questions)
        for family in (losses, backbones, calibrators, data):
            import_exports(family)  # a class is found by its name once it is imported
        (reach_own_classes if trusted else load_plugins)()
        _quiet()
        self.merged = config = wrap_foreign_classes(config)
        super().__init__(
            ClassificationModule,
            ClassificationDataModule,
            subclass_mode_data=True,
            save_config_callback=None,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
            seed_everything_default=1,
            trainer_defaults={"logger": False, "enable_model_summary": False},
            parser_class=Parser,
            parser_kwargs={
                "allow_abbrev": False,
                "prog": "calibench fit",
                "description": "Every key of a configuration; `calibench fit --help` is the short of it.",
            },
            run=False,
            args=[*(["--config", json.dumps(config, default=str)] if config else []), *questions],
        )

    def setup_parser(self, *args: Any, **kwargs: Any) -> None:
        """Take the parser of the process's first experiment: it is the same for all, and building it is half of one.

        One that answers questions is built anew, as it has noted them when it exits.
        """
        shared = None if self._asked else _PARSERS.get(type(self))
        if shared is not None:
            self.parser = shared
            return
        super().setup_parser(*args, **kwargs)
        if not self._asked:
            _PARSERS[type(self)] = self.parser

    def parse_arguments(self, parser: Parser, args: Any) -> None:  # type: ignore[override]
        """Parse the given arguments; the stock method warns if they are not the process's own."""
        self.config = parser.parse_args(args)
        import_metrics(self.config.evaluation.metrics or ())
        follow_launcher(self.config.trainer)
        self.lacks_float16 = replace_float16_on_cpu(self.config.trainer)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add calibench's own keys."""
        parser.add_class_arguments(RunKeys, instantiate=False)
        parser.add_class_arguments(Evaluation, "evaluation")
        parser.add_class_arguments(Trace, "trace", instantiate=False)
        parser.link_arguments("data.num_classes", "model.num_classes", apply_on="instantiate")
        parser.link_arguments(
            "data.num_outputs", "model.backbone.init_args.num_classes", apply_on="instantiate"
        )
        parser.link_arguments("data.task", "model.task", apply_on="instantiate")

    def instantiate_classes(self) -> None:
        """Do nothing yet; `build` does."""

    @cached_property
    def resolved(self) -> Config:
        """The configuration with every default, as plain data, and `processes` if their number changes the result.

        Nobody changes it: the key, the metadata and the evaluation are read from the same one.
        """
        resolved: Config = json.loads(
            self.parser.dump(self.config, format="json", skip_none=False, skip_validation=True)
        )
        resolved.pop("config", None)
        if self.caveats:
            resolved["processes"] = self.replicas.count
        return resolved

    def yaml(self) -> str:
        """The resolved configuration as YAML, from which the run can be repeated."""
        config = self.config.clone()
        if config.trainer.default_root_dir:
            config.trainer.default_root_dir = relative_word(str(config.trainer.default_root_dir))
        return str(self.parser.dump(config, skip_none=False, skip_validation=True))

    @property
    def trace(self) -> Trace:
        """The trace: what the run records beside its result; raises a UsageError if its arguments are wrong."""
        with _refusals():
            return Trace(**vars(self.config.trace))

    @cached_property
    def replicas(self) -> Replicas:
        """The processes that train the run; raises a UsageError if the devices do not exist."""
        with _refusals("trainer.accelerator", describe_devices_remedy()):
            return plan_replicas(self.config.trainer)

    @cached_property
    def caveats(self) -> list[str]:
        """Reasons why several processes give another result than one; to find them, the network is built."""
        if self.replicas.count == 1:
            return []
        return self.replicas.caveats(self._built["model"].backbone)

    @property
    def goes_on_in_float32(self) -> bool:
        """Whether bfloat16 is asked for, and the CPU has no instructions for it."""
        return lacks_bfloat16(self.config.trainer)

    @cached_property
    def _built(self) -> Any:
        """The objects that the configuration describes, except the trainer."""
        use_threads(self.config.threads)
        with _refusals():
            return self.parser.instantiate_classes(self.config)

    @property
    def run_id(self) -> RunId:
        """The identity of the run."""
        return RunId.from_config(self.resolved)

    @property
    def run(self) -> Run:
        """The run folder, below `trainer.default_root_dir`."""
        return Run(self.run_id.folder(self.root))

    @property
    def run_of_one_process(self) -> Run:
        """The run folder for one process; up to version 0.1.0 it was that for any number of processes."""
        return Run(RunId.from_config({**self.resolved, "processes": None}).folder(self.root))

    @property
    def root(self) -> Path:
        """The folder of results."""
        return Path(self.config.trainer.default_root_dir or "results")

    def build(self, callbacks: Sequence[Callback] = (), **trainer_options: Any) -> None:
        """Build trainer, module and data module; further options of the trainer go before the configuration's."""
        self.trainer_defaults["callbacks"] = list(callbacks)
        self.config_init = self._built
        self.datamodule = self.config_init["data"]
        self.model = self.config_init["model"]
        self.evaluation: Evaluation = self.config_init["evaluation"]
        if self.config.logger:
            if self.config.trainer.logger:
                raise UsageError(
                    "`logger` and `trainer.logger` exclude each other: give one of them."
                )
            logger = build_logger(self.config.logger, self.run_id, self.root)
            logger.log_hyperparams(effective_settings(self.resolved))
            trainer_options["logger"] = logger
        # One process has nothing to synchronise, and its key keeps the configuration's value.
        if self.replicas.count > 1:
            trainer_options.setdefault("sync_batchnorm", self.replicas.synchronised)
        if self.goes_on_in_float32:
            trainer_options.setdefault("precision", "32-true")
        configured_plugins = self.config_init["trainer"].get("plugins") or []
        plugins = (
            [*configured_plugins] if isinstance(configured_plugins, list) else [configured_plugins]
        )
        plugins += [AtomicCheckpointIO(), *build_cluster_plugins(plugins)]
        with _refusals("trainer", describe_devices_remedy()):
            self.trainer = self.instantiate_trainer(plugins=plugins, **trainer_options)

    @property
    def evaluation_settings(self) -> Config:
        """The settings of the evaluation, with every default."""
        return fill_defaults(self.resolved["evaluation"])

"""Keys of a configuration: calibench's own, and the families of the classes that stand at others."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_type_hints

from calibench.backbones import BACKBONES
from calibench.backbones.spellings import expand_network_name, list_library_networks
from calibench.calibrators import CALIBRATORS
from calibench.configuration.files import benchmarks_folder, list_configuration_files
from calibench.configuration.merging import short_name
from calibench.data import DATA_MODULES
from calibench.losses import LOSSES
from calibench.messages.errors import UsageError, did_you_mean, near_matches
from calibench.messages.outside_models import describe_outside_model
from calibench.messages.spelling import is_command_line
from calibench.metrics import METRIC_CLASSES
from calibench.plugins.registries import Family, installed_plugins
from calibench.run_configuration.class_arguments import (
    Absent,
    Arguments,
    find_arguments,
    has_newer_class,
    list_exported,
)


@dataclass(frozen=True)
class RunKeys:
    """Keys that are in no group.

    Attributes:
        benchmark: Name of the benchmark in tables and folders (default: the file that names the data).
        evaluated_checkpoint: Which checkpoint is evaluated: the last epoch's, or the one of the lowest validation
            error, NLL or NLL after a temperature of its own (refinement early stopping).
        checkpoint_every_n_steps: Also checkpoint within epochs (0: never).
        threads: CPU threads of this run; more change the last bits.
        overwrite: Start anew although the run is done, or was cut short.
        logger: Where the curve, the settings, the reliability diagram and the table of the run are kept as well; needs
            the extra of that name. Any other logger of Lightning's, with its arguments: `trainer.logger`.
        ckpt_path: Checkpoint file to start from (default: the run folder's last one).
    """

    benchmark: str = "custom"
    evaluated_checkpoint: Literal["last", "best_error", "best_nll", "best_refinement"] = "last"
    checkpoint_every_n_steps: int = 0
    threads: int = 1
    overwrite: bool = False
    logger: Literal["csv", "mlflow", "tensorboard", "wandb"] | None = None
    ckpt_path: str | None = None


KEY_TYPES = get_type_hints(RunKeys)
SEED_KEY = "seed_everything"

# The groups, by what the table of arguments calls the class whose arguments they hold: `training.experiment` has it.
KEY_GROUPS = {
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
    "model": "model",
    "evaluation": "evaluation",
    "trace": "trace",
}
# Arguments that the program fills in.
LINKED = ("num_classes", "task")

# What the help of `fit` and that of `sweep` say of keys.
KEYS_HELP = """\
    --model.backbone CLASS                              a network; any as mymodule.MyNet, timm:resnet18, hf:PATH
    --data CLASS --data.ARGUMENT VALUE                  data; any LightningDataModule as mymodule.MyDataModule
    --benchmark NAME                                    name for titles and for the folder below results/ (default:
                                                        the name of the file that configures the data; with --data,
                                                        the name of the data's folder or file)
    --trainer.max_epochs 10
    --trainer.default_root_dir DIR                      the folder of results
    --logger tensorboard|mlflow|wandb|csv               also log the curves, the settings, the reliability diagram and
                                                        the table there (install the extra of that name)
    --trainer.logger CSVLogger --trainer.logger.save_dir DIR    any Lightning logger, with its arguments
    --evaluation.calibrators+=VectorScaling  --evaluation.n_bins '[15, 20]'
    --evaluated_checkpoint last|best_error|best_nll|best_refinement    (best: on the validation set)
    --trace.test_metrics true  --trace.checkpoints '[50, 150]'  for curves: test metrics of every epoch (never
                                                        used for selection), checkpoints of these epochs
"""


FAMILIES = {
    family.kind: family for family in (LOSSES, METRIC_CLASSES, CALIBRATORS, BACKBONES, DATA_MODULES)
}

# Base classes among what torch and Lightning export.
_BASES = ("Optimizer", "LRScheduler", "Callback", "Checkpoint", "Logger", "Profiler", "ProgressBar")


@dataclass(frozen=True)
class ClassPlace:
    """A place of a configuration at which classes of one family stand.

    Attributes:
        package: The package whose classes may be named by their short names.
        family: Our own family, if the classes are of one.
        stand_in: The class that stands for one that fulfils no contract of ours, and takes its arguments.
        filled_in: How many arguments the program gives in front.
        short: What makes of a short spelling the block that it stands for, and leaves all else as it is.
        elsewhere: The short names of other libraries' classes.
    """

    package: str
    family: Family | None = None
    stand_in: str = ""
    filled_in: int = 0
    short: Callable[[Any], Any] = lambda given: given
    elsewhere: Callable[[], Iterable[str]] = tuple

    @property
    def names(self) -> list[str]:
        """The short names."""
        if self.family is not None:
            return list(self.family.entries())
        return [name for name in list_exported(self.package) if name not in _BASES]

    def arguments(self, path: str, named: Collection[str] = ()) -> Arguments | None:
        """The arguments that a configuration may give to a class, by its name or import path; None if it takes any.

        `named` are those that it gives. Raises Absent if there is no such class.
        """
        module, _, name = path.rpartition(".")
        family = self.family
        if family is not None and module in ("", self.package):
            if name == self.stand_in:
                return None
            if name in family.lines:
                return find_arguments(self._path(name))
            if not module and installed_plugins(family.kind):  # which may bring more than they name
                return None
            if not module or name[0].isupper():
                raise Absent("")
        elif not module:
            if name not in self.names and (
                name in _BASES or not has_newer_class(self.package, name)
            ):
                raise Absent("")
            path = f"{self.package}.{name}"
        class_arguments = find_arguments(path, named)
        if class_arguments is None or not self.stand_in:
            return class_arguments and dict(list(class_arguments.items())[self.filled_in :])
        others = find_arguments(self._path(self.stand_in)) or {}
        return dict.fromkeys(others, False) | class_arguments

    def classes_with(self, argument: str) -> list[str]:
        """The classes of this place that take an argument: those that need it first, then short names."""
        if self.family is None:
            paths = {name: f"{self.package}.{name}" for name in self.names}
        else:
            paths = {name: self._path(name) for name in self.family.lines}
        names = list(paths)
        arguments = {name: find_arguments(path) or {} for name, path in paths.items()}
        classes = [name for name in names if argument in arguments[name]]
        return sorted(classes, key=lambda name: (not arguments[name][argument], len(name), name))

    def _path(self, name: str) -> str:
        """The import path of a class of our own family."""
        assert self.family is not None
        return f"{self.family.modules.get(name, self.package)}.{name}"

    def no_class(self, key: str, path: str, reason: str = "", names: Iterable[str] = ()) -> str:
        """One line about a path that is no class, with Python's reason, and near names of its module or the place."""
        takes_functions = short_name(path)[:1].islower()
        initials = str.isalpha if takes_functions else str.isupper
        public = [name for name in names if initials(name[0]) and name not in _BASES]
        missing = reason.startswith("No module named") and not reason.count(".")
        name = short_name(path)
        others = [] if "." in path else get_close_matches(name, self.elsewhere(), 2, 0.8)
        candidates = public or [*self.names, *others]
        alias = self.family.answer_alias(path) if self.family is not None else ""
        module = f"{path.rpartition('.')[0]}." if public else ""
        first, _, remaining_path = path.partition(".")
        if missing and first in _ABBREVIATIONS:
            alias = did_you_mean([f"{_ABBREVIATIONS[first]}.{remaining_path}"])
        near = alias or ("" if missing else near_matches(name, candidates, prefix=module))
        if "-" in path:
            near = near or self._near_without_hyphens(path)
        if self.family is LOSSES and (file := loss_file(path) or loss_file(_plain_name(path))):
            return f"`{key}`: no class `{path}`: {file} sets a loss of that name."
        if (
            self.family is LOSSES
            and (file := f"protocols/{_plain_name(path)}") in list_configuration_files()
        ):
            option = f"`--config {file}`" if is_command_line() else f'`overlays="{file}"`'
            return f"`{key}`: no class `{path}`: {option} sets a protocol of that name."
        if self.family is BACKBONES:
            near = describe_outside_model(name) or near
        explanation = f" ({reason})" if reason and not near else ""
        remedy = "" if near else self._remedy(reason)
        return f"`{key}`: no class `{path}`{near}{explanation}{remedy}"

    def _near_without_hyphens(self, name: str) -> str:
        """Names that differ in hyphens alone, `resnet50` for `ResNet-50`; of a network else where models may be."""
        folded = re.sub(r"[-_]", "", name.lower())
        names = [*self.elsewhere(), *self.names]
        same = [entry for entry in names if re.sub(r"[-_]", "", entry.lower()) == folded]
        if same or self.family is not BACKBONES:
            return did_you_mean(same) or near_matches(name.replace("-", "_"), names)
        return f": a model of Hugging Face is `hf:{name}`, one of timm `timm:NAME`"

    def _remedy(self, reason: str) -> str:
        if reason.startswith("No module"):
            return ": install it, or run where its file is"
        if self.family is not None:
            return f" (see `calibench list {self.family.kind}`)"
        return f"; there are {', '.join(self.names)}"


_ABBREVIATIONS = {
    "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim", "models": "torchvision.models",
    "tv": "torchvision", "pl": "lightning.pytorch", "L": "lightning", "tm": "torchmetrics",
}  # fmt: skip
"""Names under which scripts import modules, with the modules."""


def _plain_name(name: str) -> str:
    """The name that a file of a loss may have: `focal` of `focal_loss`."""
    return name.lower().replace("-", "_").removesuffix("loss").rstrip("_")


def loss_file(name: str) -> str:
    """The option that names the file of a loss, by the file's name or the loss's class; empty if there is none."""
    file = find_loss_file(name)
    if file is None:
        return ""
    name = file.stem
    return "`--config losses/" + name + "`" if is_command_line() else f'`overlays="losses/{name}"`'


def find_loss_file(name: str) -> Path | None:
    """The file of a loss, by the file's name or the loss's class; None if there is none."""
    folder = benchmarks_folder() / "losses"
    if (file := folder / f"{name}.yaml").is_file():
        return file
    pattern = re.compile(rf"^model:\n  loss:\n    class_path: {re.escape(name)}$", re.M)
    files = [
        file for file in sorted(folder.glob("*.yaml")) if pattern.search(file.read_text("utf-8"))
    ]
    return min(files, key=lambda file: len(file.stem), default=None)


_LOSSES = ClassPlace(LOSSES.package, LOSSES, "ImportedLoss")
_CALIBRATORS = ClassPlace(CALIBRATORS.package, CALIBRATORS)
# By the last part of a key that says it.
_PLACES = {
    "loss": _LOSSES,
    "losses": _LOSSES,
    "backbone": ClassPlace(
        BACKBONES.package,
        BACKBONES,
        "ImportedBackbone",
        short=expand_network_name,
        elsewhere=list_library_networks,
    ),
    "calibrator": _CALIBRATORS,
    "calibrators": _CALIBRATORS,
    "data": ClassPlace(DATA_MODULES.package, DATA_MODULES, "ImportedDataModule"),
    "optimizer": ClassPlace("torch.optim", filled_in=1),
    "lr_scheduler": ClassPlace("torch.optim.lr_scheduler", filled_in=1),
    "step_scheduler": ClassPlace("torch.optim.lr_scheduler", filled_in=2),
    "callbacks": ClassPlace("lightning.pytorch.callbacks"),
    "logger": ClassPlace("lightning.pytorch.loggers"),
}


def find_class_place(key: str) -> ClassPlace | None:
    """The family of the classes that stand at a dotted key, by the last part of the key that names one."""
    parts = (part.partition("[")[0] for part in reversed(key.split(".")))
    return next((_PLACES[part] for part in parts if part in _PLACES), None)


def expand_short_name(key: str, value: Any) -> Any:
    """Expand a short spelling at a dotted key into the block it stands for; raises a UsageError for a wrong one."""
    place = find_class_place(key)
    try:
        return place.short(value) if place is not None else value
    except UsageError as error:
        raise UsageError(f"`{key}`: {error}") from None

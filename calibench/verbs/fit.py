"""`calibench.fit` and `calibench fit`: train one run, save its logits, evaluate them, write the run folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from calibench.configuration.building import build_configuration
from calibench.configuration.files import load_configuration_file
from calibench.configuration.merging import Config
from calibench.configuration.run_arguments import read_arguments
from calibench.files.table_file import TABLE_KINDS, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.messages.printable_text import loading, say, wrap_text
from calibench.predictions.file_names import is_a_file
from calibench.predictions.training_tables import describe_training_table
from calibench.run_configuration.class_spellings import refuse_network_as_file
from calibench.run_configuration.keys import KEYS_HELP
from calibench.runs import Predictions, Run, read_json
from calibench.tables.metric_titles import initials, metric_named
from calibench.verbs.python_types import refuse_unknown_keywords

if TYPE_CHECKING:
    import pandas as pd
    from lightning.pytorch import LightningDataModule
    from torch import nn

    from calibench.losses import CalibrationLoss
    from calibench.verbs.python_types import CalibratorLike, Loader, PathLike

FIT_HELP = f"""\
usage: calibench fit --config FILE [--config OVERLAY ...] [--KEY VALUE ...]

Train one run, save the logits of the validation, test and out-of-distribution (OOD) sets, and evaluate them raw and
after each calibrator. Calibrators are fitted on the validation set only. The run folder
results/<benchmark>/<backbone>/<loss>/<key>/seed=<k>/ contains all results.

  --config FILE        a benchmark, or an overlay that changes a part of it; a path or a short name (see
                       `calibench list benchmarks`). Later files override earlier ones; if one names
                       another class, the arguments of the earlier class are dropped.
  --KEY VALUE          any key of the configuration, for instance:
    --model.loss CLASS --model.loss.ARGUMENT VALUE      a loss; your own as mymodule.MyLoss, or mymodule.my_function
{KEYS_HELP}    --seed 2
    --trainer.accelerator gpu  --trainer.devices 2
  --overwrite true     start again. Without it, a finished run is not repeated, and an interrupted run resumes from
                       its last checkpoint and ends with the same numbers.
  --ckpt_path FILE     start from this checkpoint
  --print_config       print the resolved configuration, which `--config` accepts

  calibench fit --model.loss.help FocalLoss    the arguments of a class
  calibench fit --help-all                     all keys

To try several values of a key and choose the best one on the validation set, use `grid` and `select` in a suite (see
`calibench sweep --help`).
"""


_NAMES_OF_OTHERS = {
    **dict.fromkeys(
        ("history", "log", "logs", "curves", "history_"),
        '`pandas.read_csv(run.folder / "metrics.csv")` has the curves',
    ),
    **dict.fromkeys(
        ("model", "network", "module", "net", "state_dict", "weights", "trainer", "best_model"),
        '`torch.load(run.checkpoint)["state_dict"]` has the trained weights; `calibench export RUN` writes a program',
    ),
    **dict.fromkeys(("results", "report", "summary", "scores"), "`print(run)` shows its table"),
    **dict.fromkeys(("to_pandas", "to_df", "df", "to_dataframe"), "`run.frame()` is a data frame"),
    **dict.fromkeys(
        ("predict", "predict_proba", "logits", "probs", "y_pred"),
        '`run.predictions["test"].logits` are the logits of the test set',
    ),
    **dict.fromkeys(("ece", "nll", "brier", "error"), '`run["ece"]` is a value'),
    "accuracy": '`1 - run["error"]` is the accuracy',
    **dict.fromkeys(
        ("calibrator", "temperature", "calibrate"),
        '`calibench.calibrate(run.predictions["val"])` fits a calibrator',
    ),
    **dict.fromkeys(("plot", "figure"), "`calibench plot reliability RUN -o r.png` draws it"),
    **dict.fromkeys(("path", "dir", "output_dir", "save_dir"), "`run.folder` is the folder"),
}
"""Attributes of trained models in other libraries, with what to write here."""


@dataclass(frozen=True)
class FittedRun(ExplainsForeignMethods):
    """A finished run: its folder, predictions and numbers.

    Attributes:
        folder: The run folder.
        outcome: "done" if it was trained now, "skipped" if it was done already.
    """

    foreign_methods = _NAMES_OF_OTHERS
    __iter__ = None

    folder: Path
    outcome: Literal["done", "skipped"] = "done"

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The content of metrics.json."""
        return read_json(self.folder / "metrics.json")

    @cached_property
    def predictions(self) -> dict[str, Predictions]:
        """The predictions of every set, by name, val and test first: `run.predictions["test"].logits`, (N, K)."""
        return {name: Predictions.load(path) for name, path in Run(self.folder).sets().items()}

    @property
    def metrics(self) -> dict[str, float]:
        """The uncalibrated metrics of the test set, by name, as fractions, with the first number of bins."""
        values: dict[str, float] = {}
        for row in self.content["rows"]:
            if (row["split"], row["calibrator"]) == ("test", "raw") and not row.get("label"):
                values.setdefault(row["metric"], row["value"])
        return values

    @property
    def checkpoint(self) -> Path:
        """The file of the last checkpoint, with the trained weights."""
        return Run(self.folder).checkpoints / "last.ckpt"

    def value(self, metric: str, *, split: str = "test", calibrator: str = "raw") -> float:
        """The value of a metric on a set, raw or after a calibrator, a fraction; by the names that tables print.

        Raises:
            KeyError: If there is no such number; the message has near matches.
        """
        rows = self.content["rows"]
        names = {initials(row["calibrator"]): row["calibrator"] for row in rows}
        criteria = {
            "split": split,
            "calibrator": names.get(calibrator, calibrator),
            "metric": metric_named(metric),
        }
        for row in rows:
            if all(row[name] == value for name, value in criteria.items()) and not row.get("label"):
                return float(row["value"])
        for name, value in criteria.items():
            names_in_rows = dict.fromkeys(row[name] for row in rows)
            if value not in names_in_rows:
                near = (
                    near_matches(value, names_in_rows)
                    or f" (there are: {', '.join(names_in_rows)})"
                )
                raise KeyError(f"the run has no {name} `{value}`{near}")
        raise KeyError(f"the run has no {metric} of {split} for {calibrator}")

    def __getitem__(self, metric: str) -> float:
        return self.value(metric)

    __iter__ = None

    def frame(self) -> pd.DataFrame:
        """The numbers as a data frame, a row each."""
        import pandas as pd

        return pd.DataFrame(self.content["rows"])

    def __str__(self) -> str:
        from calibench.tables.evaluation import metrics_table
        from calibench.tables.text import markdown

        return f"{markdown(metrics_table(self.content))}\n{self.folder}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from calibench.tables.evaluation import metrics_table
        from calibench.tables.text import html

        return html(metrics_table(self.content))


@refuse_unknown_keywords(
    ": arguments of a loss belong to it, `loss=calibench.losses.FocalLoss(gamma=3)`, and keys of a configuration to "
    '`options`, `{"model.optimizer.lr": 0.1}`'
)
def fit(
    benchmark: PathLike | None = None,
    *,
    loss: str | CalibrationLoss | nn.Module | type | Any = None,
    network: str | nn.Module | type | Any = None,
    data: str | LightningDataModule | type | tuple[Loader, Loader, Loader] | Any = None,
    num_classes: int | None = None,
    seed: int = 1,
    epochs: int | None = None,
    calibrators: Sequence[CalibratorLike] | None = None,
    overlays: PathLike | Sequence[PathLike] = (),
    results: PathLike = "results",
    overwrite: bool = False,
    progress: bool = True,
    options: Mapping[str, Any] | None = None,
) -> FittedRun:
    """Train one run, save its logits, evaluate them raw and after calibrators, and write the run folder.

    A finished run is not trained again, and an interrupted one resumes from its last checkpoint and ends with the same
    numbers. The configuration, and the content of the objects that are passed, identify a run.

    Args:
        benchmark: A benchmark by its name in `calibench list benchmarks`, or a YAML file.
        loss: A training loss: an object, a class, a function of logits and targets, or a name.
        network: A network: an object (a copy of it is trained, from its weights), a class or function that makes one,
            or a name: "resnet18", "timm:resnet18".
        data: A data module: an object, a class or a name; or loaders for training, validation and test.
        num_classes: The number of classes, if loaders or a data module do not state it.
        seed: Seed of the run, >= 0.
        epochs: Number of epochs.
        calibrators: Names of calibrators, fitted on the validation set (default: the benchmark's).
        overlays: Further configuration files, merged over the benchmark.
        results: Folder of results; the run is below it in <benchmark>/<network>/<loss>/<key>/seed=<k>.
        overwrite: Start again, even if the run is finished or was interrupted.
        progress: Show a progress bar (lines without a terminal) and a summary of your own data; else print nothing.
        options: Any other keys of a configuration, as `calibench fit --help` names them:
            `{"model.optimizer.lr": 0.1}`.

    Returns:
        The run: `metrics`, `predictions`, `folder`, `value("ECE", calibrator="TS")`, `frame()`.

    Raises:
        ValueError: If a name or value is wrong; before training starts.

    Examples:
        >>> import calibench
        >>> from calibench.losses import FocalLoss
        >>> run = calibench.fit("digits_lt", loss=FocalLoss(gamma=3), seed=1, epochs=1, progress=False)
        >>> run.predictions["test"].logits.shape
        (359, 10)
        >>> 0 < run.value("ECE", calibrator="TS") < 1
        True
    """
    if benchmark is None and data is None:
        raise ValueError(
            "`benchmark` or `data` is needed: `calibench.fit('digits_lt')`, for instance."
        )
    overlay_files = [overlays] if isinstance(overlays, str | Path) else [*overlays]
    pairs: list[tuple[str, Any]] = []
    with loading():
        from calibench.run_configuration.python_objects import describe_loss, describe_object
        from calibench.training.fit import fit as train

    if data is not None:
        module = _loaders_as_module(data, num_classes) if isinstance(data, tuple | list) else data
        pairs.append(("data", describe_object(module)))
        if num_classes is not None and module is data:  # the module of loaders knows it
            pairs.append(("data.num_classes", num_classes))
        if benchmark is None:
            name = (
                module
                if isinstance(module, str)
                else getattr(module, "__name__", type(module).__name__)
            )
            pairs.append(("benchmark", str(name).rpartition(".")[2]))
    if network is not None:
        pairs.append(("model.backbone", describe_object(network)))
    if loss is not None:
        pairs.append(("model.loss", describe_loss(loss)))
    if epochs is not None:
        pairs.append(("trainer.max_epochs", epochs))
    if calibrators is not None:
        pairs.append(("evaluation.calibrators", [_named_calibrator(part) for part in calibrators]))
    pairs += [("seed_everything", seed), ("trainer.default_root_dir", str(results))]
    pairs += [("overwrite", True)] if overwrite else []
    pairs += (options or {}).items()
    files = [str(file) for file in ([] if benchmark is None else [benchmark]) + overlay_files]
    outcome, run = train(build_configuration(files, pairs), quiet=not progress)
    return FittedRun(run.folder, outcome)


def _named_calibrator(calibrator: CalibratorLike) -> Any:
    """The name of a calibrator's class, or the block of one with its arguments."""
    from calibench.calibrators import CALIBRATORS

    if isinstance(calibrator, str):
        CALIBRATORS.check(calibrator)
        return CALIBRATORS.class_of(calibrator)
    from calibench.evaluation.calibrator_files import describe_calibrator

    described = describe_calibrator(calibrator)
    return {"class_path": described["calibrator"], "init_args": described["arguments"]}


def _loaders_as_module(loaders: Sequence[Any], num_classes: int | None) -> Any:
    """A data module of loaders for training, validation and test."""
    if len(loaders) != 3:
        raise ValueError(
            f"`data` takes three loaders, for training, validation and test, got {len(loaders)}."
        )
    if num_classes is None:
        raise ValueError("`num_classes` is needed where `data` is loaders.")
    from calibench.data.given_loaders import GivenLoaders

    return GivenLoaders(*loaders, num_classes=num_classes)


# --- the command line: keys of a configuration ---


@dataclass
class TrainingWords:
    """A command line of keys of a configuration.

    Attributes:
        config: The configuration that it describes.
        questions: What the parser answers: `--print_config`, `--model.loss.help FocalLoss`.
        options: Options of the verb beside the configuration, by name.
        names: Names of all such options.
    """

    config: Config
    questions: Sequence[str] = ()
    options: dict[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()

    @classmethod
    def read(cls, words: Sequence[str], names: Sequence[str] = (), *, check: bool = True) -> Self:
        """Read and check words; raises a UsageError for a mistake in them, before anything slow is imported."""
        if words and not words[0].startswith("-") and is_a_file(words[0]):
            refuse_table_of_inputs(words[0])
            raise UsageError(_describe_file(words[0]))
        arguments = read_arguments(words)
        for key, value in arguments.options:
            if key == "data" and isinstance(value, str):
                refuse_table_of_inputs(value)
            if key == "model" and isinstance(value, str):
                refuse_network_as_file(value)
        keys = [pair for pair in arguments.options if pair[0] not in names]
        options = {key: value for key, value in arguments.options if key in names}
        line = cls(build_configuration(arguments.files, keys), arguments.questions, options, names)
        try:
            if check:
                line.check()
        except UsageError as error:
            raise UsageError(_name_file(str(error), words, arguments.files)) from error
        return line

    @property
    def is_about_class(self) -> bool:
        """Whether a class is asked about, which needs no whole configuration."""
        return any(word.startswith("--") and "help" in word for word in self.questions)

    def check_names(self) -> None:
        """Check names of keys, classes and arguments; no class is built."""
        from calibench.run_configuration import checks

        if not self.is_about_class:
            checks.check_configuration(self.config, self.names)

    def check(self) -> None:
        """Check names; a question about a class needs no whole configuration."""
        from calibench.run_configuration import checks, value_checks

        self.check_names()
        if not self.is_about_class:
            value_checks.check_data_values(self.config)
            value_checks.check_loss_values(self.config)
            value_checks.check_calibrator_values(self.config)
        for option, name in pairwise(self.questions):
            if option.endswith(".help") and not name.startswith("--"):
                checks.check_class_name(option.removeprefix("--").removesuffix(".help"), name)

    def answer_questions(self) -> None:
        """Answer the questions, and exit, if there are any."""
        if self.questions:
            from calibench.training.experiment import Experiment

            Experiment(self.config, self.questions)


def _name_file(fault: str, words: Sequence[str], files: Sequence[str]) -> str:
    """The fault of an option, with the file that has it as a key where no word does: it is taken out of the file."""
    match = re.match(r"unknown option `([\w.]+)`(.*)", fault)
    if not match or any(word.startswith(f"--{match[1]}") for word in words):
        return fault
    group = match[1].partition(".")[0]
    existing_files = [file for file in files if Path(file).is_file()]
    named = [file for file in existing_files if group in load_configuration_file(file)]
    if not named or match[2].startswith(" is no key"):
        return fault
    if match[2].startswith("; did you mean"):
        return f"{named[0]} has an unknown key `{match[1]}`{match[2]}"
    remedy = match[2].removeprefix(": ")
    return f"{named[0]} has an unknown key `{match[1]}`: take it out of the file; {remedy}"


def _describe_file(file: str) -> str:
    """One line about a file in place of a configuration: how predictions are scored, and how a table is trained on."""
    scores, path = f"`calibench evaluate {file}` scores it", Path(file)
    if path.suffix in (".pt", ".pth", ".ckpt"):
        applied = (
            f"`calibench calibrate --apply {file} --input FILE -o probs.npz` applies a calibrator"
        )
        return (
            f"`{file}` is no configuration: `--ckpt_path {file}` names a checkpoint, and {applied}."
        )
    if table_kind(path) not in TABLE_KINDS:
        return f"`{file}` is a file of predictions, and keys of a configuration are expected: {scores}."
    folder = re.sub(r"\W+", "_", path.name.partition(".")[0])
    return (
        f"`{file}` is no configuration: {scores}, if it holds predictions; `calibench new table {folder} --data "
        f"{file}` starts training on it, if it holds inputs."
    )


def refuse_table_of_inputs(file: str) -> None:
    """Raise a UsageError for a table of inputs and labels in place of a configuration: a command makes one of it."""
    path = Path(file)
    if table_kind(path) not in TABLE_KINDS or not path.is_file():
        return
    explanation = ""
    with suppress(OSError, ValueError):
        explanation = describe_training_table(open_table(path, is_silent=True), path)
    if keys := re.search(r"`(-+keys [^`]+)` reads it", explanation):
        raise UsageError(
            f"`{file}` is a file of predictions: `calibench evaluate {shlex.quote(file)} {keys[1]}` scores it."
        )
    if explanation:
        raise UsageError(f"`{file}` is no configuration: {explanation}")


def configuration_of(words: Sequence[str]) -> Config:
    """The configuration that a command line after `fit` describes; raises a UsageError for a mistake in it."""
    arguments = read_arguments(words)
    return build_configuration(arguments.files, arguments.options)


def say_help(words: Iterable[str], text: str) -> bool:
    """Print the help of a verb if words ask for it."""
    if not {"-h", "--help"} & set(words):
        return False
    say(*wrap_text(text).splitlines())
    return True


def fit_command(words: Sequence[str]) -> int:
    """Train one run from YAML files, collect its logits, evaluate them."""
    if say_help(words, FIT_HELP):
        return 0
    line = TrainingWords.read(words)
    with loading():
        from calibench.messages.terminal import Terminal
        from calibench.plots.trackers import keep_artefacts
        from calibench.training.fit import fit as train
    line.answer_questions()
    train(line.config, console=Terminal(), keep=keep_artefacts)
    return 0

"""Types of what the public functions take: arrays of any kind, files, networks with their loaders."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from calibench.messages.errors import did_you_mean, near_matches
from calibench.messages.other_options import UnknownOption

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from calibench.calibrators import Calibrator
    from calibench.predictions import ConfidencePairs, Predictions

Table: TypeAlias = "NDArray[Any] | Tensor | pd.DataFrame | pd.Series[Any] | Sequence[Any]"
"""Numbers (N, K) or (N,), or labels (N,): an array, a tensor, a data frame or series, or lists."""
PathLike: TypeAlias = "str | Path"
Loader: TypeAlias = "Iterable[Any]"
"""A `DataLoader`, or any iterable of batches `(inputs, labels)`, or of mappings with `labels`."""
Loaded: TypeAlias = "Predictions | ConfidencePairs"
"""What `calibench.load` gives of a file, or of one set of a run."""
PredictionSet: TypeAlias = (
    "PathLike | Sequence[PathLike] | tuple[Table, Table] | Table | Loader | Loaded"
)
"""Predictions: a file (several are an ensemble's members), scores with labels, scores alone, or a loader."""
Labels: TypeAlias = "Table | Loader"
NamedSets: TypeAlias = "Mapping[str, PredictionSet] | Sequence[str]"
"""Sets by name; or texts `NAME=FILE`."""
CalibratorLike: TypeAlias = "str | Calibrator"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def refuse_positional(
    maximum: int, right_call: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Refuse more positional arguments than a function has, with the call that is meant.

    `evaluate(val_logits, val_labels, test_logits, test_labels)` reads as well the other way round, so nobody guesses.
    """

    def refusing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def call(*args: Arguments.args, **named: Arguments.kwargs) -> Result:
            _refuse_model(function, args, named)
            if len(args) > maximum:
                name = function.__name__
                right = _spell_calibrator(function, args[maximum:]) or right_call
                raise TypeError(
                    f"`calibench.{name}` takes {maximum} positional arguments, the test set, "
                    f"got {len(args)}: {right}"
                )
            _check_keywords(function, named, "", args)
            return function(*args, **named)

        return call

    return refusing


def refuse_unknown_keywords(
    remedy: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Refuse a keyword that a function lacks, with the names that are close to it, or what to write where none is."""

    def refusing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def call(*args: Arguments.args, **named: Arguments.kwargs) -> Result:
            _check_positional(function, args)
            _check_keywords(function, named, remedy, args)
            return function(*args, **named)

        return call

    return refusing


_KEYWORD_SYNONYMS = {
    "method": ("calibrator", "calibrators"), "preds": ("predictions",), "probs": ("predictions",),
    "logits": ("predictions",), "target": ("labels",), "y_true": ("labels",), "y": ("labels",),
    **dict.fromkeys(("y_prob", "y_pred", "y_score", "y_proba", "p", "x"), ("predictions", "labels")),
    "metric": ("metrics",), "sort_by": ("rank_by",), "sort": ("rank_by",), "by": ("rank_by",), "n": ("top",),
    **dict.fromkeys(("config", "configuration", "config_file", "yaml", "dataset"), ("benchmark", "data")),
    "model": ("network",), "backbone": ("network",), "max_epochs": ("epochs",), "num_epochs": ("epochs",),
    **dict.fromkeys(("verbose", "show_progress", "progress_bar", "quiet", "silent"), ("progress",)),
}  # fmt: skip
"""Names of arguments in other libraries, with ours."""


_KEYWORD_HINTS = {
    "dry_run": ": the command line alone lists the runs without training (`calibench help sweep`)",
    "num_seeds": ": `seeds=[1, 2, 3]` are three seeds",
    **dict.fromkeys(
        ("reliability.save", "reliability.output", "reliability.path", "reliability.filename"),
        ': it returns the axes, `calibench.reliability(logits, labels).figure.savefig("reliability.png")`',
    ),
    **dict.fromkeys(
        ("val_logits", "val_labels", "val_probs", "val_target", "X_val", "y_val"),
        ": the validation set is `val=(logits, labels)`",
    ),
    **dict.fromkeys(
        ("class_names", "target_names", "label_names", "labels_names"),
        ": `classes=[...]` names the columns in their order",
    ),
    **dict.fromkeys(
        (
            "evaluate.confidence",
            "evaluate.confidences",
            "evaluate.correct",
            "doctor.confidence",
            "doctor.correct",
        ),
        ': pairs are a dict, `{"confidence": confidences, "correct": hits}`, in place of predictions and labels',
    ),
    "evaluate.plot": ": `report.figure()` draws the diagram of what it returns",
    "doctor.plot": ": `diagnosis.figure()` draws the diagram of what it returns",
    **dict.fromkeys(
        ("calibrate.n_bins", "calibrate.bins", "calibrate.shrinkage"),
        ": arguments of a calibrator belong to it, `calibrator=calibench.calibrators.HistogramBinning(n_bins=10)`",
    ),
    "n_seeds": ": `seeds=[1, 2, 3]` are three seeds",
    "temperature": ": one is fitted with `val=(logits, labels)`; scores at another one are `logits / temperature`",
}
"""What to write in place of arguments that no function has, or not the one named."""


def _check_positional(function: Callable[..., object], args: Sequence[object]) -> None:
    """Raise a TypeError for more positional arguments than a function has, with the names that others may have."""
    parameters = signature(function).parameters.values()
    positional = [entry.name for entry in parameters if entry.kind is entry.POSITIONAL_OR_KEYWORD]
    named = [entry.name for entry in parameters if entry.kind is entry.KEYWORD_ONLY]
    name = f"calibench.{function.__name__}"
    if args and hasattr(args[0], "shape") and "network" in named:
        raise TypeError(
            f"`{name}` takes a {positional[0]}, and got {_spell_type(args[0])}: "
            "`calibench.CalibratedClassifier(estimator).fit(X, y)` trains and calibrates a classifier of scikit-learn, "
            "and `calibench new table NAME` in a shell starts with a table."
        )
    if len(args) > len(positional) and all(isinstance(arg, str | Path) for arg in args):
        several = ", ".join(repr(str(arg)) for arg in args)
        raise TypeError(
            f"`{name}` takes {', '.join(positional)} alone without a name: several go in a list, `{name}([{several}])`"
        )
    if len(args) > len(positional):
        raise TypeError(
            f"`{name}` takes {', '.join(positional)} alone without a name, got {len(args)} such arguments: others go "
            f"by their names, `{name}({positional[0]}, {named[0]}=..., {named[1]}=...)`"
        )
    if args and is_network(args[0]):
        raise TypeError(
            f"`{name}` takes a {positional[0]} first, and a network by its name: `{name}({positional[0]}, network=...)`"
        )


def _check_keywords(
    function: Callable[..., object],
    named: Mapping[str, object],
    remedy: str,
    args: Sequence[object],
) -> None:
    """Raise a TypeError for the first keyword that a function lacks."""
    names = list(signature(function).parameters)
    given = {*names[: len(args)], *named}
    free = [name for name in names if name not in given]
    for name, value in named.items():
        if name not in names:
            synonyms = [word for word in _KEYWORD_SYNONYMS.get(name, ()) if word in free]
            hint = _KEYWORD_HINTS.get(f"{function.__name__}.{name}") or _KEYWORD_HINTS.get(name)
            is_column = isinstance(value, str) and bool(args) and isinstance(args[0], str | Path)
            if is_column and synonyms == ["labels"]:
                hint = f': `keys="target={value}"` names the column of the labels'
            near = hint or did_you_mean(synonyms)
            near = near or near_matches(name, free, loosely=False)
            near = near or _describe_option(function.__name__, name, value, free)
            near = near or near_matches(name, free) or remedy
            near = near or f"; it takes {', '.join(names)}"
            raise TypeError(f"`calibench.{function.__name__}` has no argument `{name}`{near}")


def _describe_option(verb: str, name: str, value: object, names: Sequence[str]) -> str:
    """The counterpart of an argument of other libraries, from the table of options; empty without one."""
    options = [f"--{entry.replace('_', '-')}" for entry in names]
    text = str(value) if isinstance(value, str | int | float) else ""
    answer = UnknownOption(verb, name, options, text).find_answer(whole=True)
    answer = re.sub(r"--([a-z-]+)\?", lambda match: f"{match[1].replace('-', '_')}?", answer)
    answer = re.sub(r"`--([a-z-]+) ([^` ]+)`", _spell_keyword, answer)
    clause = re.split(r"; |, arrays", answer.removeprefix("; "))[0]
    rest = re.sub(r"`[a-z_]+=[^`]*`", "", clause)
    is_of_shell = "`" in rest or "--" in rest or "FILE" in rest
    start = "; " if answer.startswith("; ") else ""
    return "" if is_of_shell or not answer else f"{start}{clause}"


def _spell_keyword(option: re.Match[str]) -> str:
    """`keys="target=died"` for `--keys target=died`."""
    name, value = option[1].replace("-", "_"), option[2]
    return f"`{name}={value}`" if value.isdecimal() else f'`{name}="{value}"`'


def _spell_calibrator(function: Callable[..., object], more: Sequence[object]) -> str:
    """The call in which a calibrator that stands third goes by its name; empty where none does."""
    names = signature(function).parameters
    name = next((name for name in ("calibrator", "calibrators") if name in names), "")
    if not name or len(more) != 1 or not isinstance(more[0], str):
        return ""
    return f'`calibench.{function.__name__}(logits, labels, {name}="{more[0]}")`.'


def _refuse_model(
    function: Callable[..., object], args: Sequence[object], named: Mapping[str, object]
) -> None:
    """Raise a TypeError for a model, or its output, in place of predictions, with the call that gives them."""
    scores = args[0] if args else named.get("predictions")
    call = _spell_predictions(scores)
    if call:
        raise TypeError(
            f"`calibench.{function.__name__}` takes predictions, and got {_spell_type(scores)}: "
            f"`calibench.{function.__name__}({call})`."
        )


def _spell_type(value: object) -> str:
    return f"{'an' if type(value).__name__[0] in 'AEIOU' else 'a'} {type(value).__name__}"


def _spell_predictions(value: object) -> str:
    """The arguments that a model of another library, or its output, gives; empty for anything else."""
    cls = value if isinstance(value, type) else type(value)
    library = cls.__module__.partition(".")[0]
    if library == __name__.partition(".")[0] or is_network(value) or isinstance(value, str):
        return ""
    if hasattr(value, "predictions") and hasattr(value, "label_ids"):
        return "output.predictions, output.label_ids"
    if hasattr(value, "logits") and isinstance(value, Mapping) and "labels" not in value:
        return "output.logits, labels"
    if library == "torch" and hasattr(value, "dataset"):
        return "network, loader"
    if hasattr(value, "get_preds"):
        return "*learner.get_preds()"
    if hasattr(value, "predict_proba"):
        return "model.predict_proba(X), y"
    if hasattr(value, "decision_function"):
        return "model.decision_function(X), y"
    if library in ("keras", "tensorflow", "tf_keras") and hasattr(value, "predict"):
        return "model.predict(X), y"
    if library in ("xgboost", "lightgbm", "catboost") and hasattr(value, "predict"):
        return "model.predict(X), y"
    return ""


def is_network(value: object) -> bool:
    """Whether a value is a network of torch; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def refuse_file_of_labels(predictions: object, labels: object) -> None:
    """Raise a ValueError for a file in place of labels: a file has its own, and a validation set goes by its name."""
    if not (isinstance(predictions, str | Path) and isinstance(labels, str | Path)):
        return
    if Path(labels).suffix == ".npy":
        raise ValueError(f'labels belong to the file: "{predictions}:{labels}".')
    raise ValueError(
        f'`labels` are of arrays, got the file {labels}; a validation set is `val="{labels}"`.'
    )

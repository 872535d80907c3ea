"""Types of what the public functions take: arrays of any kind, files, networks with their loaders."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from calibench.messages.errors import did_you_mean, near_matches

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
            if len(args) > maximum:
                name = function.__name__
                raise TypeError(
                    f"`calibench.{name}` takes {maximum} positional arguments, the test set, "
                    f"got {len(args)}: {right_call}"
                )
            _check_keywords(function, named, "")
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
            _check_keywords(function, named, remedy)
            return function(*args, **named)

        return call

    return refusing


_KEYWORD_SYNONYMS = {
    "method": ("calibrator", "calibrators"), "preds": ("predictions",), "probs": ("predictions",),
    "logits": ("predictions",), "target": ("labels",), "y_true": ("labels",), "y": ("labels",),
    **dict.fromkeys(("y_prob", "y_pred", "y_score", "y_proba"), ("predictions",)),
    "metric": ("metrics",), "sort_by": ("rank_by",), "sort": ("rank_by",), "by": ("rank_by",), "n": ("top",),
    "model": ("network",), "backbone": ("network",), "max_epochs": ("epochs",), "num_epochs": ("epochs",),
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
    function: Callable[..., object], named: Mapping[str, object], remedy: str
) -> None:
    """Raise a TypeError for the first keyword that a function lacks."""
    names = signature(function).parameters
    for name in named:
        if name not in names:
            synonyms = [word for word in _KEYWORD_SYNONYMS.get(name, ()) if word in names]
            hint = _KEYWORD_HINTS.get(f"{function.__name__}.{name}") or _KEYWORD_HINTS.get(name)
            near = hint or did_you_mean(synonyms)
            near = near or near_matches(name, names) or remedy
            raise TypeError(f"`calibench.{function.__name__}` has no argument `{name}`{near}")


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

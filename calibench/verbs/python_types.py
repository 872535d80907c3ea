"""Types of what the public functions take: arrays of any kind, files, networks with their loaders."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

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
            return function(*args, **named)

        return call

    return refusing


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

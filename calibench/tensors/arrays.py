"""Arrays: their types, and any kind of them at the public boundary: numpy, torch, pandas, lists in, the same out."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from calibench.messages.errors import near_matches
from calibench.tensors.labels import class_indices, indices_of_names
from calibench.tensors.row_names import refuse_shuffled_arguments

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.integer]
Booleans = npt.NDArray[np.bool_]

_TARGET = "target"
_NULLABLE = r"Float\d+|U?Int\d+|(float|double|u?int\d+)\[pyarrow\]"
_FEW_ARRAYS = 8  # a tuple of the outputs of a network has no more
_NUMBERS = (float, int, np.float64, np.float32)
_ROLES = (
    *("logits", "preds", "probs", "log_probs", "confidence", "correct", "is_ood", "sample_weight"),
    _TARGET,
)
F = TypeVar("F", bound=Callable[..., Any])


def as_array(values: Any) -> Array:
    """A numpy array of a tensor of torch's, on whatever device, or of anything that numpy takes; bytes become texts."""
    if hasattr(values, "detach"):
        _refuse_other_layout(values)
        values = values.detach().cpu().resolve_conj().resolve_neg()
        values = values.float() if "bfloat16" in str(values.dtype) else values  # which numpy lacks
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError("masked values are none: leave their rows out, or fill them.")
    if hasattr(values, "toarray"):
        raise ValueError("a sparse matrix is given, and an array is needed: `.toarray()`.")
    if isinstance(values, Iterator):
        raise ValueError("an iterator is given, and an array or a list is needed: `list(...)`.")
    try:
        array = np.asarray(_as_floats(values))
    except ValueError as error:
        raise ValueError(_describe_ragged(values)) from error
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _refuse_other_layout(tensor: Any) -> None:
    """Raise a ValueError for a sparse or quantised tensor of torch's; it says how to make it a dense one."""
    if tensor.is_quantized:
        raise ValueError("a quantised tensor is given, and numbers are needed: `.dequantize()`.")
    if "strided" not in str(tensor.layout):
        raise ValueError("a sparse tensor is given, and a dense one is needed: `.to_dense()`.")


def _describe_ragged(values: Any) -> str:
    """The fault of a sequence whose parts make no array: rows of several lengths, or several arrays."""
    shapes = [
        tuple(part.shape) if hasattr(part, "shape") else (len(part),)
        for part in values
        if hasattr(part, "__len__")
    ]
    if len(shapes) < len(values):
        return "numbers and lists are mixed: a list of numbers is needed for each example."
    different = [*dict.fromkeys(shapes)]
    if len(different) < 2:
        return f"rows hold other things than numbers: {values[0]!r:.60}."
    first, other = different[:2]
    if len(values) <= _FEW_ARRAYS and len(first) > 1:
        return (
            f"several arrays are given, of the shapes {first} and {other}: give the scores alone, `[0]` if they are "
            "the first ones."
        )
    return f"rows have different lengths, {first[0]} and {other[0]}: a number for each class is needed in each."


def _as_floats(values: Any) -> Any:
    """Nullable numbers of a data frame, and numbers or arrays that are objects, as floats; anything else as it is."""
    kinds = [str(kind) for kind in values.dtypes] if hasattr(values, "columns") else []
    are_nullable = kinds and all(re.fullmatch(_NULLABLE, kind) for kind in kinds)
    if are_nullable:
        return values.to_numpy(np.float64, na_value=np.nan)
    is_of_objects = isinstance(values, np.ndarray) and values.dtype == object and values.size > 0
    if is_of_objects and values.ndim == 1 and isinstance(values[0], np.ndarray) and values[0].ndim:
        return np.stack(list(values))
    if is_of_objects and values.ndim == 2 and all(type(cell) in _NUMBERS for cell in values.flat):
        return values.astype(np.float64)
    return values


def names_of_columns(values: Any) -> list[str] | None:
    """The names of a data frame's columns as texts, unless they are its places 0..K-1; None of anything else."""
    names = [*getattr(values, "columns", ())]
    if not names or (
        all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names)
        and names == [*range(len(names))]
    ):
        return None
    if isinstance(names[0], tuple):  # of several levels: those that differ name the classes
        levels = [level for level in zip(*names, strict=True) if len({*level}) > 1]
        return ["_".join(map(str, parts)) for parts in zip(*levels, strict=True)] or None
    are_floats = [isinstance(name, float) and name.is_integer() for name in names]
    return [
        str(int(name)) if is_float else str(name)
        for name, is_float in zip(names, are_floats, strict=True)
    ]


def take_any_arrays(function: F) -> F:
    """A function of tensors that takes arrays, data frames, series and lists too, and gives back the same kind.

    What is given tensors only is called as it is. A target may hold names of classes: those in the argument `classes`,
    which the function has then, or of a data frame's columns. A tensor of one number becomes a float.
    """
    from torch import Tensor, from_numpy

    names = [*signature(function).parameters]
    places = [(place, name) for place, name in enumerate(names) if name in _ROLES]
    if not places:
        return function
    kinds = [parameter.kind for parameter in signature(function).parameters.values()]
    is_open = Parameter.VAR_POSITIONAL in kinds
    is_open_for_names = Parameter.VAR_KEYWORD in kinds
    positional_count = len(kinds) if is_open else len(kinds) - kinds.count(Parameter.KEYWORD_ONLY)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > positional_count:
            raise TypeError(_describe_positional(function, args[positional_count]))
        if not is_open_for_names and (wrong := kwargs.keys() - {*names, "classes"}):
            raise TypeError(_describe_unknown(function, sorted(wrong)[0]))
        arguments = {
            name: args[place] if place < len(args) else kwargs.get(name) for place, name in places
        }
        classes = kwargs.pop("classes", None)
        are_tensors = all(isinstance(value, Tensor | bool | None) for value in arguments.values())
        if are_tensors and classes is None:
            return function(*args, **kwargs)
        first = next(value for value in arguments.values() if value is not None)
        refuse_shuffled_arguments(arguments)
        device = first.device if isinstance(first, Tensor) else None
        column_names = names_of_columns(first) if classes is None else classes
        for name, value in arguments.items():
            is_named = name == _TARGET and column_names is not None and value is not None
            if is_named or not isinstance(value, Tensor | bool | None):
                array = as_array(value)
                if name == _TARGET:
                    array = _target_array(
                        array, column_names, np.shape(first), is_ordered=classes is not None
                    )
                elif name not in (_TARGET, "is_ood", "correct") and array.dtype.kind in "iu":
                    array = array.astype(np.float64)
                arguments[name] = from_numpy(np.require(array, requirements=["C", "W"])).to(device)
        positional = [arguments.get(name, value) for name, value in zip(names, args, strict=False)]
        named = {name: arguments.get(name, value) for name, value in kwargs.items()}
        return convert_like(function(*positional, **named), first)

    return cast("F", call)


def _describe_positional(function: Callable[..., Any], value: Any) -> str:
    """The right call where an argument that goes by its name is given without it."""
    parameters = signature(function).parameters.values()
    named = [entry for entry in parameters if entry.kind is Parameter.KEYWORD_ONLY]
    first = [entry.name for entry in parameters if entry.kind is not Parameter.KEYWORD_ONLY]
    name = function.__name__
    text = f"`{name}` takes {', '.join(first)} alone without a name"
    if not named:
        return text
    needed = next((entry for entry in named if entry.default is Parameter.empty), named[0])
    text_of_value = repr(value) if isinstance(value, bool | int | float | str) else "..."
    return f"{text}: others go by their names, `{name}({', '.join(first)}, {needed.name}={text_of_value})`"


def _describe_unknown(function: Callable[..., Any], argument: str) -> str:
    """The refusal of an argument that a function lacks, with near names or all that it takes."""
    names = [*signature(function).parameters]
    arguments = f"; it takes {', '.join(names)}"
    return f"`{function.__name__}` has no argument `{argument}`{near_matches(argument, names) or arguments}"


def _target_array(
    labels: Array, names: Sequence[Any] | None, shape: tuple[int, ...], *, is_ordered: bool
) -> Array:
    """Labels (N,) as class indices, by the names of the columns of scores of a shape (N, K) where they have any."""
    if names is not None and labels.ndim == 1 and len(shape) == 2:
        return class_indices(labels, shape[1], [*map(str, names)], is_ordered=is_ordered)
    if labels.dtype.kind not in "iufb":
        return indices_of_names(labels, names)
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def convert_like(value: Any, example: Any) -> Any:
    """A result of tensors, as what was given: an array, a data frame with its columns and index, a list, a float."""
    if isinstance(value, Mapping):
        return {name: convert_like(part, example) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(convert_like(part, example) for part in value)
    if not hasattr(value, "detach") or hasattr(example, "detach"):
        return value
    array = as_array(value)
    if array.ndim == 0:
        return array.item()
    if isinstance(example, list | tuple):
        return array.tolist()
    if hasattr(example, "columns") and array.shape == example.shape:
        return type(example)(array, index=example.index, columns=example.columns)
    if hasattr(example, "index") and hasattr(example, "iloc") and len(array) == len(example):
        import pandas as pd

        kind = pd.Series if array.ndim == 1 else pd.DataFrame
        return kind(array, index=example.index)
    return array

"""Files of named arrays: archives of numpy, tensors of PyTorch, safetensors and HDF5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from calibench.predictions import hdf5
from calibench.predictions.array_roles import ROLES, TARGET
from calibench.predictions.reading_notes import describe_left_out
from calibench.runs.files import check_archive
from calibench.runs.predictions import read_arrays
from calibench.tensors.arrays import Array, as_array

WITHOUT_PICKLE = "write `np.savez('x.npz', probs=np.asarray(probs, float), labels=np.asarray(labels, str))` instead."
"""What to write in place of a file that holds Python objects."""


def read_array_file(path: Path, lines: list[str]) -> dict[str, Array]:
    """The arrays in a file, by name; one without a name has the empty one. `lines` takes what was guessed."""
    try:
        return ARRAY_READERS[path.suffix.lower()](path, lines)
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"it holds Python objects, which are not read: {WITHOUT_PICKLE}"
            ) from error
        raise


def _pt(path: Path, lines: list[str]) -> dict[str, Array]:
    import torch

    if is_zipfile(path):  # as torch writes them since 1.6
        check_archive(path)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, list) and content and not isinstance(content[0], torch.Tensor):
        lines.append(_describe_batches(len(content)))
        content = _concatenated(content, lines)
    if isinstance(content, torch.Tensor):
        content = {"": content}
    if isinstance(content, list | tuple):
        if _are_batches_of_scores(content):
            lines.append(_describe_batches(len(content)))
            return {"": _joined(content)}
        if _are_decoded(content):
            lines.append("the last part, the predicted classes or losses, is left out")
            content = content[:2]
        if len(content) != 2:
            raise ValueError(
                f"scores and labels are expected, and it holds {len(content)} parts: a list of batches is one of pairs "
                "(scores, labels), or of dictionaries."
            )
        content = dict(zip(("", TARGET), content, strict=True))
    if not isinstance(content, Mapping):
        raise ValueError(f"tensors are expected, and it holds a {type(content).__name__}.")
    if "state_dict" in content or any(str(name).endswith("weight") for name in content):
        saved = "`torch.save({'logits': logits, 'labels': labels}, 'x.pt')`"
        raise ValueError(f"it holds the weights of a network; what it predicts is needed, {saved}.")
    return _join_lists(_flatten_sets(content), lines)


def _flatten_sets(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Named tensors of several sets, `test_logits`, where each set has a dictionary of its own; others as they are."""
    if not content or not all(isinstance(part, Mapping) for part in content.values()):
        return content
    return {
        f"{name}_{inner}": part for name, parts in content.items() for inner, part in parts.items()
    }


def _are_decoded(parts: Sequence[Any]) -> bool:
    """Whether three parts are scores (N, K), labels and the likeliest classes or losses, as fastai gives them."""
    if len(parts) != 3 or [np.ndim(part) for part in parts] != [2, 1, 1]:
        return False
    scores, labels, last = map(as_array, parts)
    if len(scores) != len(last):
        return False
    predicted = scores.argmax(axis=1)
    are_losses = last.dtype.kind == "f" and bool((last % 1 > 0).any())
    return bool((predicted == last).all()) or (are_losses and not (predicted == labels).all())


def _describe_batches(number: int) -> str:
    """The line on batches that are joined."""
    return f"{number} batches are joined in their order"


def _join_lists(content: Mapping[Any, Any], lines: list[str]) -> dict[str, Array]:
    """Arrays of named tensors, or of lists of batches, tensors (n, K) and labels (n,), one batch after another."""
    batches = {name: value for name, value in content.items() if _is_list_of_tensors(value)}
    scores = [parts for parts in batches.values() if all(part.ndim == 2 for part in parts)]
    lengths = [_lengths(parts) for parts in scores]
    lists = [name for name, parts in batches.items() if _lengths(parts) in lengths]
    lines += [_describe_batches(len(batches[name])) for name in lists[:1]]
    return {
        name: _joined(value) if name in lists else as_array(value)
        for name, value in content.items()
    }


def _lengths(parts: Sequence[Any]) -> list[int]:
    """The numbers of examples of the batches of a list."""
    return [len(part) for part in parts]


def _is_list_of_tensors(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and all(getattr(part, "ndim", 0) > 0 for part in value)


def _are_batches_of_scores(parts: Sequence[Any]) -> bool:
    """Whether tensors are scores (n, K) of batches; two of one length may be scores and labels."""
    if len(parts) < 2 or any(getattr(part, "ndim", 0) != 2 for part in parts):
        return False
    is_clear = len(parts) > 2 or len(parts[0]) != len(parts[1])
    return is_clear and len({part.shape[1] for part in parts}) == 1 and parts[0].shape[1] > 1


def _concatenated(batches: Sequence[Any], lines: list[str]) -> Any:
    """The batches of a list, pairs or dictionaries of tensors, as one; a ValueError if they differ in their parts.

    `lines` takes what is left out, as it is a number of the whole batch.
    """
    first = batches[0]
    if isinstance(first, Mapping):
        if any(not isinstance(batch, Mapping) or set(batch) != set(first) for batch in batches):
            raise ValueError("a list of batches must hold dictionaries with the same names.")
        if all(np.ndim(part) < 2 for part in first.values()) and _are_examples(batches):
            lines[:] = [line for line in lines if line != _describe_batches(len(batches))]
            lines.append(f"{len(batches)} examples, a dictionary each")
            return {name: np.stack([as_array(batch[name]) for batch in batches]) for name in first}
        numbers = [name for name in first if np.ndim(first[name]) == 0]
        lines.append(describe_left_out(numbers))
        kept = [name for name in first if name not in numbers]
        return {name: _joined([batch[name] for batch in batches]) for name in kept}
    if any(len(batch) != 2 or any(np.ndim(part) == 0 for part in batch) for batch in batches):
        raise ValueError(
            "a list of batches must hold pairs (scores, labels), or dictionaries of tensors: leave the rest out."
        )
    return tuple(_joined(parts) for parts in zip(*batches, strict=True))


def _are_examples(batches: Sequence[Mapping[str, Any]]) -> bool:
    """Whether dictionaries are of one example each: a label is a number, and scores are as long in all."""
    first = batches[0]
    labels = [
        name for name in first if ROLES.get(str(name)) == TARGET and np.ndim(first[name]) == 0
    ]
    shapes = {tuple(np.shape(part) for part in batch.values()) for batch in batches}
    return bool(labels) and len(shapes) == 1


def _joined(parts: Sequence[Any]) -> Array:
    return np.concatenate([as_array(part) for part in parts])


def _safetensors(path: Path, _: list[str]) -> dict[str, Array]:
    from safetensors.torch import load_file

    return {name: as_array(value) for name, value in load_file(path).items()}


ARRAY_READERS: dict[str, Callable[[Path, list[str]], dict[str, Array]]] = {
    ".npz": lambda path, _: read_arrays(path),
    ".npy": lambda path, _: {"": np.load(path, allow_pickle=False)},
    ".pt": _pt,
    ".pth": _pt,
    ".safetensors": _safetensors,
    **dict.fromkeys(hdf5.HDF5, lambda path, _: hdf5.named_arrays(path)),
}

"""Scores (N, K) and targets (N,) of a classifier: their checks; the precision and the shapes that states keep."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from calibench.tensors import score_meaning
from calibench.tensors.arrays import as_array


class TokenInputs(NamedTuple):
    """Vocabulary of inputs that are token numbers, as a backbone must know it.

    Attributes:
        vocab_size: Token numbers in use, 0 for padding included: inputs are below it.
        vectors: Where a trained embedding starts (vocab_size, D) float32, rows of zeros where a token
            has no vector; None where nothing is known.
        are_words: Whether they number the training texts' words, and not the tokens of a `tokenizer.json`.
    """

    vocab_size: int
    vectors: Tensor | None = None
    are_words: bool = False


def at_least_float32(scores: Tensor) -> Tensor:
    """Half precision as float32 (autocast hands over bfloat16); anything wider as it is."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


_AT_ONCE = 1 << 17  # numbers: 1 MB in float64, of which an operation may need a dozen copies


def rows_at_once(scores: Tensor) -> int:
    """Number of rows of (N, K) that are worked on at a time, where copies of all may not fit."""
    return max(1, _AT_ONCE // scores.shape[1])


def blocks_of_rows(*parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of the rows of tensors (N, ...), `rows_at_once` of the first one, (N, K), at a time."""
    size = rows_at_once(parts[0])
    return zip(*(torch.split(part, size) for part in parts), strict=True)


def running_sums(values: Tensor) -> Tensor:
    """Running sums along the last dimension, made on the CPU.

    A GPU that is to be deterministic makes n floating ones of n^2 values.
    """
    return values.cpu().cumsum(-1).to(values.device)


def check_scores(scores: Tensor, *, name: str = "logits", classes: int = 2) -> None:
    """Raise unless `scores` is a floating (N, K) tensor with K >= `classes`."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"`{name}` must be a tensor, got {type(scores).__name__}.")
    if scores.dim() != 2 or scores.shape[1] < classes:
        are_labels = scores.dim() == 1 and torch.equal(scores, scores.round())
        hint = ": class indices are `target`, the second argument" if are_labels else ""
        shape = f"(N, K) with K >= {classes}, got {tuple(scores.shape)}"
        raise ValueError(f"`{name}` must have shape {shape}{hint}.")
    if not scores.is_floating_point():
        raise TypeError(f"`{name}` must be floating point, got {scores.dtype}.")


def check_target(target: Tensor, scores: Tensor, *, name: str = "logits") -> None:
    """Raise unless `target` is an integer tensor with an entry for each row of `scores`."""
    if not isinstance(target, Tensor):
        raise TypeError(f"`target` must be a tensor, got {type(target).__name__}.")
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        one_hot = ": of one-hot rows `target.argmax(1)`" if target.shape == scores.shape else ""
        raise TypeError(f"`target` must hold integer class indices, got {target.dtype}{one_hot}.")
    if target.shape != scores.shape[:1]:
        raise ValueError(
            f"`target` must have shape ({len(scores)},) like the rows of `{name}`, "
            f"got {tuple(target.shape)}."
        )


def check_class_indices(target: Tensor, num_classes: int) -> None:
    """Raise a ValueError unless all of `target` lies in [0, num_classes); this reads values back from a device."""
    if len(target) == 0:
        return
    low, high = (int(bound) for bound in target.aminmax())
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"`target` must lie in [0, {num_classes}), got values from {low} to {high}."
        )


def slices_without_short_end(n: int, size: int) -> list[slice]:
    """Pieces of `size` of n rows, the last with what is left: libraries of linear algebra add up a few otherwise."""
    starts = [size * piece for piece in range(max(1, n // size))]
    return [slice(*ends) for ends in pairwise([*starts, n])]


def holds_probabilities(scores: Tensor) -> bool:
    """Whether every row (N, K), N >= 1, lies in [0, 1] and sums to 1, as `score_meaning` has it."""
    if len(scores) == 0:
        return False
    for rows in (scores[:1], scores):  # one row nearly always tells
        low, high = map(float, rows.aminmax())
        if not (low >= 0 and high <= 1):
            return False
    return score_meaning.are_probabilities(as_array(scores))


class MovedNotCast(nn.Module):
    """A module whose buffers keep their dtype when a parent is cast, as `bf16-true` training casts it.

    `nn.Module.to(dtype)` casts floating buffers: float64 sums of a metric become bfloat16, for good. What remembers
    numbers inherits from this class beside (and before) its own base.
    """

    def can_move(self, move: Callable[[Tensor], Tensor]) -> bool:
        """Whether the module follows its parent, or stays where it is; `move` moves or casts one tensor."""
        return True

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        if self.can_move(fn):
            super()._apply(move, *args, **kwargs)  # type: ignore[no-untyped-call]
        return self


class TakesSavedShapes(MovedNotCast):
    """A module whose buffers take the shapes that a saved state has: those of the data, known only at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_take_saved_shapes)  # type: ignore[no-untyped-call]


def _take_saved_shapes(
    module: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: Any
) -> None:
    """Make room in the buffers of `module` for the values that torch then copies out of `state`."""
    for key in state:
        name = key.removeprefix(prefix)
        if not key.startswith(prefix) or not hasattr(module, name):
            continue  # another module's, or unknown: torch says so
        buffer = getattr(module, name)
        if buffer is None or (isinstance(buffer, Tensor) and not isinstance(buffer, nn.Parameter)):
            like = state[key] if buffer is None else buffer
            # a tensor of its own: what was fitted may be parts of one
            setattr(module, name, like.new_empty(state[key].shape))

"""Any loss by import path."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from calibench.ground.errors import UsageError, errors_as
from calibench.ground.imports import check_arguments, imported, parameters_of
from calibench.ground.tensors import at_least_float32, check_class_indices
from calibench.losses.base import CalibrationLoss


class ImportedLoss(CalibrationLoss):
    """Any loss by import path: a function of (logits, target), or a class of such (this package).

    `--model.loss torch.nn.functional.cross_entropy` and `--model.loss mylosses.MyLoss` stand for this class with that
    `name`; other options below `--model.loss` are then arguments of the loss. It gives a scalar, which is taken for the
    mean over the batch, or one value per example. A loss that wants class counts, the epoch, the examples or the
    validation set is a subclass of `CalibrationLoss`.

    Args:
        name: Import path of the function or class, `torch.nn.CrossEntropyLoss`.
        arguments: Its arguments; where it takes a tensor, a list of numbers is one.

    Raises:
        UsageError: It cannot be imported or refuses its arguments, or adds up the batch.
    """

    def __init__(self, *, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.name = name
        found = imported(name)
        given = _with_tensors(found, arguments or {})
        if isinstance(found, type):
            check_arguments(name, found, given)
            self.loss = found(**given)
        else:
            check_arguments(name, found, given, before=2)
            self.loss = _Function(found, given)
        if "sum" in (getattr(self.loss, "reduction", None), given.get("reduction")):
            raise UsageError(
                f"`{name}`: `reduction: sum` is `--model.loss_scale sum` here; a loss gives the mean over the batch."
            )

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch.

        Raises:
            UsageError: The loss gives neither a scalar nor a value per example.
        """
        if target.device.type == "cpu" and not torch.compiler.is_compiling():
            with suppress(RuntimeError):  # torch.func.vmap stands for many: no value can be read
                check_class_indices(
                    target, logits.shape[1]
                )  # torch's losses leave -100 out silently
        batch = f"logits {tuple(logits.shape)} and classes {tuple(target.shape)}"
        what = f"`{self.name}` cannot take {batch} (--debug shows where)"
        with errors_as(what, ValueError, TypeError, IndexError, RuntimeError):
            value = self.loss(at_least_float32(logits), target)
        if not isinstance(value, Tensor) or value.shape not in ((), target.shape):
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UsageError(
                f"`{self.name}` must give a scalar or one value per example ({len(target)},), got {got}."
            )
        return value.mean()


class _Function(nn.Module):
    """A function with arguments, of which tensors follow the module's device."""

    def __init__(self, function: Callable[..., Tensor], arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self.function, self.plain = function, dict(arguments)
        for name in [name for name, value in arguments.items() if isinstance(value, Tensor)]:
            self.register_buffer(f"of_{name}", self.plain.pop(name), persistent=False)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        tensors = {name.removeprefix("of_"): tensor for name, tensor in self.named_buffers()}
        return self.function(logits, target, **self.plain, **tensors)


def _with_tensors(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, in which a list of numbers is a tensor where the signature asks for one."""
    asked = parameters_of(function)
    return {
        name: torch.tensor(value, dtype=torch.float32)
        if isinstance(value, list) and name in asked and "Tensor" in str(asked[name].annotation)
        else value
        for name, value in arguments.items()
    }

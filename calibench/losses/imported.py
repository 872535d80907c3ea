"""Losses by import path: anybody's function of logits and targets, or class of such."""

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from calibench.losses.base import CalibrationLoss
from calibench.messages.errors import UsageError, errors_as
from calibench.messages.spelling import spell_key, spell_traceback_hint
from calibench.plugins.import_paths import check_arguments, import_by_path, parameters_of
from calibench.tensors.scores import at_least_float32, check_class_indices


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

    Examples:
        >>> import torch
        >>> from calibench.losses import ImportedLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = ImportedLoss(name="torch.nn.CrossEntropyLoss", arguments={"label_smoothing": 0.1})
        >>> loss(logits, target)
        tensor(1.0567)
        >>> loss.batch_coupled
        False
    """

    def __init__(self, *, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.name = name
        function = import_by_path(name)
        keywords = _lists_to_tensors(function, arguments or {})
        is_class = isinstance(function, type)
        check_arguments(name, function, keywords, before=() if is_class else ("logits", "target"))
        self.loss = function(**keywords) if is_class else _Function(function, keywords)
        if "sum" in (getattr(self.loss, "reduction", None), keywords.get("reduction")):
            setting = spell_key("model.loss_scale", "sum")
            raise UsageError(
                f"`{name}`: `reduction: sum` is {setting} here; a loss gives the mean over the batch."
            )

    @property
    def batch_coupled(self) -> bool:  # type: ignore[override]
        """Whether its value of a few rows is not the mean of its values of each; True where it does not take them."""
        logits = torch.linspace(-1, 1, 12).reshape(4, 3).cos()
        target = torch.tensor([0, 1, 2, 1])
        try:
            with torch.no_grad():
                batch_loss = self.loss(logits, target).mean()
                rows = [self.loss(logits[[row]], target[[row]]).mean() for row in range(4)]
        except Exception:  # of a user's own
            return True
        return not torch.allclose(batch_loss, torch.stack(rows).mean(), rtol=1e-4, atol=1e-6)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch.

        Raises:
            UsageError: The loss gives neither a scalar nor a value per example.
        """
        if target.device.type == "cpu" and not torch.compiler.is_compiling():
            with suppress(RuntimeError):  # torch.func.vmap stands for many: no value can be read
                check_class_indices(target, logits.shape[1])  # torch leaves -100 out silently
        batch = f"logits {tuple(logits.shape)} and classes {tuple(target.shape)}"
        failure = f"`{self.name}` cannot take {batch}{spell_traceback_hint()}"
        with errors_as(failure, ValueError, TypeError, IndexError, RuntimeError):
            value = self.loss(at_least_float32(logits), target)
        if not isinstance(value, Tensor) or value.shape not in ((), target.shape):
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UsageError(
                f"`{self.name}` must give a scalar or one value per example ({len(target)},), got {got}."
            )
        return value.mean()


_BROADCAST = "This will likely lead to incorrect results due to broadcasting"  # torch's warning


def check_targets_are_indices(loss: CalibrationLoss, num_classes: int) -> None:
    """Raise a UsageError for a loss that compares logits (N, K) with class indices (N,) element by element.

    Torch warns where it broadcasts the indices over the logits; the check runs a copy of the loss.
    """
    logits = torch.linspace(-1, 1, num_classes**2).reshape(num_classes, num_classes).cos()
    with warnings.catch_warnings(record=True) as caught, suppress(Exception):
        warnings.simplefilter("always")
        copy.deepcopy(loss).cpu()(logits, torch.arange(num_classes))
    if any(_BROADCAST in str(warning.message) for warning in caught):
        name = getattr(loss, "name", type(loss).__name__)
        raise UsageError(
            f"`{name}` compares the logits (N, K) with class indices (N,) element by element: compare them with "
            "`torch.nn.functional.one_hot(target, logits.shape[1]).float()`."
        )


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


def _lists_to_tensors(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, in which a list of numbers is a tensor where the signature asks for one."""
    parameters = parameters_of(function)
    wants_tensor = {name for name, part in parameters.items() if "Tensor" in str(part.annotation)}
    converted = {
        name: torch.tensor(value, dtype=torch.float32)
        for name, value in arguments.items()
        if name in wants_tensor and isinstance(value, list)
    }
    return {**arguments, **converted}

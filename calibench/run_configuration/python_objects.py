"""Objects of a Python program as blocks of a configuration, so that `calibench.fit(loss=FocalLoss(gamma=3))` has a key.

A class or function that can be imported is its import path, and a loss is its class with the arguments that it was
built with. Anything else is kept here, for this process, under a name with a digest of what it
holds: weights, settings, the first examples. So the same object has the same run, and another one another run. A
configuration with such a name cannot be run again without the program; the error says so.
"""

import copy
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from calibench.backbones import Backbone
from calibench.configuration.merging import Config
from calibench.data import ClassificationDataModule
from calibench.losses import CalibrationLoss
from calibench.plugins.import_paths import import_path

_kept: dict[str, Any] = {}
_renamed: dict[type, tuple[str, str, bytes]] = {}
"""The name and the qualified name that a kept class had, and its digested parts, which its new name would change."""
_CONTRACTS = (CalibrationLoss, Backbone, ClassificationDataModule)
_SIMPLE = (bool, int, float, str, Path, type(None))


def __getattr__(name: str) -> Any:
    """An object that this process keeps, or what makes it."""
    if name in _kept:
        return _kept[name]
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(
        f"`{name}` is an object of a Python program: give it to `calibench.fit` again"
    )


def describe_object(value: Any) -> Config | str:
    """The block of a configuration that stands for a class, a function or an object.

    A name or a block, text or a mapping, stays what it is.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type) or inspect.isfunction(value) or inspect.isbuiltin(value):
        if value in _renamed:
            return {"class_path": f"{__name__}.{value.__name__}"}
        path = _importable_path(value)
        return {"class_path": path or _keep(value.__name__, value, _source(value))}
    arguments = _constructor_arguments(value)
    path = _importable_path(type(value))
    if arguments is not None and path is not None:
        return {"class_path": path, **({"init_args": arguments} if arguments else {})}
    name = _class_name(type(value))
    if isinstance(value, _CONTRACTS):
        return {"class_path": _keep(name, _class_that_gives(value), _digest_parts(value))}
    if isinstance(value, nn.Module) or not callable(value):
        maker = _maker(value)
        return {"class_path": _keep(name, maker, _digest_parts(value))}
    return {"class_path": _keep(name, value, _digest_parts(value))}


def describe_loss(value: Any) -> Config | str:
    """The block that stands for a loss; a module of another kind is called with logits and targets."""
    if isinstance(value, nn.Module) and not isinstance(value, CalibrationLoss):
        return {"class_path": _keep(_class_name(type(value)), _caller(value), _digest_parts(value))}
    return describe_object(value)


def _caller(module: nn.Module) -> Callable[..., Any]:
    """A function of logits and targets that calls a copy of a module."""
    return _Loss(copy.deepcopy(module))


class _Loss(nn.Module):
    """A loss that somebody built, as a function of logits and targets."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The value of the loss."""
        value: torch.Tensor = self.loss(logits, target)
        return value


def _maker(value: Any) -> Callable[[], Any]:
    """A function that gives the object; of a network a copy, so that training leaves the given one as it is."""
    if isinstance(value, nn.Module):
        return lambda: copy.deepcopy(value)
    return lambda: value


def _class_that_gives(value: Any) -> type:
    """A class without arguments whose instance is a copy of an object of one of our contracts."""

    def __new__(cls: type, **_: Any) -> Any:
        return copy.deepcopy(value)

    def __init__(self: Any) -> None:
        """Take no arguments."""

    methods = {"__new__": __new__, "__init__": __init__, "__doc__": type(value).__doc__}
    return type(_class_name(type(value)), (type(value),), methods)


def _class_name(value: type) -> str:
    """The name that a class had before it was kept."""
    return _renamed[value][0] if value in _renamed else value.__name__


def _keep(name: str, value: Any, parts: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    unique = f"{name}_{digest.hexdigest()[:10]}"
    _kept[unique] = value
    if isinstance(value, type):
        _renamed[value] = name, value.__qualname__, b"".join(_class_parts(value))
        value.__module__, value.__qualname__, value.__name__ = __name__, unique, unique
    return f"{__name__}.{unique}"


def _importable_path(value: Any) -> str | None:
    """The import path of a class or function; None if it is of the program itself, or within a function."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module in (None, "__main__", __name__) or "." in name or "<" in name:
        return None
    if getattr(sys.modules.get(module) or import_module(module), name, None) is not value:
        return None
    return import_path(value) if isinstance(value, type) else f"{module}.{name}"


def _constructor_arguments(value: Any) -> dict[str, Any] | None:
    """The arguments of a loss's constructor as plain data, if a loss that is built with them is the same."""
    if not isinstance(value, CalibrationLoss):  # networks have weights, data modules what they read
        return None
    arguments = {name: _plain(part) for name, part in value.constructor_arguments.items()}
    if any(part is _NOT_PLAIN for part in arguments.values()):
        return None
    rebuilt = type(value)(**value.constructor_arguments)
    return arguments if [*_state(rebuilt)] == [*_state(value)] else None


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    """A value as plain data: a tensor of one number is that number, a tuple a list; else `_NOT_PLAIN`."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.ndim == 0 else _NOT_PLAIN
    if isinstance(value, CalibrationLoss):  # a part of another one
        arguments = _constructor_arguments(value)
        path = _importable_path(type(value))
        return (
            _NOT_PLAIN
            if None in (arguments, path)
            else {"class_path": path, "init_args": arguments}
        )
    if isinstance(value, tuple | list):
        parts = [_plain(part) for part in value]
        return _NOT_PLAIN if any(part is _NOT_PLAIN for part in parts) else parts
    return value if isinstance(value, _SIMPLE) else _NOT_PLAIN


def _state(value: Any) -> Iterator[bytes]:
    """The state of an object: its plain attributes, and its parameters and buffers, in order."""
    parts = {name: _plain(part) for name, part in vars(value).items()}
    simple = {name: part for name, part in parts.items() if part is not _NOT_PLAIN}
    yield repr(sorted(simple.items())).encode()
    if isinstance(value, nn.Module):
        for name, tensor in value.state_dict().items():
            yield name.encode()
            if isinstance(tensor, torch.Tensor):
                yield (
                    tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
                )
        for name, part in value.named_modules():
            kind = _renamed[type(part)][1] if type(part) in _renamed else type(part).__qualname__
            yield f"{name} {kind} {part.extra_repr()}".encode()


def _digest_parts(value: Any) -> Iterator[bytes]:
    yield from _class_parts(type(value))
    yield from value.digest_parts() if hasattr(value, "digest_parts") else _state(value)


def _class_parts(value: type) -> Iterator[bytes]:
    """The full name and the source of a class, as they were before it was kept."""
    if value in _renamed:
        yield _renamed[value][2]
        return
    yield f"{value.__module__}.{value.__qualname__}".encode()
    yield from _source(value)


def _source(value: Any) -> Iterator[bytes]:
    """The source of a class or function, where it has a file; else its name."""
    try:
        yield inspect.getsource(value).encode()
    except (OSError, TypeError):
        yield repr(getattr(value, "__qualname__", type(value))).encode()

"""What Lightning does at every training step of a run, less what the run has no use for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import lightning.pytorch as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.profilers import PassThroughProfiler

_STEP_HOOKS = (
    "on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_train_batch_end",
)  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


def drop_idle_hooks(module: L.LightningModule, callbacks: Iterable[Callback]) -> None:
    """Take from a module and its callbacks the hooks of a training step that they do not override.

    Lightning enters a context and formats a name for each of six hooks of every callback at every step, also of one
    that only acts at an epoch's end; a hook that is None it leaves out. With the callbacks of a run that is about
    half of what a step costs beyond a bare loop.
    """
    owners: list[tuple[Any, type]] = [(callback, Callback) for callback in callbacks]
    for owner, base in [*owners, (module, L.LightningModule)]:
        for name in _STEP_HOOKS:
            if getattr(getattr(owner, name), "__func__", None) is getattr(base, name):
                setattr(owner, name, None)


class LeanModule(L.LightningModule):
    """A LightningModule on which setting a string is cheap.

    Lightning notes the name of every hook it calls on the module, over thirty times a step, and each time torch
    searches for a parameter, a sub-module and a buffer of that name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """As torch does; a string or None in the place of a plain attribute without the search."""
        if (value is None or isinstance(value, str)) and name in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


def signed(function: Function) -> Function:
    """Keep a function's signature with it: Lightning works out the training step's anew at every step."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


class NoProfiler(PassThroughProfiler):
    """Times nothing, as Lightning's own does, with one context for all the actions of a step."""

    _context = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager[None]:  # type: ignore[override]
        """A context that does nothing."""
        return self._context

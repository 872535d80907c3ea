"""Lookahead, and parameters that rest after some epochs: callbacks for `trainer.callbacks`."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from calibench.messages.checks import non_negative, positive_integer, unit_interval
from calibench.messages.errors import UsageError
from calibench.training.module import ClassificationModule
from calibench.training.schedules import count_training_steps


class Lookahead(Callback):
    """Lookahead (Zhang et al. 2019): slow weights follow the network's, which is put back to them every few steps.

    Every n steps, at step s of S: slow = d slow + (1 - d) fast, then fast = slow, with d = decay^n (s / S)^power, which
    rises from 0 as in Jordan (2024). After the last step the network takes the slow weights. Both hold the buffers,
    such as statistics of batch normalisation, as well. Lightning's `WeightAveraging` averages beside the network, which
    it never puts back.

    Args:
        every_n_steps: n, optimiser steps between two updates.
        decay: Share of the slow weights that stays, a step, in [0, 1).
        power: How late d rises; 0 for a constant d.
    """

    def __init__(self, every_n_steps: int = 5, decay: float = 0.95, power: float = 3.0) -> None:
        self.every_n_steps = positive_integer("every_n_steps", every_n_steps)
        self.decay, self.power = unit_interval("decay", decay), non_negative("power", power)
        self.slow: dict[str, Tensor] = {}
        self._step = 0

    def state_dict(self) -> dict[str, Any]:
        """The slow weights, and the step at which they were looked at last."""
        return {"slow": self.slow, "step": self._step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore them."""
        self.slow, self._step = state_dict["slow"], state_dict["step"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start from the network's weights, or from a checkpoint's slow ones."""
        fast = dict(_averaged_state(pl_module))
        slow = self.slow or fast
        self.slow = {name: slow[name].detach().clone().to(fast[name].device) for name in fast}

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any
    ) -> None:
        """Update the slow weights, if it is time, and put the network back to them."""
        step, steps = trainer.global_step, count_training_steps(trainer)
        if step == self._step:  # gradients are accumulated
            return
        self._step = step
        if step % self.every_n_steps == 0:
            decay = self.decay**self.every_n_steps * (step / steps) ** self.power
            self._update(pl_module, decay)
        if step == steps:
            self._update(pl_module, 1.0)

    @torch.no_grad()
    def _update(self, module: L.LightningModule, decay: float) -> None:
        for name, fast in _averaged_state(module):
            self.slow[name].lerp_(fast, 1 - decay)
            fast.copy_(self.slow[name])


def _averaged_state(module: L.LightningModule) -> Iterator[tuple[str, Tensor]]:
    """The network's numbers, not those of the loss, and no counters."""
    network = cast(ClassificationModule, module).backbone
    return (
        (name, value) for name, value in network.state_dict().items() if value.is_floating_point()
    )


class RestAfter(Callback):
    """Stops the training of some parameters after some epochs, by their names.

    Args:
        epochs: Epochs in which they are trained, at least 0.
        parameters: Patterns of names in the network, such as `whiten.bias`.
    """

    def __init__(self, epochs: int, parameters: Sequence[str]) -> None:
        self.epochs, self.parameters = int(non_negative("epochs", epochs)), tuple(parameters)
        self._resting: list[nn.Parameter] = []

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Find the parameters; raises a UsageError if a pattern names none."""
        named = dict(cast(ClassificationModule, pl_module).backbone.named_parameters())
        meant = dict[str, nn.Parameter]()
        for pattern in self.parameters:
            matching = {name: named[name] for name in named if fnmatchcase(name, pattern)}
            if not matching:
                raise UsageError(
                    f"`RestAfter`: the network has no parameter `{pattern}`; there are {', '.join(named)}."
                )
            meant |= matching
        self._resting = [*meant.values()]

    def on_before_optimizer_step(self, trainer: L.Trainer, *args: Any) -> None:
        """Leave their gradients out; an optimiser then changes nothing of them."""
        if trainer.current_epoch >= self.epochs:
            for parameter in self._resting:
                parameter.grad = None

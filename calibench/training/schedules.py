"""Learning-rate schedules in optimiser steps."""

import math
from typing import Any, Literal

import lightning.pytorch as L
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR

from calibench.messages.checks import non_negative, positive, positive_integer, unit_interval
from calibench.messages.errors import UsageError


def count_training_steps(trainer: L.Trainer) -> int:
    """The optimiser steps of the whole training, at least 1; raises a UsageError if it has no end.

    Lightning's `estimated_stepping_batches` makes the training loader, which then misses the state that a checkpoint
    has for it: a run that goes on within an epoch would begin it anew.
    """
    epochs, max_steps = trainer.max_epochs, trainer.max_steps
    if epochs in (None, -1):
        raise UsageError(
            "`trainer.max_epochs` must be a number of epochs for what depends on their end, got -1."
        )
    batches: int = trainer.datamodule.training_batches  # type: ignore[attr-defined]
    limit = trainer.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    steps = math.ceil(batches / trainer.accumulate_grad_batches) * epochs
    return max(1, steps if max_steps == -1 else min(steps, max_steps))


class TriangularLR(LRScheduler):
    """Linear from `start` up to 1, then linear down to `end`, as factors of the learning rate (Jordan 2024).

    Step s of S has the factor at s / S, so the last step is one step above `end`.

    Args:
        optimizer: Its learning rates are those at the peak.
        total_steps: S, the steps of the whole training.
        start: Factor of the first step, at least 0.
        peak_at: Share of the steps before the peak, in (0, 1).
        end: Factor after the last step, at least 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        *,
        start: float = 0.2,
        peak_at: float = 0.23,
        end: float = 0.07,
    ) -> None:
        self.total_steps = positive_integer("total_steps", total_steps)
        self.start, self.end = non_negative("start", start), non_negative("end", end)
        if not 0 < peak_at < 1:
            raise ValueError(f"`peak_at` must lie in (0, 1), got {peak_at}.")
        self.peak_at = peak_at
        super().__init__(optimizer)

    def factor(self, step: int) -> float:
        """The factor of a step, from 0 on."""
        progress = min(1.0, step / self.total_steps)
        if progress < self.peak_at:
            return self.start + (1 - self.start) * progress / self.peak_at
        return 1 + (self.end - 1) * (progress - self.peak_at) / (1 - self.peak_at)

    def get_lr(self) -> list[float | Tensor]:
        """The learning rate of each group at this step."""
        return [rate * self.factor(self.last_epoch) for rate in self.base_lrs]


class WarmupCosineLR(SequentialLR):
    """Linear from a small factor up to 1, then a cosine down to 0: torch's `LinearLR` and `CosineAnnealingLR`.

    Args:
        optimizer: Its learning rates are those at the peak.
        total_steps: Steps of the whole training.
        warmup: Share of the steps before the peak, in [0, 1); at least one step rises.
        start: Factor of the first step, above 0, at most 1.
    """

    def __init__(
        self, optimizer: Optimizer, total_steps: int, *, warmup: float = 0.05, start: float = 0.01
    ) -> None:
        steps = positive_integer("total_steps", total_steps)
        rising = max(1, int(unit_interval("warmup", warmup) * steps))
        parts = [
            LinearLR(optimizer, positive("start", start), total_iters=rising),
            CosineAnnealingLR(optimizer, max(1, steps - rising)),
        ]
        super().__init__(optimizer, parts, milestones=[rising])


class TimmLR(LRScheduler):
    """A schedule of timm, `timm.scheduler.create_scheduler_v2`, over the steps of the training.

    The whole training is one of its epochs, so numbers of epochs are shares of the training.

    Args:
        optimizer: Its learning rates are those at the peak.
        total_steps: Steps of the whole training.
        schedule: Which one.
        warmup: Share of the steps that rise linearly, in [0, 1).
        warmup_lr: Learning rate of the first step, at least 0, of every group.
        min_lr: Learning rate at the end, at least 0, of every group.
        options: Further arguments of timm's function, such as `decay_rate` or `k_decay`; `decay_epochs` of step and
            `decay_milestones` of multistep are shares as well, and without them nothing decays.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        *,
        schedule: Literal["cosine", "tanh", "poly", "step", "multistep"] = "cosine",
        warmup: float = 0.05,
        warmup_lr: float = 1e-5,
        min_lr: float = 0.0,
        options: dict[str, Any] | None = None,
    ) -> None:
        from timm.scheduler.scheduler_factory import create_scheduler_v2

        arguments: dict[str, Any] = {
            "warmup_epochs": unit_interval("warmup", warmup),
            "warmup_lr": non_negative("warmup_lr", warmup_lr),
            "min_lr": non_negative("min_lr", min_lr),
            **(options or {}),
        }
        steps = positive_integer("total_steps", total_steps)
        try:
            self._of_timm, _ = create_scheduler_v2(
                optimizer, schedule, 1, step_on_epochs=False, updates_per_epoch=steps, **arguments
            )
        except TypeError as error:
            raise ValueError(f"`options`: {error}.") from error
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """The learning rate of each group at this step."""
        self._of_timm.step_update(self.last_epoch)
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All but timm's schedule, which has no state."""
        state: dict[str, Any] = super().state_dict()
        return {name: value for name, value in state.items() if name != "_of_timm"}

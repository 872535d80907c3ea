"""Callbacks: what a training step pays for them; the guard against losses that are not finite."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from calibench.training.callbacks import NaNGuard
from calibench.training.module import NonFiniteLoss


@pytest.mark.parametrize("every", [1, 2, 5])
def test_the_guard_names_the_first_bad_step(every: int) -> None:
    guard = NaNGuard(every_n_steps=every)
    losses = [1.0, 2.0, float("inf"), float("nan"), 1.0, 1.0]

    def run() -> None:
        for step, loss in enumerate(losses, start=1):
            trainer: Any = SimpleNamespace(global_step=step, current_epoch=7)
            guard.on_train_batch_end(trainer, None, {"loss": OnAGPU(loss)})  # type: ignore[arg-type]
        guard.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]

    with pytest.raises(NonFiniteLoss, match="at epoch 7, step 3"):
        run()


class OnAGPU(torch.Tensor):
    """A number that says it is on a GPU."""

    device = torch.device("cuda")  # type: ignore[assignment]

    def __new__(cls, value: float) -> OnAGPU:
        return torch.tensor(value).as_subclass(cls)

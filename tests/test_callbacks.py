"""Callbacks: what a training step pays for them; the guard against losses that are not finite."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.profilers import Profiler

from calibench.backbones import SmallCNN
from calibench.callbacks import NaNGuard, drop_idle_hooks
from calibench.data import DigitsDataModule
from calibench.losses import CrossEntropyLoss
from calibench.module import ClassificationModule, NonFiniteLoss


class Recorder(Profiler):
    """Notes every action that the trainer asks a profiler to time."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[str] = []

    def start(self, action_name: str) -> None:
        self.actions.append(action_name)

    def stop(self, action_name: str) -> None:
        pass


class AfterBackward(Callback):
    calls = 0

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.calls += 1


def test_a_step_calls_only_the_hooks_that_do_something() -> None:
    recorder, after = Recorder(), AfterBackward()
    assigned = Callback()  # a hook may also be given to an object
    assigned.on_before_backward = lambda *_: setattr(assigned, "called", True)  # type: ignore[method-assign]
    callbacks = [after, assigned, NaNGuard()]
    trainer = L.Trainer(
        max_steps=3, accelerator="cpu", profiler=recorder, callbacks=callbacks, logger=False,
        enable_model_summary=False, enable_progress_bar=False, enable_checkpointing=False, limit_val_batches=0,
    )  # fmt: skip
    module = ClassificationModule(SmallCNN(num_classes=10, in_channels=1), CrossEntropyLoss(), 10)
    drop_idle_hooks(module, callbacks)
    trainer.fit(module, datamodule=DigitsDataModule())
    assert after.calls == trainer.global_step == 3
    assert assigned.called  # type: ignore[attr-defined]
    start = recorder.actions.index("run_training_batch")
    step = recorder.actions[start : recorder.actions.index("run_training_batch", start + 1)]
    hooks = [
        action.rpartition(".")[2]
        for action in step
        if action.startswith(("[Callback]", "[LightningModule]ClassificationModule.on_"))
    ]
    assert hooks == [
        "on_before_backward",
        "on_after_backward",
        "on_train_batch_end",
        "on_before_batch_transfer",
        "on_after_batch_transfer",
    ]


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
        return torch.Tensor._make_subclass(cls, torch.tensor(value))

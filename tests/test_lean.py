"""What a training step of a run leaves out, and that it leaves out nothing else."""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.profilers import Profiler, SimpleProfiler
from torch import Tensor, nn

from calibench.backbones import SmallCNN
from calibench.callbacks import NaNGuard
from calibench.checkpoints import LastCheckpoint
from calibench.data import DigitsDataModule
from calibench.experiment import Experiment
from calibench.lean import LeanModule, NoProfiler, drop_idle_hooks
from calibench.losses import CrossEntropyLoss
from calibench.module import ClassificationModule


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


class Counter(CrossEntropyLoss):
    """Counts the functions in Python that run from the loss of one step to that of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: collections.Counter[tuple[str, str]] = collections.Counter()

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        sys.setprofile(None if self.calls else self._count)
        return super().forward(logits, target)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.calls[frame.f_globals["__name__"], frame.f_code.co_name] += 1


def test_a_step_searches_no_attribute_works_out_no_signature_and_enters_no_profiler(
    tmp_path: Path,
) -> None:
    counter = Counter()
    callbacks = [LastCheckpoint(tmp_path)]
    trainer = L.Trainer(
        max_steps=3, accelerator="cpu", profiler=NoProfiler(), callbacks=callbacks, logger=False,
        enable_model_summary=False, enable_progress_bar=False, limit_val_batches=0, default_root_dir=tmp_path,
    )  # fmt: skip
    module = ClassificationModule(SmallCNN(num_classes=10, in_channels=1), counter, 10)
    drop_idle_hooks(module, callbacks)
    trainer.fit(module, datamodule=DigitsDataModule())
    calls = counter.calls
    assert calls["lightning.pytorch.trainer.call", "_call_callback_hooks"] >= 6
    assert calls["calibench.lean", "__setattr__"] > 20
    for expensive in (
        ("torch.nn.modules.module", "__setattr__"),
        ("inspect", "_signature_from_function"),
        ("lightning.pytorch.profilers.profiler", "profile"),
        ("lightning.pytorch.callbacks.model_checkpoint", "state_key"),
    ):
        assert calls[expensive] == 0, expensive


@pytest.mark.parametrize("base", [LeanModule, L.LightningModule])
def test_an_attribute_is_set_as_torch_sets_it(base: type[L.LightningModule]) -> None:
    module: Any = base()
    module.note = "first"
    module.note = "second"
    assert module.note == "second"
    module.note = nn.Parameter(torch.zeros(1))
    assert [name for name, _ in module.named_parameters()] == ["note"]
    with pytest.raises(TypeError, match="cannot assign"):
        module.note = "third"
    module.note = None
    assert list(module.parameters()) == []
    module.part = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="cannot assign"):
        module.part = "a name"
    del module.part
    module.part = "a name"
    module.part = nn.Linear(1, 1)
    assert len(list(module.parameters())) == 2


def test_a_profiler_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    def profiler(*more: str) -> Profiler:
        root = ["--trainer.default_root_dir", str(tmp_path)]
        experiment = Experiment(["--config", "digits_lt", *root, *more])
        experiment.build()
        return experiment.trainer.profiler

    assert isinstance(profiler(), NoProfiler)
    assert isinstance(profiler("--trainer.profiler", "simple"), SimpleProfiler)

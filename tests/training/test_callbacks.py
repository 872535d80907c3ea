"""Callbacks: what a training step pays for them; the guard against losses that are not finite."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from calibench.runs.durations import RunDuration
from calibench.training.callbacks import EpochProgress, NaNGuard
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


def trained(progress: EpochProgress, monkeypatch: pytest.MonkeyPatch, *, epochs: int) -> None:
    """Two epochs of four steps of ten seconds each, as a trainer calls a callback."""
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    batches = SimpleNamespace(current=SimpleNamespace(ready=0))
    trainer: Any = SimpleNamespace(
        is_global_zero=True, current_epoch=0, max_epochs=epochs, num_training_batches=4, callback_metrics={},
        fit_loop=SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=batches)),
    )  # fmt: skip
    progress.on_train_start(trainer, None)  # type: ignore[arg-type]
    for epoch in range(2):
        trainer.current_epoch = epoch
        for step in range(4):
            batches.current.ready = step + 1
            progress.on_train_batch_end(trainer)
        progress.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]


def test_the_first_steps_say_how_long_a_training_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(EpochProgress(), monkeypatch, epochs=30)
    first, *lines = capsys.readouterr().err.splitlines()
    # a step takes ten seconds on this clock: 30 epochs of 4 steps
    assert first == "calibench: about 20:00 for 30 epochs, without validation and evaluation"
    assert not any("calibench" in line for line in lines)


def test_finished_runs_say_before_the_first_epoch_how_long_a_training_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(EpochProgress(RunDuration(epoch=2.0, besides=350.0)), monkeypatch, epochs=50)
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "calibench: about 7:30 for 50 epochs and the evaluation, as finished runs took"


def test_a_log_says_how_long_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(EpochProgress(RunDuration(1.0, 0.0)), monkeypatch, epochs=10)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch ")]
    assert [line.partition("about")[2] for line in lines] == [" 1:30 left", " 1:20 left"]

"""Schedules in steps: the triangle's values, and torch's own through the module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import LambdaCallback
from timm.scheduler import CosineLRScheduler, TanhLRScheduler
from torch import nn

from calibench.backbones import MLP
from calibench.data import DigitsDataModule
from calibench.losses import CrossEntropyLoss
from calibench.training.module import ClassificationModule
from calibench.training.schedules import (
    TimmLR,
    TriangularLR,
    WarmupCosineLR,
    count_training_steps,
)


def rates(steps: int, **arguments: float) -> list[list[float]]:
    """The learning rates of two groups at each step."""
    layer = nn.Linear(1, 1)
    groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr": 64.0}]
    optimizer = torch.optim.SGD(groups, lr=2.0)
    scheduler = TriangularLR(optimizer, steps, **arguments)
    seen = []
    for _ in range(steps + 1):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen


def test_the_triangle_is_numpys_interpolation() -> None:
    seen = np.array(rates(400))
    expected = np.interp(np.arange(401), [0, 92, 400], [0.2, 1.0, 0.07])
    np.testing.assert_allclose(seen, expected[:, None] * [2.0, 64.0], rtol=1e-12)


@pytest.mark.parametrize(("steps", "warmup", "rising"), [(40, 0.2, 8), (3, 0.05, 1), (1, 0.0, 1)])
def test_warm_up_is_linear_and_then_a_cosine(steps: int, warmup: float, rising: int) -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=2.0)
    scheduler = WarmupCosineLR(optimizer, steps, warmup=warmup, start=0.1)
    for step in range(steps + 1):
        fall = max(steps - rising, 1)
        factor = 0.1 + 0.9 * step / rising
        if step >= rising:
            factor = 0.5 + 0.5 * np.cos(np.pi * (step - rising) / fall)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(2.0 * factor, abs=1e-12)
        optimizer.step()
        scheduler.step()


def test_after_the_end_the_rate_stays() -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scheduler = TriangularLR(optimizer, 2, start=0.0, peak_at=0.5, end=0.1)
    for _ in range(5):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("ours", "timms"),
    [
        ({"options": {"k_decay": 2.0}}, lambda of: CosineLRScheduler(of, 40, k_decay=2.0, **WARMED)),
        ({"schedule": "tanh", "min_lr": 0.3}, lambda of: TanhLRScheduler(of, 40, lr_min=0.3, **WARMED)),
    ],
    ids=["cosine", "tanh"],
)  # fmt: skip
def test_timms_schedules_are_timms(ours: dict[str, Any], timms: Callable[..., Any]) -> None:
    weight, bias = nn.Linear(1, 1).parameters()
    one, other = (
        torch.optim.SGD([{"params": [weight]}, {"params": [bias], "lr": 64.0}], lr=2.0)
        for _ in range(2)
    )
    scheduler, expected = TimmLR(one, 40, warmup=0.2, warmup_lr=0.1, **ours), timms(other)
    for step in range(42):
        expected.step_update(step)
        seen, wanted = ([group["lr"] for group in of.param_groups] for of in (one, other))
        assert seen == wanted
        one.step()
        scheduler.step()


@pytest.mark.parametrize(
    ("schedule", "options", "high"),  # timm's milestones take effect a step early
    [("step", {"decay_epochs": 0.5}, 5), ("multistep", {"decay_milestones": [0.5]}, 4)],
)
def test_steps_of_timm_are_shares_of_the_training(
    schedule: Any, options: dict[str, Any], high: int
) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    scheduler = TimmLR(optimizer, 10, schedule=schedule, warmup=0.0, options=options)
    seen = []
    for _ in range(10):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert seen == pytest.approx([1.0] * high + [0.1] * (10 - high))


WARMED = {"warmup_t": 8, "warmup_lr_init": 0.1, "t_in_epochs": False}


def test_an_argument_that_timm_does_not_have_is_refused() -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    with pytest.raises(ValueError, match=r"`options`: .*'wrong'"):
        TimmLR(optimizer, 10, options={"wrong": 1})


@pytest.mark.parametrize("schedule", [TriangularLR, WarmupCosineLR, TimmLR])
def test_the_state_goes_on_in_another_object(schedule: Callable[..., Any]) -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scheduler = schedule(optimizer, 10)
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    other = torch.optim.SGD(layer.parameters(), lr=1.0)
    resumed = schedule(other, 10)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    for _ in range(6):
        for one in (optimizer, other):
            one.step()
        scheduler.step()
        resumed.step()
        assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"total_steps": 0}, "`total_steps`"),
        ({"start": -0.1}, "`start`"),
        ({"end": float("nan")}, "`end`"),
        ({"peak_at": 1.0}, r"`peak_at` must lie in \(0, 1\)"),
    ],
)
def test_values_out_of_range_are_refused(arguments: dict[str, float], said: str) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    with pytest.raises(ValueError, match=said):
        TriangularLR(optimizer, **{"total_steps": 5, **arguments})  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_steps": 9},
        {"limit_train_batches": 3},
        {"limit_train_batches": 0.4},
        {"fast_dev_run": 2},
        {"accumulate_grad_batches": 4},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:gradients are accumulated")
def test_the_steps_of_training_are_those_that_are_taken(options: dict[str, Any]) -> None:
    said = []
    trainer = L.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_model_summary=False, enable_progress_bar=False,
        enable_checkpointing=False, num_sanity_val_steps=0, limit_val_batches=1,
        callbacks=[LambdaCallback(on_fit_start=lambda trainer, _: said.append(count_training_steps(trainer)))],
        **options,
    )  # fmt: skip
    module = ClassificationModule(
        MLP(num_classes=10, in_features=64, hidden=(4,)), CrossEntropyLoss(), 10,
        step_scheduler=torch.optim.lr_scheduler.CosineAnnealingLR,
    )  # fmt: skip
    data = DigitsDataModule(batch_size=100)
    trainer.fit(module, datamodule=data)
    assert said == [trainer.global_step]
    assert said == [trainer.estimated_stepping_batches]
    (scheduler,) = trainer.lr_scheduler_configs
    assert (
        scheduler.scheduler.T_max == said[0]
    )  # torch's own are built with the number of steps as well
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.0)

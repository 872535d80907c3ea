"""Every exported loss, ready to be called, in each of its variants."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

import calibench.losses as L
from tests.examples import examples

K = 6


def exported_classes() -> list[type[L.CalibrationLoss]]:
    """The losses of `calibench.losses.__all__` that can be built."""
    values = [getattr(L, name) for name in L.__all__]
    return [v for v in values if inspect.isclass(v) and not inspect.isabstract(v)]


@cache
def builders() -> dict[str, Callable[[], L.CalibrationLoss]]:
    """What makes each loss and variant: the `EXAMPLES` of the test files, else the class without arguments."""
    build = {cls.__name__: cls for cls in exported_classes()} | examples("losses")
    return {name: build[name] for name in sorted(build)}


def fresh_loss(name: str) -> L.CalibrationLoss:
    """A loss or variant as constructed."""
    return builders()[name]()


def fresh_losses() -> dict[str, L.CalibrationLoss]:
    """Each loss and variant as constructed."""
    return {name: fresh_loss(name) for name in builders()}


def batch(
    n: int = 24, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Random logits (n, K) and targets (n,)."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, K, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(K, (n,), generator=generator)


def live(loss: L.CalibrationLoss) -> L.CalibrationLoss:
    """The loss in the second of three epochs, after one validation, told of a batch of 24."""
    loss.on_fit_start(torch.tensor([500, 200, 90, 40, 15, 7]))
    loss.on_train_epoch_start(0, 3)
    loss.on_validation_epoch_end(*batch(200, seed=1))
    loss.on_train_epoch_start(1, 3)
    for seed in (2, 3):  # the second time there is something to remember
        loss.on_train_batch(*batch(seed=seed), torch.arange(24))
    return loss


@cache
def live_losses() -> dict[str, L.CalibrationLoss]:
    """Each loss and variant in the second of three epochs; made once, so change a copy."""
    return {name: live(loss) for name, loss in fresh_losses().items()}


def value_and_grad(
    loss: L.CalibrationLoss, logits: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient with respect to the logits."""
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad

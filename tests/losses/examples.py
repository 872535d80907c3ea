"""Every exported loss, ready to be called, in each of its variants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache

import pytest
import torch
from torch import Tensor

import calibench.losses as L

K = 6


def exported_classes() -> list[type[L.CalibrationLoss]]:
    """The losses of `calibench.losses.__all__` that can be built."""
    values = [getattr(L, name) for name in L.__all__]
    return [v for v in values if inspect.isclass(v) and not inspect.isabstract(v)]


def fresh_losses() -> dict[str, L.CalibrationLoss]:
    """Each loss and variant as constructed."""
    return {
        "AdaFocalLoss": L.AdaFocalLoss(n_bins=5),
        "BSCEGRALoss": L.BSCEGRALoss(gamma=4.0),
        "BSCEGRALoss elementwise": L.BSCEGRALoss(gamma=3.0, form="elementwise"),
        "BalancedSoftmaxLoss": L.BalancedSoftmaxLoss(),
        "BrierLoss": L.BrierLoss(),
        "BrierWeightedLoss": L.BrierWeightedLoss(gamma=2.0),
        "BrierWeightedLoss 0.5": L.BrierWeightedLoss(gamma=0.5, beta=1.5),
        "BrierWeightedLoss elementwise": L.BrierWeightedLoss(gamma=0.5, form="elementwise"),
        "CrossEntropyLoss": L.CrossEntropyLoss(),
        "DCALoss": L.DCALoss(),
        "DualFocalGRALoss": L.DualFocalGRALoss(gamma=5.0),
        "DualFocalGRALoss reference": L.DualFocalGRALoss(gamma=5.0, variant="reference"),
        "DualFocalLoss": L.DualFocalLoss(gamma=5.0),
        "DualFocalLoss second_largest": L.DualFocalLoss(gamma=0.5, runner_up="second_largest"),
        "DualFocalLoss highest_other": L.DualFocalLoss(gamma=3.0, runner_up="highest_other"),
        "ECEWeightedLoss": L.ECEWeightedLoss(n_bins=5),
        "FLSDGRALoss": L.FLSDGRALoss(),
        "FLSDLoss": L.FLSDLoss(),
        "FocalCalibrationLoss": L.FocalCalibrationLoss(gamma=3.0, weight=0.5),
        "FocalCalibrationLoss l1": L.FocalCalibrationLoss(gamma=3.0, weight=0.5, norm="l1"),
        "FocalGRALoss": L.FocalGRALoss(gamma=3.0),
        "FocalLoss": L.FocalLoss(gamma=2.6),
        "FocalLoss 0.5": L.FocalLoss(gamma=0.5),
        "FocalLoss schedule": L.FocalLoss(gamma=5.0, schedule=[(1, 3.0), (2, 2.0)]),
        "GenerativeCrossEntropy": L.GenerativeCrossEntropy(),
        "GenerativeCrossEntropy smoothed": L.GenerativeCrossEntropy(smoothing=0.05),
        "GenerativeFocalLoss": L.GenerativeFocalLoss(),
        "GenerativeFocalLoss ratio": L.GenerativeFocalLoss(gamma=0.5, focal_on="ratio"),
        "GenerativeFocalLoss ce": L.GenerativeFocalLoss(gamma=-1.5, focal_on="ce"),
        "InverseFocalLoss": L.InverseFocalLoss(gamma=2.0),
        "LDAMLoss": L.LDAMLoss(),
        "LabelSmoothingLoss": L.LabelSmoothingLoss(),
        "LabelSmoothingLoss off_target": L.LabelSmoothingLoss(mode="off_target"),
        "LogitAdjustedLoss": L.LogitAdjustedLoss(tau=1.5),
        "MDCALoss": L.MDCALoss(base=L.FocalLoss(gamma=1.0)),
        "MMCELoss": L.MMCELoss(),
        "MMCELoss narrow": L.MMCELoss(weight=4.0, kernel_width=0.01),
        "MarginLoss": L.MarginLoss(margin=2.0),
        "WeightedMMCELoss": L.WeightedMMCELoss(),
        "WeightedMMCELoss reference": L.WeightedMMCELoss(variant="reference"),
        "WeightedSum": L.WeightedSum(
            losses=[L.CrossEntropyLoss(), L.AdaFocalLoss(n_bins=5), L.LogitAdjustedLoss()],
            weights=[1.0, 0.5, -0.1],
        ),
    }


def batch(
    n: int = 24, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Random logits (n, K) and targets (n,)."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, K, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(K, (n,), generator=generator)


def live(loss: L.CalibrationLoss) -> L.CalibrationLoss:
    """The loss in the second of three epochs, after one validation."""
    loss.on_fit_start(torch.tensor([500, 200, 90, 40, 15, 7]))
    loss.on_train_epoch_start(0, 3)
    loss.on_validation_epoch_end(*batch(200, seed=1))
    loss.on_train_epoch_start(1, 3)
    return loss


@cache
def live_losses() -> dict[str, L.CalibrationLoss]:
    """Each loss and variant in the second of three epochs; made once, so change a copy."""
    return {name: live(loss) for name, loss in fresh_losses().items()}


def for_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Turn a check of one name into one test of all names, which reports every name that fails."""

    def decorate(check: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            errors = []
            for name in names:
                try:
                    check(name)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"checking {name!r}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{check.__name__}: {len(errors)} names fail", errors)

        return test

    return decorate


def value_and_grad(
    loss: L.CalibrationLoss, logits: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient with respect to the logits."""
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad

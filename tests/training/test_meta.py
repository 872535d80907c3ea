"""Steps on the meta device, which holds no values: whatever mixes devices or waits for a value raises, as on a GPU it would."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch

from calibench import losses
from calibench.backbones import MLP, SmallCNN
from calibench.data import Batch
from calibench.data.task import Multilabel
from calibench.training.module import ClassificationModule
from calibench.training.test_set_metrics import SetMetrics
from tests.losses.examples import K, live_losses

ROWS = 8


def on_meta(module: ClassificationModule) -> ClassificationModule:
    module.trainer = SimpleNamespace(accumulate_grad_batches=1, gradient_clip_val=None)  # type: ignore[assignment]
    return module.to("meta")


def module_of(loss: losses.CalibrationLoss) -> ClassificationModule:
    return on_meta(ClassificationModule(SmallCNN(num_classes=K, in_channels=1), loss, K))


def batch(inputs: tuple[int, ...] = (1, 8, 8), labels: tuple[int, ...] = ()) -> Batch:
    with torch.device("meta"):
        target = torch.empty(ROWS, *labels, dtype=torch.int64)
        index = torch.empty(ROWS, dtype=torch.int64)
        return Batch(torch.empty(ROWS, *inputs), target, index, ROWS)


def train(module: ClassificationModule, data: Batch) -> None:
    optimizer = module.configure_optimizers()
    module.training_step(data, 0).backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), 2.0)
    optimizer.step()


@pytest.mark.slow
def test_no_training_step_waits_for_the_device() -> None:
    train(module_of(losses.CrossEntropyLoss()), batch())
    one_of_each = {type(loss): loss for loss in live_losses().values()}
    for loss in one_of_each.values():  # every variant: the contract test of losses
        network = MLP(num_classes=K, in_features=64, hidden=(4,))
        module = on_meta(ClassificationModule(network, copy.deepcopy(loss), K))
        train(module, batch())
        assert module._loss_sums[0].device.type == "meta", loss


@pytest.mark.slow
def test_no_evaluation_step_waits_for_the_device() -> None:
    module = module_of(losses.CrossEntropyLoss()).eval()
    known = torch.full((ROWS, K), 1 / K)
    kinds = {"test": "test", "photos": "ood", "blurred": "shift"}
    module.test_metrics.extend(
        SetMetrics(name, kind, K, (15, 20), known if name == "test" else None)
        for name, kind in kinds.items()
    )
    module.to("meta")
    for step in range(3):
        module.validation_step(batch(), step)
        for loader in range(len(kinds)):
            module.test_step(batch(), step, loader)
    module.val_metrics.evaluate_waiting_rows()


def test_several_labels_wait_for_nothing() -> None:
    """Labels may be unknown: they are masked, as a selection of the known ones would have a shape that depends on data."""
    task = Multilabel([f"label {number}" for number in range(3)])
    network = SmallCNN(num_classes=3, in_channels=1)
    module = on_meta(ClassificationModule(network, losses.FocalLoss(gamma=1), 2, task=task))
    train(module, batch(labels=(3,)))


def test_these_tests_can_fail() -> None:
    class Waits(losses.CrossEntropyLoss):
        def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return super().forward(logits, target) * float(logits.amax() < 1e4)

    class Mixes(losses.CrossEntropyLoss):
        def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return super().forward(logits * torch.ones(K), target)

    for loss in (Waits(), Mixes()):
        with pytest.raises(RuntimeError, match="meta"):
            train(module_of(loss), batch())

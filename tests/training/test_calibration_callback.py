"""The callback `Calibration` in a module and a trainer that know nothing of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import calibench
from calibench.losses import AdaFocalLoss, CrossEntropyLoss, ECEWeightedLoss, LogitAdjustedLoss
from calibench.messages.errors import UsageError
from calibench.training import Calibration


class Classifier(L.LightningModule):
    """A linear classifier of somebody's own."""

    def __init__(self, loss: torch.nn.Module) -> None:
        super().__init__()
        self.network, self.loss = torch.nn.Linear(4, 3), loss

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        inputs, target = batch
        return self.loss(self.network(inputs), target)

    def validation_step(self, batch: Any, index: int) -> Any:
        inputs, target = batch
        return {"logits": self.network(inputs), "target": target}

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


def loader(n: int, seed: int) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 4, generator=generator)
    noisy = inputs[:, :3] + torch.randn(n, 3, generator=generator)
    return DataLoader(TensorDataset(inputs, noisy.argmax(1)), 32)


def trained(callback: Calibration, module: Classifier, **options: Any) -> L.Trainer:
    quiet = dict(
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", callbacks=[callback], **quiet, **options)
    trainer.fit(module, loader(96, 0), loader(64, 1))
    return trainer


def test_moments_metrics_and_files(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Classifier(AdaFocalLoss())
    trainer = trained(Calibration(module.loss, ["TS"], output=tmp_path), module)
    assert not torch.allclose(module.loss.focus.gamma, torch.ones(15).double())  # type: ignore[union-attr, operator]
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged["val/nll_ts"] > 0
    trainer.test(module, loader(64, 2), verbose=False)
    val, test = np.load(tmp_path / "val.npz"), np.load(tmp_path / "test.npz")
    assert val["logits"].shape == (64, 3)
    report = calibench.evaluate(test["logits"], test["target"])
    assert report.value("NLL") == pytest.approx(
        float(trainer.callback_metrics["test/nll"]), rel=1e-5
    )
    inputs, target = loader(64, 1).dataset.tensors  # type: ignore[attr-defined]
    np.testing.assert_array_equal(val["target"], target)
    with torch.no_grad():
        np.testing.assert_allclose(val["logits"], module.network(inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_class_counts_are_asked_for() -> None:
    module = Classifier(LogitAdjustedLoss())
    with pytest.raises(UsageError, match=r"LogitAdjustedLoss needs the class counts.*class_counts"):
        trained(Calibration(module.loss), module)
    trained(Calibration(module.loss, class_counts=[40, 30, 26]), module)


def test_a_batch_coupled_loss_warns_under_accumulation() -> None:
    module = Classifier(ECEWeightedLoss())
    with pytest.warns(UserWarning, match="ECEWeightedLoss is batch-coupled: it sees each"):
        trained(Calibration(module.loss), module, accumulate_grad_batches=2)
    assert module.loss.gather is None
    trained(Calibration(), Classifier(CrossEntropyLoss()), accumulate_grad_batches=2)


def test_another_output_of_a_step_is_named() -> None:
    class Silent(Classifier):
        def validation_step(self, batch: Any, index: int) -> None: ...

    with pytest.raises(UsageError, match=r"`validation_step` must return .*got NoneType"):
        trained(Calibration(), Silent(CrossEntropyLoss()))

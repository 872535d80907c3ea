"""Our training loop against a bare PyTorch loop written from the papers' protocol.

In float64: at this learning rate rounding errors of float32 grow 100,000 times in 20 steps.
"""

from __future__ import annotations

import copy
from pathlib import Path

import lightning.pytorch as L
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import functional as tv

from calibench.backbones import SmallCNN
from calibench.data import CIFAR10DataModule
from calibench.data.images.augment import RandomCropFlip
from calibench.data.in_memory_loader import mix_seeds
from calibench.losses import CrossEntropyLoss
from calibench.training.module import ClassificationModule
from tests.data import fakes

SEED, BATCH, EPOCHS = 3, 16, 2
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Curve(L.Callback):
    """The loss of every step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self.losses.append(float(outputs["loss"]) / (batch.size if module.scale_by_rows else 1))


def ours(module: ClassificationModule, data: CIFAR10DataModule, clip: float | None) -> list[float]:
    curve = Curve()
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        gradient_clip_val=clip,
        precision="64-true",
        accelerator="cpu",
        limit_val_batches=0,
        callbacks=[curve],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, datamodule=data)
    return curve.losses


def epoch_of_batches(data: CIFAR10DataModule, epoch: int):
    """The rows of the epoch's order, cropped, flipped and normalised by torchvision one by one."""
    images, target, _ = data.splits.train
    generator = torch.Generator().manual_seed(mix_seeds(SEED, epoch))
    order = torch.randperm(len(target), generator=generator)
    draws = RandomCropFlip(padding=4).draw(len(target), generator).tolist()
    for rows in order.split(BATCH):
        inputs = []
        for row in rows.tolist():
            top, left, flip = draws[row]
            image = tv.crop(tv.pad(images[row], [4]), top, left, 32, 32)
            image = tv.hflip(image) if flip else image
            inputs.append(tv.normalize(image.float() / 255, MEAN, STD))
        yield torch.stack(inputs), target[rows]


def bare(network: torch.nn.Module, data: CIFAR10DataModule, clip: float | None) -> list[float]:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    network.train()
    loader, losses = data.train_dataloader(), []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            logits = network(batch.inputs.double())
            loss = F.cross_entropy(
                logits, batch.target, reduction="mean" if clip is None else "sum"
            )
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
            losses.append(loss.item() / (1 if clip is None else len(batch.target)))
        optimizer.param_groups[0]["lr"] = 0.01
    return losses


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CIFAR10DataModule:
    fakes.cifar10(tmp_path, per_batch=34)
    monkeypatch.setenv("PL_GLOBAL_SEED", str(SEED))
    module = CIFAR10DataModule(
        root=str(tmp_path), checksum="off", ood=(), val_size=15, batch_size=BATCH
    )
    module.setup()
    return module


def test_batches_are_torchvisions_pixel_by_pixel(data: CIFAR10DataModule) -> None:
    loader = data.train_dataloader()
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch, (inputs, target) in zip(loader, epoch_of_batches(data, epoch), strict=True):
            assert torch.equal(batch.target, target)
            torch.testing.assert_close(batch.inputs, inputs, rtol=0, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [2.0, None], ids=["sum and clip 2", "mean"])
def test_twenty_steps_follow_the_bare_loop(data: CIFAR10DataModule, clip: float | None) -> None:
    torch.manual_seed(SEED)
    network = SmallCNN(num_classes=10, in_channels=3, width=4).double()
    module = ClassificationModule(
        copy.deepcopy(network),
        CrossEntropyLoss(),
        10,
        lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [1]),
        loss_scale="mean" if clip is None else "sum",
    )
    expected, found = bare(network, data, clip), ours(module, data, clip)
    assert len(found) == len(expected) == 20
    assert np.abs(np.array(found) - np.array(expected)).max() < 1e-6
    assert np.std(found) > 0.02  # a curve, not a constant

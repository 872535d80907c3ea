"""Whole epochs of each loss through the trainer, beside the GCE paper's Table 6.

Commands:

    python benchmarks/gpu/epochs.py
    python benchmarks/gpu/epochs.py --precision bf16-mixed --channels-last --fused --compile
    python benchmarks/gpu/epochs.py --device cpu --images 256 --batch 64 --network CIFARResNet8      tries the script

45,000 random images of CIFAR's size, cropped, flipped and normalised on the device, batches of 128, SGD as in the
papers' protocol, 5,000 validation images after the epoch. A figure is the median over epochs after the first, which
compiles and warms up. Table 6 (seconds on an A100) is printed beside ours for its seven losses.

One H200, torch 2.11, 2026-11-26, `--precision bf16-mixed --channels-last --fused --epochs 1 --images 22528`, epochs of
176 steps: 3,568 to 4,361 images a second for the first five losses, 5,916 and 4,929 for dual focal and AdaFocal, which
were run minutes later; cross-entropy and GCE in float32 4,632 and 4,681. That is 1.31 to 2.17 times Table 6. As float32
beside them is no slower and two runs at once are more than twice as fast (`cells_at_once.py`), the processor that
starts the kernels decides, not the GPU: these figures do not compare losses.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import lightning.pytorch as L
import torch
from equal_to_cpu import built
from sitting import Sitting, parser, read

from calibench import backbones, losses
from calibench.data import CIFAR10DataModule, ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.tables.published import loss_names, model_names, published_number
from calibench.training.callbacks import NaNGuard, Timing
from calibench.training.checkpoints import LastCheckpoint, SeededSteps
from calibench.training.module import ClassificationModule

TABLE_6 = (
    "CrossEntropyLoss", "GenerativeCrossEntropy", "BrierLoss", "WeightedMMCELoss", "FLSDLoss", "DualFocalLoss",
    "AdaFocalLoss",
)  # fmt: skip


class RandomImages(ClassificationDataModule):
    def __init__(self, images: int, batch: int) -> None:
        super().__init__(
            class_names=[str(k) for k in range(10)],
            batch_size=batch,
            split_seed=1,
            train_fraction=1.0,
            ood=(),
        )
        self.images = images
        self.transform = Normalize(CIFAR10DataModule.mean, CIFAR10DataModule.std)
        self.augmentation = RandomCropFlip(padding=4)

    def load_splits(self, seed: int) -> Splits:
        generator = torch.Generator().manual_seed(seed)

        def part(n: int) -> Examples:
            pixels = torch.randint(256, (n, 3, 32, 32), generator=generator, dtype=torch.uint8)
            return Examples(pixels, torch.arange(n) % 10)

        return Splits(part(self.images), part(max(10, self.images // 9)), part(10))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        raise ValueError(name)


def epoch_seconds(loss: str, options: argparse.Namespace) -> list[float]:
    """Seconds of each epoch, validation and checkpoint included."""
    timing = Timing()
    train(built(losses)[loss](), RandomImages(options.images, options.batch), options, timing)
    return timing.seconds[1:]


def train(
    loss: losses.CalibrationLoss,
    data: RandomImages,
    options: argparse.Namespace,
    *callbacks: L.Callback,
) -> None:
    """Train a network on random images for an epoch more than the options say, with the callbacks of `fit`."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        ours = [SeededSteps(1), NaNGuard(), *callbacks, LastCheckpoint(folder)]
        trainer = L.Trainer(
            max_epochs=options.epochs + 1,
            accelerator="gpu" if options.device == "cuda" else options.device,
            devices=1,
            precision=options.precision,
            gradient_clip_val=2.0,
            logger=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            num_sanity_val_steps=0,
            default_root_dir=folder,
            callbacks=ours,
        )
        module = ClassificationModule(
            getattr(backbones, options.network)(num_classes=10),
            loss,
            10,
            optimizer=lambda weights: torch.optim.SGD(
                weights, lr=0.1, momentum=0.9, weight_decay=5e-4, fused=options.fused
            ),
            channels_last=options.channels_last,
            compile=options.compile,
        )
        trainer.fit(module, datamodule=data)


def table(options: argparse.Namespace) -> Iterator[str]:
    """One line a loss: seconds, images a second, over cross-entropy, over Table 6."""
    sitting = Sitting(options, **training_settings(options))
    first = 0.0
    for loss in options.losses:

        def measured(loss: str = loss) -> dict[str, Any]:
            return {"seconds": statistics.median(epoch_seconds(loss, options))}

        if not (found := sitting.measure(loss, measured)):
            continue
        seconds = found["seconds"]
        first = first or seconds
        rate = options.images / seconds
        line = f"{loss:24s} {seconds:8.2f} s an epoch, {rate:9,.0f} images/s, {seconds / first - 1:+7.1%}"
        yield line + beside(options.network, loss, rate)
    sitting.close()


def beside(network: str, loss: str, rate: float) -> str:
    """The same cell of Table 6 and the ratio of the rates; nothing where it has none."""
    for model in model_names(network):
        for name in loss_names(loss):
            cell = dict(dataset="cifar10", model=model, loss=name, stage="train")
            found = published_number("gce", metric="seconds_per_epoch", **cell)
            if found is not None:
                ratio = rate * found.value / 45_000
                return f"   Table 6: {found.value:5.2f} s an epoch of 45,000; {ratio:.2f}x"
    return ""


def training_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add what decides how long an epoch takes."""
    parser.add_argument("--network", default="CIFARResNet50")
    parser.add_argument("--losses", nargs="+", default=list(TABLE_6))
    parser.add_argument("--images", type=int, default=45_000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fused", action="store_true")
    return parser


def training_settings(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of `training_options`, without the losses."""
    names = "network", "images", "batch", "epochs", "precision", "channels_last", "compile", "fused"
    return {name: getattr(options, name) for name in names}


def main(arguments: Sequence[str] | None = None) -> None:
    """Time each loss, print a line each."""
    options = read(training_options(parser("epochs.py", __doc__)), arguments)
    for line in table(options):
        print(line, flush=True)


if __name__ == "__main__":
    main()

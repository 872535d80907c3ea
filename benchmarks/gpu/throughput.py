"""Images a second of ResNet-50 on 32x32 images, through the trainer and in a bare loop, beside the GCE paper's 2,730.

Commands:

    python benchmarks/gpu/throughput.py
    python benchmarks/gpu/throughput.py --device cpu --network CIFARResNet8 --images 256 --batch 32

Batches of 128, cross-entropy, SGD, the gradient's norm clipped to 2, images cropped, flipped and normalised on the
device. A line a variant: `trainer` is what `calibench fit` does (an epoch with validation, checkpoint and guards; the
median after the first), `bare loop` is the shortest loop that does the same steps on the same network. Variants are
cumulative: float32 (convolutions in TF32, torch's default); bfloat16; channels_last; compiled; with CUDA graphs
(`reduce-overhead`). `steps` are the trainer's without validation and checkpoint. 2,730 are 45,000 images in 16.47 s, an
A100 in Table 6 of the paper.

One H200, torch 2.11, 2026-11-26, `--epochs 1 --images 11264 --variants "bfloat16, channels_last"`: 5,439 images a
second by the trainer, 1.99 times the paper's, and 7,184 in the bare loop. The trainer's epoch of 88 steps has its
validation and checkpoint in it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import lightning.pytorch as L
import torch
from epochs import RandomImages, train
from sitting import Sitting, parser, read

from calibench import backbones
from calibench.losses import CrossEntropyLoss
from calibench.tables.published import published_number
from calibench.training.callbacks import Timing


class Variant(NamedTuple):
    """Settings of a training."""

    precision: str = "32-true"
    channels_last: bool = False
    compile: bool = False
    graphs: bool = False


VARIANTS = {
    "float32": Variant(),
    "bfloat16": Variant("bf16-mixed"),
    "bfloat16, channels_last": Variant("bf16-mixed", True),
    "bfloat16, channels_last, compiled": Variant("bf16-mixed", True, True),
    "bfloat16, channels_last, CUDA graphs": Variant("bf16-mixed", True, True, True),
}


def paper_rate() -> float:
    """Images a second of ResNet-50 with cross-entropy in Table 6."""
    cell = dict(dataset="cifar10", model="resnet50", loss="cross_entropy", stage="train")
    found = published_number("gce", metric="seconds_per_epoch", **cell)
    assert found is not None
    return 45_000 / found.value


def with_trainer(variant: Variant, options: argparse.Namespace) -> dict[str, Any]:
    """Images a second of whole epochs through the trainer, and of their steps alone."""
    run = argparse.Namespace(**vars(options), **variant._asdict(), fused=options.device == "cuda")
    run.compile = "reduce-overhead" if variant.graphs else variant.compile
    timing, steps = Timing(), StepSeconds()
    train(CrossEntropyLoss(), RandomImages(options.images, options.batch), run, timing, steps)
    rates = (options.images / statistics.median(each.seconds[1:]) for each in (timing, steps))
    return dict(zip(("rate", "steps"), rates, strict=True))


class StepSeconds(L.Callback):
    """Measures the seconds from the first step of each epoch to the end of the last one."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._start = 0.0

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Note the time."""
        self._start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any
    ) -> None:
        """Note the seconds after the last step, when the device has done it."""
        if trainer.is_last_batch:
            if pl_module.device.type == "cuda":
                torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - self._start)


def in_a_bare_loop(variant: Variant, options: argparse.Namespace) -> dict[str, Any]:
    """Images a second of training steps alone; the first epoch, which compiles, does not count."""
    device, batch = options.device, options.batch
    data = RandomImages(options.images, batch)
    stored = data.augmentation.prepare(data.load_splits(0).train.inputs.to(device))
    target = torch.arange(options.images, device=device) % 10
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    network = getattr(backbones, options.network)(num_classes=10).to(device, memory_format=layout)
    mode = "reduce-overhead" if variant.graphs else "default"
    forward = torch.compile(network, dynamic=False, mode=mode) if variant.compile else network
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, fused=device == "cuda"
    )
    half = torch.autocast(device, torch.bfloat16, enabled=variant.precision != "32-true")
    loss = CrossEntropyLoss()

    def epoch(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        order = torch.randperm(options.images, generator=generator).to(device)
        draws = data.augmentation.draw(options.images, generator).to(device)
        for index in order.split(batch)[: options.images // batch]:
            images = data.transform(data.augmentation(stored, index, draws[index]))
            with half:
                logits = forward(images.contiguous(memory_format=layout))
            optimizer.zero_grad()
            (batch * loss(logits.float(), target[index])).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 2.0)
            optimizer.step()

    seconds = []
    for number in range(options.epochs + 1):
        start = time.perf_counter()
        epoch(number)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {"rate": options.images // batch * batch / statistics.median(seconds[1:])}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each variant, print a line each."""
    choices = parser("throughput.py", __doc__)
    choices.add_argument("--network", default="CIFARResNet50")
    choices.add_argument("--images", type=int, default=45_056, help="a multiple of the batch")
    choices.add_argument("--batch", type=int, default=128)
    choices.add_argument(
        "--epochs", type=int, default=2, help="that are timed, after one that is not"
    )
    choices.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = read(choices, arguments)
    sitting = Sitting(options, network=options.network, images=options.images, batch=options.batch)
    print(
        f"{'':38s} {'bare loop':>10s} {'trainer':>10s} {'of bare':>8s} {'of paper':>8s} {'steps':>10s}   images/s"
    )
    for name in options.variants:
        variant = VARIANTS[name]
        bare = sitting.measure(f"bare loop, {name}", lambda v=variant: in_a_bare_loop(v, options))
        ours = sitting.measure(f"trainer, {name}", lambda v=variant: with_trainer(v, options))
        best = ours.get("rate") or bare.get("rate")
        if best is None:
            continue
        steps = {"rate": ours["steps"]} if ours else {}
        columns = f"{number(bare)} {number(ours)} {share(ours, bare)} {best / paper_rate():7.2f}x {number(steps)}"
        print(f"{name:38s} {columns}", flush=True)
    sitting.close()


def number(found: dict[str, Any]) -> str:
    return f"{found['rate']:10,.0f}" if found else f"{'':10s}"


def share(ours: dict[str, Any], bare: dict[str, Any]) -> str:
    return f"{ours['rate'] / bare['rate']:8.0%}" if ours and bare else f"{'':8s}"


if __name__ == "__main__":
    main()

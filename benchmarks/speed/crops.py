"""What ten crops of images cost, in passes of the network over one crop of each (CPU time, one thread).

    OMP_NUM_THREADS=1 python benchmarks/speed/crops.py [--images 100] [--batch 16] [--repeats 2]

Ten crops are made, scored and averaged as `calibench fit` and `test` do it, five passes over the centre crop before
and five after them.
"""

from __future__ import annotations

import argparse
import time

import torch

from calibench.backbones import DenseNet121
from calibench.data.batch import Examples
from calibench.data.images.augment import Normalize
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD
from calibench.data.in_memory_loader import ResidentLoader
from calibench.data.task import Multilabel
from calibench.losses import CrossEntropyLoss
from calibench.training.module import ClassificationModule

LABELS = [str(number) for number in range(14)]


def seconds(module: ClassificationModule, loader: ResidentLoader) -> float:
    """CPU time of scoring what a loader yields."""
    began = time.process_time()
    for batch in loader:
        module.scored(batch)
    return time.process_time() - began


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each repeat."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("images", 100),
        ("batch", 16),
        ("size", 256),
        ("side", 224),
        ("repeats", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    network = DenseNet121(num_classes=len(LABELS), pretrained=False)
    module = ClassificationModule(network, CrossEntropyLoss(), 2, task=Multilabel(LABELS)).eval()
    shape = (options.images, 1, options.size, options.size)
    images = torch.randint(256, shape, dtype=torch.uint8)
    target = torch.zeros(options.images, len(LABELS), dtype=torch.int8)
    edge = (options.size - options.side) // 2
    centre = images[:, :, edge : edge + options.side, edge : edge + options.side].contiguous()
    one, ten = (
        ResidentLoader(Examples(stored, target), batch_size=options.batch, transform=views)
        for stored, views in (
            (centre, Normalize(IMAGENET_MEAN, IMAGENET_STD)),
            (images, Normalize(IMAGENET_MEAN, IMAGENET_STD, crops=options.side)),
        )
    )
    seconds(module, one)
    for _ in range(options.repeats):
        before, crops, after = (
            sum(seconds(module, loader) for _ in range(times))
            for loader, times in ((one, 5), (ten, 1), (one, 5))
        )
        print(
            f"ten crops {crops:.1f} s, ten passes {before + after:.1f} s: {10 * crops / (before + after):.2f} passes"
        )


if __name__ == "__main__":
    from rows import script

    script(main, "ten crops, in passes over one crop", aim="10.5")

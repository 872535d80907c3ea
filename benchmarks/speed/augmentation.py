"""Crops, flips and normalisation of small images in batches, beside a pipeline of one Pillow image at a time.

OMP_NUM_THREADS=1 python benchmarks/speed/augmentation.py [--images 12800] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from PIL import Image
from torchvision import transforms

from calibench.data import Examples, ShuffledLoader
from calibench.data.images.augment import Normalize, RandomCropFlip

MEAN, STD = (0.5,) * 3, (0.2,) * 3
BY_PILLOW = 10  # images of ours for each one of Pillow's


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median CPU time."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def main(arguments: list[str] | None = None) -> None:
    """Print the rate and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=12_800)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored = torch.randint(256, (options.images, 3, 32, 32), dtype=torch.uint8)
    loader = ShuffledLoader(
        Examples(
            stored.contiguous(memory_format=torch.channels_last),
            torch.zeros(options.images, dtype=torch.int64),
        ),
        batch_size=128,
        seed=0,
        transform=Normalize(MEAN, STD),
        augmentation=RandomCropFlip(),
    )
    pipeline = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    few = stored[: options.images // BY_PILLOW].permute(0, 2, 3, 1).numpy()
    ours = seconds(lambda: sum(1 for _ in loader), options.repeats) / options.images
    pillow = seconds(lambda: [pipeline(Image.fromarray(one)) for one in few], options.repeats)
    pillow /= len(few)
    print(f"{1 / ours:.0f} images/s, Pillow {1 / pillow:.0f}: {pillow / ours:.1f} times")


if __name__ == "__main__":
    from rows import script

    script(main, "crops, flips and normalisation of 32 x 32 images, beside Pillow", aim="10 times")

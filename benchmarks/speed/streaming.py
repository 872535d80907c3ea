"""Large images read as they are used, beside torchvision's ImageFolder; and what processes read of a user's data.

    python benchmarks/speed/streaming.py [--images 1500] [--repeats 3] [--write]

Both read the same JPEG files of 500 x 375 pixels, cut a random part of each to 224 x 224, mirror half of them and
normalise: `ImageFolderDataModule` with `RandomResizedCrop`, and torchvision's transforms of the same names in a
DataLoader with as many workers as there are cores. Wall time, in turn, the best of the repeats. Then the examples that
each of 1, 2, 3 and 8 processes reads of a user's loader of 1,000 examples in batches of 64, and those that it uses.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from calibench.data import ImageFolderDataModule, disk_loader
from calibench.data.images.augment import RandomResizedCrop
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD
from calibench.parallel.processes import cores

BATCH = 64


def photographs(folder: Path, images: int) -> None:
    """Files of smooth colours with some noise, of 100 to 150 kB as ImageNet's."""
    random = np.random.default_rng(0)
    for number in range(images):
        coarse = random.integers(256, size=(24, 32, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC))
        noisy = smooth + random.integers(-25, 25, size=smooth.shape)
        file = folder / "train" / f"class {number % 10}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, quality=90)
    (folder / "val").symlink_to(folder / "train")
    (folder / "test").symlink_to(folder / "train")


def ours(folder: Path) -> Iterable[Any]:
    """The training loader of a folder of images."""
    data = ImageFolderDataModule(
        folder=str(folder),
        side=224,
        resize=256,
        batch_size=BATCH,
        augment=RandomResizedCrop(),
        ood=(),
    )
    data.setup()
    return data.train_dataloader()


def theirs(folder: Path) -> Iterable[Any]:
    """torchvision's."""
    steps = [
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]  # fmt: skip
    dataset = ImageFolder(str(folder / "train"), transforms.Compose(steps))
    workers = cores()
    return DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, persistent_workers=True)


def seconds(loader: Iterable[Any]) -> float:
    """Wall time of an epoch."""
    began = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - began


class Counting(Dataset[tuple[torch.Tensor, int]]):
    """Examples that count how often they are read."""

    read = 0

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.read += 1
        return torch.zeros(1), index % 2


def reads_over_uses(processes: int) -> tuple[int, int]:
    """Examples that all of so many processes read in an epoch, and those that they use."""
    dataset, used = Counting(), 0
    for rank in range(processes):
        disk_loader.world_size_and_rank = lambda rank=rank: (processes, rank)  # type: ignore[misc]
        source = DataLoader(dataset, BATCH, shuffle=True)
        loader = disk_loader.StreamedLoader(source, "train", seed=1, device="cpu")
        used += sum(len(batch.target) for batch in loader)
    return dataset.read, used


def main(arguments: list[str] | None = None) -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photographs(folder, options.images)
        loaders = {"calibench": ours(folder), "torchvision": theirs(folder)}
        times: dict[str, list[float]] = {name: [] for name in loaders}
        for _ in range(options.repeats):
            for name, loader in loaders.items():
                times[name].append(seconds(loader))
    rate = {name: options.images / min(took) for name, took in times.items()}
    figure = (
        f"{rate['calibench']:.0f} images/s, torchvision {rate['torchvision']:.0f}: "
        f"{rate['calibench'] / rate['torchvision']:.2f} times"
    )
    print(figure)
    counts = {n: reads_over_uses(n) for n in (1, 2, 3, 8)}
    read = "; ".join(f"{n}: {read} for {used}" for n, (read, used) in counts.items())
    print(f"read for used examples of a loader, by processes: {read}")


if __name__ == "__main__":
    from rows import script

    what = (
        "large JPEGs to random parts of 224 pixels, beside `ImageFolder` with a `DataLoader`; reads"
    )
    script(main, what, aim="as fast; read: used + one batch")

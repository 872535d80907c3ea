"""What the module and the trainer add to a training step; what half precision and memory layout save of one.

Commands:

    OMP_NUM_THREADS=1 python benchmarks/speed/training.py [--repeats 7]
    OMP_NUM_THREADS=1 python benchmarks/speed/training.py --precision [--networks CIFARResNet8 CIFARResNet20]

One thread, CPU time, medians of interleaved repeats in one process.

Without an option: milliseconds over a bare loop on a linear network of 8x8 inputs, batches in memory, with all of
`fit`'s callbacks, the progress bar of a terminal and metrics.csv. Of 340 steps the first 40 do not count. Two figures:
the mean over steps, and the lowest tenth of them, which other load on the machine raises least. The aim: at most
0.5 ms a step (Lightning's own floor was 0.36 ms where this was first measured).

`--precision`: steps of a network on 32x32 images, float32 with the channels first against bfloat16 and channels_last.
Neither layout nor bfloat16 always pays: it depends on the processor's instructions, which are printed, and on how many
channels there are.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import LambdaCallback

from calibench import backbones
from calibench.backbones import MLP
from calibench.data import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.losses import CrossEntropyLoss
from calibench.training.callbacks import EpochProgress, NaNGuard, Timing, TrainingCurve
from calibench.training.checkpoints import LastCheckpoint, SeededSteps
from calibench.training.module import ClassificationModule

BATCH, STEPS = 128, 340


class Random(ClassificationDataModule):
    def __init__(self, steps: int) -> None:
        super().__init__(
            class_names=[str(k) for k in range(10)],
            batch_size=BATCH,
            split_seed=1,
            train_fraction=1.0,
            ood=(),
        )
        self.steps = steps

    def load_splits(self, seed: int) -> Splits:
        generator = torch.Generator().manual_seed(seed)
        parts = (
            Examples(torch.randn(n, 64, generator=generator), torch.arange(n) % 10)
            for n in (self.steps * BATCH, BATCH, BATCH)
        )
        return Splits(*parts)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        raise ValueError(name)


def network() -> MLP:
    return MLP(num_classes=10, in_features=64, hidden=())


class Clocked(CrossEntropyLoss):
    """Notes the CPU time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int] = []

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.times.append(time.process_time_ns())
        return super().forward(logits, target)

    def milliseconds(self) -> tuple[float, float]:
        """Of a step: the mean, and the lowest tenth."""
        steps = np.diff(self.times[40:]) / 1e6
        return float(steps.mean()), float(np.quantile(steps, 0.1))


def bare(loss: Clocked) -> None:
    data = Random(STEPS)
    data.setup()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for batch in data.train_dataloader():
        optimizer.zero_grad()
        loss(model(batch.inputs), batch.target).backward()
        optimizer.step()


def module(loss: Clocked, *, everything: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ours = [
            SeededSteps(1),
            NaNGuard(),
            Timing(),
            TrainingCurve(root / "metrics.csv"),
            LastCheckpoint(root),
            LambdaCallback(),  # what notes the error of a run
            EpochProgress(),
        ]
        trainer = L.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_model_summary=False,
            limit_val_batches=0,
            default_root_dir=root,
            callbacks=ours if everything else [],
            enable_progress_bar=everything,
            enable_checkpointing=everything,
        )
        model = ClassificationModule(network(), loss, 10)
        trainer.fit(model, datamodule=Random(STEPS))


VARIANTS: dict[str, Callable[[Clocked], None]] = {
    "bare loop": bare,
    "Lightning, module only": lambda loss: module(loss, everything=False),
    "as `calibench fit` runs it": lambda loss: module(loss, everything=True),
}


class Terminal(io.StringIO):
    """Where a progress bar shows itself without being seen."""

    def isatty(self) -> bool:
        return True


def overhead(repeats: int) -> None:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    with contextlib.redirect_stderr(Terminal()):
        for _ in range(repeats):
            for name, run in VARIANTS.items():
                loss = Clocked()
                run(loss)
                times[name].append(loss.milliseconds())
    print("milliseconds a step (and over the bare loop): mean; lowest tenth of the steps")
    floor = np.median(times["bare loop"], axis=0)
    for name, values in times.items():
        (mean, low), (more, least) = np.median(values, axis=0), np.median(values, axis=0) - floor
        print(f"{name:28s} {mean:6.3f} ({more:+6.3f}); {low:6.3f} ({least:+6.3f})")


# --- half precision and memory layout ---

# name: (bfloat16, channels_last images, channels_last weights)
LAYOUTS = {
    "float32, channels first": (False, False, False),
    "float32, as the loaders emit images": (False, True, False),
    "float32, channels_last": (False, True, True),
    "bfloat16, channels first": (True, False, False),
    "bfloat16, as the loaders emit images": (True, True, False),
    "bfloat16, channels_last": (True, True, True),
}


def stepper(
    network: str, batch: int, half: bool, images_last: bool, weights_last: bool
) -> Callable[[int], None]:
    """A training loop over one batch, by the number of steps."""
    torch.manual_seed(0)
    backbone = getattr(backbones, network)(num_classes=10)
    module_ = ClassificationModule(backbone, CrossEntropyLoss(), 10, channels_last=weights_last)
    layout = torch.channels_last if images_last else torch.contiguous_format
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=layout)
    target = torch.arange(batch) % 10
    optimizer = torch.optim.SGD(module_.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half, cache_enabled=False):
                logits = module_(images)
            module_.loss(logits.float(), target).backward()
            optimizer.step()

    return run


def precision(network: str, batch: int, repeats: int) -> None:
    print(f"{network}, batch {batch}")
    runs = {name: stepper(network, batch, *layout) for name, layout in LAYOUTS.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(1)
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run(1)
            times[name].append((time.process_time() - start) * 1000)
    first = statistics.median(times["float32, channels first"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:38s} {median:7.1f} ms a step, {first / median:5.2f}x")


def instructions() -> str:
    """What the processor has for matrices in float32 and bfloat16."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.is_file() else set()
    known = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return ", ".join(name if name in flags else f"no {name}" for name in known)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", action="store_true")
    parser.add_argument("--networks", nargs="+", default=["CIFARResNet8", "CIFARResNet20"])
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if not options.precision:
        overhead(options.repeats)
        return
    print(f"torch {torch.__version__}, one thread; {instructions()}")
    for network_name in options.networks:
        precision(network_name, options.batch, options.repeats)


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "a step of `fit` over a bare loop; with `--precision` bfloat16 and channels_last",
        aim="0.5 ms; 2.2 times (AMX)",
    )

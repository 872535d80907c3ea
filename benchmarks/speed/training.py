"""What the module and the trainer add to a training step: milliseconds over a bare loop on a network that does nothing.

Command:  python benchmarks/speed/training.py [repeats]

A linear network of 8x8 inputs, batches in memory, one thread, wall time. A figure is the slope between 40 and
340 steps, so that setting up does not count; the median of interleaved repeats. The aim: at most 0.5 ms a step with
the progress bar, the curve and the checkpoint on (Lightning's own floor was 0.36 ms where this was first measured).
"""

from __future__ import annotations

import io
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as L
import torch

from calibench.backbones import MLP
from calibench.callbacks import NaNGuard, Timing, TrainingCurve, drop_idle_hooks
from calibench.checkpoints import LastCheckpoint, SeededSteps
from calibench.data import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.interruption import Interruption
from calibench.losses import CrossEntropyLoss
from calibench.module import ClassificationModule
from calibench.progress import EpochProgress

BATCH = 128


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


def bare(steps: int) -> None:
    data = Random(steps)
    data.setup()
    model, loss = network(), CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for batch in data.train_dataloader():
        optimizer.zero_grad()
        loss(model(batch.inputs), batch.target).backward()
        optimizer.step()


def module(steps: int, *, everything: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ours = [
            SeededSteps(1),
            NaNGuard(),
            Timing(),
            TrainingCurve(root / "metrics.csv"),
            LastCheckpoint(root),
            Interruption(),
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
        model = ClassificationModule(network(), CrossEntropyLoss(), 10)
        if everything:
            drop_idle_hooks(model, ours)
        trainer.fit(model, datamodule=Random(steps))


VARIANTS: dict[str, Callable[[int], None]] = {
    "bare loop": bare,
    "Lightning, module only": lambda steps: module(steps, everything=False),
    "as `calibench fit` runs it": lambda steps: module(steps, everything=True),
}


def milliseconds(run: Callable[[int], None]) -> float:
    seconds = []
    for steps in (40, 340):
        start = time.process_time()
        run(steps)
        seconds.append(time.process_time() - start)
    return (seconds[1] - seconds[0]) / 300 * 1000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def main() -> None:
    sys.stderr = Terminal()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for run in VARIANTS.values():
        run(40)
    for _ in range(repeats):
        for name, run in VARIANTS.items():
            times[name].append(milliseconds(run))
    floor = statistics.median(times["bare loop"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:28s} {median:7.3f} ms a step, {median - floor:+7.3f} over the bare loop")


if __name__ == "__main__":
    main()

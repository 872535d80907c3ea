"""Images a second of several runs that share one GPU: how many cells of a sweep to train at once (`--cells-per-gpu`).

Commands:

    python benchmarks/gpu/cells_at_once.py --counts 1 2 4 8 --precision bf16-mixed --channels-last
    python benchmarks/gpu/cells_at_once.py --device cpu --images 256 --batch 64 --network CIFARResNet8 --counts 1 2

The setting is that of `epochs.py`, with the first of `--losses`. Each run is a process; they start their first epoch
together. One H200, torch 2.11, 2026-11-26, `--precision bf16-mixed --channels-last --fused`:

    1, 2, 4 at once    3,496, 8,906, 10,266 images a second together      `--images 11264 --epochs 1`
    1, 2, 4 at once    119,583, 185,048, 258,723       `--network CIFARResNet8 --batch 1024 --epochs 2`

One run of a ResNet-50 alone was slowed by its processor: 5,439 on another day (`throughput.py`). Sweeps of
`suites/evidence_speedrun` with 10 and 8 cells at once on one H100 trained 46 networks in 256 seconds, where a run alone
takes 12; with 16 cells one H200 trained 81 in five minutes, with 20 at once 20 of CIFAR-100 in 162 seconds, beside
other work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

from epochs import epoch_seconds, training_options, training_settings
from sitting import Sitting, parser, quiet, read

_start_line: Barrier


def start_line(barrier: Barrier) -> None:
    """In each process: where its run waits for the others."""
    global _start_line
    _start_line = barrier
    quiet()


def one_of_many(options: argparse.Namespace) -> float:
    """Seconds of an epoch of one of the runs."""
    _start_line.wait()
    return statistics.median(epoch_seconds(options.losses[0], options))


def together(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Images a second of all of `count` runs."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, start_line, (context.Barrier(count),)) as pool:
        runs = [pool.submit(one_of_many, options) for _ in range(count)]
        return {"rate": sum(options.images / run.result() for run in runs)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each number of runs, print a line each."""
    choices = training_options(parser("cells_at_once.py", __doc__))
    choices.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4, 8])
    options = read(choices, arguments)
    sitting = Sitting(options, **training_settings(options), loss=options.losses[0])
    first = 0.0
    for count in options.counts:
        found = sitting.measure(f"{count} at once", lambda count=count: together(count, options))
        if found:
            first = first or found["rate"] / count
            rate = f"{found['rate']:9,.0f} images/s together, {found['rate'] / first:.2f}x of one"
            print(f"{count} at once: {rate}", flush=True)
    sitting.close()


if __name__ == "__main__":
    main()

"""CPU time of floors of calibration errors, beside that of the metrics themselves.

    OMP_NUM_THREADS=1 python benchmarks/speed/floors.py [--rows 10000] [--classes 10] [--repeats 5]

One thread, medians of process time: the metric from the logits (softmax, update, compute), and its floor with p-value
(all draws) from the probabilities. Aims: the floor of ECE at most 20 times the metric at 10,000 rows and 10 classes,
and below 2 s at 1,000,000; that of smECE below 2 s at 10,000.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from calibench import metrics as M
from calibench.evaluation.floors import Floors
from calibench.statistics.number import Key, Number

torch.set_num_threads(1)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median process time."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each metric."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    n, k = options.rows, options.classes
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, k, generator=generator)
    target = torch.randint(k, (n,), generator=generator)
    logits[torch.arange(n), target] += 6
    probs = logits.softmax(1)
    print(f"{n} rows, {k} classes: metric ms, floor ms, ratio")
    for metric in (
        M.CalibrationError(),
        M.AdaptiveCalibrationError(),
        M.ClasswiseCalibrationError(num_classes=k),
        M.SmoothCalibrationError(),
    ):

        def scored(metric: M.CalibrationMetric = metric) -> float:
            metric.reset()
            metric.update(logits.softmax(1), target)
            return float(metric.compute())

        value = Number(Key(metric.name), scored())
        alone = seconds(scored, options.repeats)
        floor = seconds(
            lambda m=metric, v=value: Floors(probs, target).add_verdict(m, v), options.repeats
        )  # type: ignore[misc]
        print(f"{metric.title:14s} {1e3 * alone:9.2f} {1e3 * floor:9.1f} {floor / alone:7.1f}")


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "floor and p-value of a calibration error beside the metric",
        aim="ECE 20 times; 2 s at 1,000,000 rows",
    )

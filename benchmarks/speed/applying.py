"""CPU time of applying a calibrator to logits, in times of `logits.softmax(1)`, one thread, medians of ratios.

    OMP_NUM_THREADS=1 python benchmarks/speed/applying.py [--rows 5000] [--repeats 9]

The softmax is of float32, a calibrator computes in float64: there a bare softmax takes 3 to 4 of these units (K = 100
and 1,000, AVX-512) and a logarithm 3 to 4 more, so that no ensemble can take less than 7, no structured scaling less
than 10. With K = 10 the unit depends on the processor: torch's float32 softmax of so short rows takes 0.9 ms with
AVX-512 and 0.25 ms with AVX2 (`ATEN_CPU_CAPABILITY=avx2`).

On 2026-11-30 what misses an aim was looked at once more: structured scaling of 100 classes takes 12 to 14 units, of 10
classes with AVX2 the four take 3.5, 1.5, 3.6 and 3.6 at best. At worst they take twice as long: memory that malloc has
given back is asked for again (456 faults of a page, 0.9 ms, in structured scaling of 5,000 x 10), which depends on what
the process had allocated before, and other processes take turns on the core. Without enough of a gain were tried: to
keep rows as columns from one softmax to the next (.92 to 1), blocks of a quarter (no faults of a page, but 1.2 times
the time with 100 classes), and exp and logarithm by numpy (0.8 ns a number with AVX-512, where torch takes 1.6 and 2.3,
but 4.5 and 3.5 without it).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from calibrators import synthetic

from calibench.calibrators import (
    EnsembleTemperatureScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)

torch.set_num_threads(1)

CLASSES = (10, 100, 1000)
CALIBRATORS = (
    TemperatureScaling,
    VectorScaling,
    StructuredVectorScaling,
    EnsembleTemperatureScaling,
)


def cpu_seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="CPU time of applying a calibrator.")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args(arguments)
    for k in CLASSES:
        logits, target = synthetic(options.rows, k)
        for cls in CALIBRATORS:
            model = cls().fit(logits, target)
            ratios = []
            for _ in range(options.repeats):
                softmax = cpu_seconds(lambda scores=logits: scores.softmax(1))  # type: ignore[misc]
                ratios.append(
                    cpu_seconds(lambda apply=model, scores=logits: apply(scores)) / softmax  # type: ignore[misc]
                )
            print(f"{options.rows:,} x {k:,} {cls.__name__}: {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    from rows import script

    script(main, "applying a calibrator, in times of a softmax", aim="3, 10 and 15")

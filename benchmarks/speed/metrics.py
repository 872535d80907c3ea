"""CPU time of the metrics, beside their peers and the floor `logits.softmax(1).max(1)` in one piece.

    OMP_NUM_THREADS=1 python benchmarks/speed/metrics.py [--rows 100000] [--classes 10] [--repeats 7]

One thread, one process, interleaved repeats, medians of process time. Everything is streamed in batches of logits:
the collection takes them as they are, single metrics through `softmax`, the peers through torch's. Peers
(torchmetrics, torch-uncertainty, netcal, relplot) are run where they are installed. Aims: the collection at most 2x
the floor from 100,000 rows on and 4x at 10,000; batches of 128 at most 1.5x slower than of 1,000; ClasswiseECE at
most 1.5x the floor (missed since 2026-11-24, see below); memory growth below 10 MB at 1,000,000 rows (9.6 to 10.3).

Measured 2026-11-21 on 2 cores of a shared EPYC (torch 2.15), no other process of ours, 15 repeats (1e6: 3), times a
floor of 2.0, 17, 210 to 316, 1.9 to 2.8, 41 and 370 to 555 ms (a neighbour comes and goes):

    N, K        all 7  B = 128  probs  15+20 bins  ECE   cwECE         AdaECE  smECE
    1e4, 10     3.38   3.54     3.13   3.72        1.25  1.24          1.18    1.84
    1e5, 10     1.36   1.73     1.40   1.69        0.67  0.59          0.61    0.70
    1e6, 10     0.87   1.13     1.05   1.13        0.49  0.50          0.44    0.41
    1e4, 100    3.03   3.24     3.49   4.31        1.14  1.33 to 1.46  1.17    1.62
    1e5, 100    1.33   1.44     1.55   1.82        0.59  0.70          0.50    0.62
    1e6, 100    1.24   1.34     1.30   1.48        0.34  0.46          0.32    0.44

Beside torchmetrics 1.9 (tm), torch-uncertainty 0.13 (TU), netcal 1.4 (nc) and relplot 1.0.3 (rp), in the same
process, 7 repeats:

    N, K        ECE   tm    nc    AdaECE  TU    smECE  rp    TU
    1e5, 10     1.09  1.64  1.94  0.84    1.75  0.99   2.30  5.13
    1e4, 100    1.11  2.10  2.13  1.13    1.54  1.58   3.98  30.3
    1e5, 100    0.51  0.98  1.83  0.49    0.81  0.53   1.46  1.21

Memory growth at 1e6 rows (2026-11-26): 5 to 8 and 7 MB at K = 10 and 100 (42 and 52 two days before). "probs" feeds
probabilities and log-probabilities instead of logits; their batches of 128 take 1.2 to 1.5 times as long as those of
1,000, since each pays for its own log-softmax and exp. What made the difference: rows wait as they came, and are
normalised a block of up to 131,072 numbers at a time (1,048,576 when the columns above were measured).

Since 2026-11-24 the classwise error adds up the cells of its formula, three sums a cell, and has no faster path of its
own for a CPU. On a busy machine, CPU time before and after: 8.2 and 13.6 ms (1e4 x 10), 9 and 35 ms (1e4 x 100); the
collection 24 and 32, 37 and 162 ms (batches of 128: 32 and 42, 49 and 125). The columns of all seven and of cwECE above
are from before.

Since 2026-11-28 it scatters on a CPU only what lies above the first edge, by numpy, and the first bin gets the rest;
few edges are compared with all values instead of searched for each. In times of the floor, one thread, on a busy
machine (load 9), all seven and cwECE: 5.0 to 5.6 and 2.8 to 3.1 (1e4 x 100; 7.0 and 3.0 in the morning), 2.2 and 1.8
(1e5 x 100; 3.2 and 2.0), 1.4 and 1.1 (2e4 x 1,000); the aims of 3 at 1e4 x 100 and 2 at 1e5 x 100 are missed: a
millisecond is torchmetrics' own, two are the search of smECE's width.

Since 2026-11-29 rows wait in one buffer, columns are summed and searched in one pass of numpy each, and smECE's width
is looked for at the mean gap first. Both versions in one process, medians of ratios to the version before, twice: 0.89
(1e3 x 3), 0.92 and 0.96 (1e4 x 10), 0.90 and 0.89 (1e4 x 100), 0.95 and 0.96 (1e5 x 10), 1.01 and 0.94 (1e5 x 100); in
batches of 128, 0.76 to 0.96 at K = 10 and 0.83 to 0.99 at K = 100. At 1e4 x 100 the panel still takes 4.5 to 5.4 times
the floor: logarithm and exp of all numbers take one of these, many short calls most of the rest.

On 2026-11-30, with the floor at 2.05 ms, the panel takes 4.1 to 4.4 times that at 1e4 x 100, and 3 is out of reach: the
passes over all numbers alone (copy, log-softmax, exp, argmax, squares, column sums, what lies above the first edge)
take 1.7, and what the same ten batches of 10 rows take, short calls of torchmetrics and of smECE's search, is 1.3. A
softmax in place of log-softmax and exp would save 0.4, and move single-precision values against those of a file.
Batches of 128 rows take 0.87 times what they took, as a batch that waits is compared by three attributes, not by views.

Of 11.3 ms later that day (floor 2.4, a busy machine) two evaluations of 5,000 rows took 6.7 (log-softmax, exp and
argmax 3.1, classwise error 2.6, Brier score 0.6, ECE 0.6, pairs 0.4), the values 2.9 (smECE 1.5, AdaECE 0.75), the
copies of batches that wait 1.4, `reset` 0.3; there were no faults of a page. Passes over 2,560 rows at a time, which
stay in the cache, would save 1.0.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibench import metrics as M

torch.set_num_threads(1)
Run = Callable[[Tensor, Tensor], Any]


def synthetic(n: int, k: int) -> tuple[Tensor, Tensor]:
    """Logits of an over-confident model with some 90% (K = 10) to 80% (K = 100) accuracy."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, k, generator=generator)
    target = torch.randint(k, (n,), generator=generator)
    logits[torch.arange(n), target] += 4
    return 1.5 * logits, target


def floor(logits: Tensor, target: Tensor) -> Tensor:
    return logits.softmax(1).max(1).values


def collection(metric: M.CalibrationMetrics, size: int, logits: Tensor, target: Tensor) -> Any:
    """As validation feeds it."""
    metric.reset()
    for start in range(0, len(target), size):
        metric.update_logits(logits[start : start + size], target[start : start + size])
    return metric.compute()


def collection_of_probabilities(
    metric: M.CalibrationMetrics, size: int, logits: Tensor, target: Tensor
) -> Any:
    """As evaluation feeds it: log-probabilities, and probabilities from them."""
    metric.reset()
    for start in range(0, len(target), size):
        probs, log_probs = M.probabilities(logits[start : start + size])
        labels = target[start : start + size]
        metric.update(preds=probs, target=labels, log_probs=log_probs)
    return metric.compute()


def stream(metric: Any, logits: Tensor, target: Tensor) -> Any:
    metric.reset()
    for start in range(0, len(target), 1000):
        metric.update(M.softmax(logits[start : start + 1000]), target[start : start + 1000])
    return metric.compute()


def stream_softmax(metric: Any, logits: Tensor, target: Tensor) -> Any:
    metric.reset()
    for start in range(0, len(target), 1000):
        metric.update(logits[start : start + 1000].softmax(1), target[start : start + 1000])
    return metric.compute()


def ours(k: int) -> dict[str, Run]:
    checked, unchecked = (M.calibration_metrics(k, (15,), validate_args=v) for v in (True, False))
    two = M.calibration_metrics(k, (15, 20), validate_args=False)
    single: dict[str, Any] = {
        "ECE": M.CalibrationError(validate_args=False),
        "AdaECE": M.AdaptiveCalibrationError(validate_args=False),
        "ClasswiseECE": M.ClasswiseCalibrationError(num_classes=k, validate_args=False),
        "smECE": M.SmoothCalibrationError(validate_args=False),
    }
    return {
        "floor": floor,
        "all 7, batches of 1000": partial(collection, unchecked, 1000),
        "all 7, batches of 128": partial(collection, unchecked, 128),
        "all 7, probabilities, 1000": partial(collection_of_probabilities, unchecked, 1000),
        "all 7, probabilities, 128": partial(collection_of_probabilities, unchecked, 128),
        "all 7, 1000, checked": partial(collection, checked, 1000),
        "all 10 (15 and 20 bins), 1000": partial(collection, two, 1000),
    } | {name: partial(stream, metric) for name, metric in single.items()}


def torchmetrics_runs(k: int) -> dict[str, Run]:
    module = importlib.import_module("torchmetrics.classification")
    metric = module.MulticlassCalibrationError(k, n_bins=15, validate_args=False)
    return {"ECE torchmetrics": partial(stream_softmax, metric)}


def torch_uncertainty_runs(k: int) -> dict[str, Run]:
    module = importlib.import_module("torch_uncertainty.metrics.classification")
    smooth = module.SmoothCalibrationError(kernel_type="reflected")
    adaptive = module.AdaptiveCalibrationError(task="multiclass", num_bins=15, num_classes=k)
    return {
        "AdaECE torch-uncertainty": partial(stream_softmax, adaptive),
        "smECE torch-uncertainty": partial(stream_softmax, smooth),
    }


def netcal_runs(k: int) -> dict[str, Run]:
    ece = importlib.import_module("netcal.metrics").ECE(15)
    return {
        "ECE netcal": lambda logits, target: ece.measure(logits.softmax(1).numpy(), target.numpy())
    }


def relplot_runs(k: int) -> dict[str, Run]:
    relplot = importlib.import_module("relplot")

    def smooth(logits: Tensor, target: Tensor) -> Any:
        confidence, predicted = logits.softmax(1).max(1)
        return relplot.smECE(confidence.double().numpy(), (predicted == target).double().numpy())

    return {"smECE relplot": smooth}


def peers(k: int) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for build in (torchmetrics_runs, torch_uncertainty_runs, netcal_runs, relplot_runs):
        try:
            runs |= build(k)
        except ImportError as missing:
            print(f"skipped {build.__name__.removesuffix('_runs')}: {missing}")
    return runs


def cpu_ms(run: Run, logits: Tensor, target: Tensor) -> float:
    start = time.process_time()
    run(logits, target)
    return 1e3 * (time.process_time() - start)


def memory_growth(k: int, n: int) -> float:
    """Growth of the process's peak memory in MB while `n` rows stream through the collection."""
    metric = M.calibration_metrics(k, (15,), validate_args=False)
    logits, target = synthetic(10_000, k)
    collection(metric, 1000, logits, target)
    metric.reset()
    Path("/proc/self/clear_refs").write_text(
        "5"
    )  # the peak so far is forgotten: imports have a higher one
    before = peak_mb()
    for step in range(n // 1000):
        rows = slice(1000 * (step % 10), 1000 * (step % 10) + 1000)
        metric.update_logits(logits[rows], target[rows])
    metric.compute()
    return peak_mb() - before


def peak_mb() -> float:
    """The peak of this process's memory since it was last forgotten, in MB (Linux)."""
    _, _, peak = Path("/proc/self/status").read_text().partition("VmHWM:")
    return int(peak.split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of the metrics.")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory-rows", type=int, default=1_000_000, help="0 leaves memory out")
    arguments = parser.parse_args()
    for k in arguments.classes if arguments.memory_rows else ():
        growth = memory_growth(k, arguments.memory_rows)
        print(f"peak memory growth, {arguments.memory_rows} rows, K = {k}: {growth:.1f} MB")
    for k in arguments.classes:
        for n in arguments.rows:
            data, runs = synthetic(n, k), ours(k) | peers(k)
            times: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(arguments.repeats + 1):
                for name, run in runs.items():
                    times[name].append(cpu_ms(run, *data))
            lowest = statistics.median(times["floor"][1:])
            print(f"\nN = {n}, K = {k}")
            for name, values in times.items():
                median = statistics.median(values[1:])
                print(f"  {name:32s} {median:9.2f} ms  {median / lowest:6.2f}x the floor")


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "seven metrics streamed, and peers, in times of `softmax(1).max(1)`; memory",
        aim="2 (4 at 10,000 rows), ClasswiseECE 1.5, 10 MB",
    )

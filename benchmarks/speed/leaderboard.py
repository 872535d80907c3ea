"""CPU seconds and memory of leaderboards of 1,000 to 100,000 generated runs, and how they grow; and of a report.

    python benchmarks/speed/leaderboard.py [--runs 1000 10000 100000]
    python benchmarks/speed/leaderboard.py --report [--runs 500]

Runs are 10 seeds of 20 losses on 5 backbones of as many benchmarks as it takes, with metrics.json of the size that
`fit` writes (raw and two calibrators, two splits, two OOD sets); files are in the memory of the system. The first
leaderboard reads every file and writes the index; those after it are warm, the median of three counts. Each is a
process of its own on one core, less what the same takes for twenty runs (start-up, numpy and scipy). Runs of a report
also have a curve of 350 epochs and logits of CIFAR's sizes: validation 5,000, test 10,000, OOD sets 10,000 and 26,032
examples.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from calibench.runs import Predictions, write_json

SETTINGS = {f"model.some.init_args.option_{i}": i for i in range(80)}
CALIBRATORS = ("raw", "TemperatureScaling", "AdaptiveTemperatureScaling")
SCORES = ("error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece")
MORE = ("ece_20", "adaptive_ece_20", "classwise_ece_20")
SIZES = {"val": 5_000, "test": 10_000, "noise": 10_000, "photos": 26_032}
KINDS = {"val": "val", "test": "test"}
RUN = """
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from calibench.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
_, _, peak = open("/proc/self/status").read().partition("VmHWM:")
print(sum(os.times()[:4]), int(peak.split()[0]) / 1024, file=sys.stderr)
"""
FORMATS = ("csv", "table")


def rows() -> list[dict[str, object]]:
    return [
        {"split": split, "calibrator": c, "metric": m, "n_bins": 15, "value": random.random()}
        for split in ("val", "test")
        for c in CALIBRATORS
        for m in SCORES + MORE
    ] + [
        {"split": split, "calibrator": c, "metric": m, "score": s, "value": random.random()}
        for split in ("noise", "photos")
        for c in CALIBRATORS
        for m in ("ood_auroc", "ood_fpr95", "ood_aupr_in", "ood_aupr_out")
        for s in ("entropy", "msp")
    ]


def settings_of(benchmark: str, backbone: str, loss: str) -> dict[str, object]:
    names = {"data.class_path": benchmark, "model.backbone.class_path": backbone}
    return SETTINGS | names | {"model.loss.class_path": loss}


@cache
def key_of(benchmark: str, backbone: str, loss: str) -> str:
    text = json.dumps(settings_of(benchmark, backbone, loss), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def write(root: Path, number: int) -> Path:
    rest, seed = divmod(number, 10)
    rest, loss = divmod(rest, 20)
    benchmark, backbone = divmod(rest, 5)
    row = {"benchmark": f"b{benchmark}", "backbone": f"n{backbone}", "loss": f"L{loss}"}
    who = row | {"key": key_of(**row)}
    folder = root.joinpath(*who.values(), f"seed={seed}")
    folder.mkdir(parents=True)
    fitted = {
        "TemperatureScaling": {"temperature": 1.5},
        "AdaptiveTemperatureScaling": {
            "edges": [0.3 + 0.05 * i for i in range(14)],
            "temperatures": [1 + 0.1 * i for i in range(15)],
        },
    }
    content = {
        **who,
        "seed": seed,
        "settings": settings_of(**row),
        "fingerprint": "x",
        "rows": rows(),
    }
    environment = {"wall_seconds": 3.2, "seconds_per_epoch": 0.1, "peak_memory_mb": 100.0}
    write_json(folder / "metrics.json", {**content, "calibrators": fitted}, sealed=True)
    (folder / "status.json").write_text(json.dumps({"status": "done", "reason": None}))
    write_json(folder / "environment.json", environment, sealed=True)
    return folder


def write_logits(folder: Path, number: int) -> None:
    """Predictions and a training curve: noise that is shared, rolled by another distance for each run."""
    (folder / "metrics.csv").write_text(curve())
    for split, (target, noise) in shared_noise().items():
        logits = 2 * np.roll(noise, 137 * number, axis=0)
        if split in KINDS:
            logits[np.arange(len(target)), target] += 4
        metadata = {"split": split, "kind": KINDS.get(split, "ood"), "class_counts": [5000] * 10}
        Predictions(logits, target, metadata).save(folder / "predictions" / f"{split}.npz")


@cache
def curve() -> str:
    """350 epochs of what `fit` logs."""
    names = ["lr", "train/loss", *(f"val/{metric}" for metric in SCORES + MORE)]
    lines = [
        ",".join(map(str, [epoch, epoch, *(random.random() for _ in names)]))
        for epoch in range(350)
    ]
    return "\n".join([",".join(["epoch", "step", *names]), *lines, ""])


@cache
def shared_noise() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    drawn = np.random.default_rng(0)
    return {
        split: (drawn.integers(10, size=n), drawn.standard_normal((n, 10)).astype(np.float32))
        for split, n in SIZES.items()
    }


def timed(*arguments: str) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of a verb in a fresh process on one core."""
    command = [sys.executable, "-c", RUN, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = done.stderr.splitlines()[-1].split()
    return float(seconds), float(memory)


def of_results(results: Path, style: str, repeats: int = 3) -> tuple[float, float]:
    """Medians over warm leaderboards."""
    several = [timed("leaderboard", str(results), "--format", style) for _ in range(repeats)]
    seconds, memory = (statistics.median(of) for of in zip(*several, strict=True))
    return seconds, memory


def scan(results: Path) -> float:
    """CPU seconds to read and parse every file in one process: the floor of a leaderboard without an index."""
    started = time.process_time()
    for path in results.rglob("*.json"):
        json.loads(path.read_bytes())
    return time.process_time() - started


def report(folder: Path, runs: int) -> None:
    """Time a report of some runs."""
    for number in range(runs):
        write_logits(write(folder / "results", number), number)
    page = folder / "report.html"
    seconds, memory = timed("report", str(folder / "results"), "-o", str(page))
    size = page.stat().st_size / 1e6
    print(f"{runs} runs as a report: {seconds:.2f} s, {memory:.0f} MB, page {size:.1f} MB")


def leaderboards(folder: Path, sizes: list[int]) -> str:
    """Print a line for each size; how they grow."""
    start = {style: of_results(folder / "few", style) for style in FORMATS}
    warm = {}
    for runs in sizes:
        results = folder / str(runs)
        for number in range(runs):
            write(results, number)
        floor, (cold, cold_memory) = scan(results), timed("leaderboard", str(results))
        found = {style: of_results(results, style) for style in FORMATS}
        warm[runs] = {style: found[style][0] - start[style][0] for style in FORMATS}
        size = (results / ".runs.parquet").stat().st_size / 1e6
        each = ", ".join(f"{warm[runs][s]:.2f} s as {s} ({found[s][1]:.0f} MB)" for s in FORMATS)
        made = f"{cold - start['table'][0]:.1f} s ({cold_memory:.0f} MB)"
        line = f"{runs:,} runs: {each}; making the index ({size:.0f} MB) {made}; parsing alone {floor:.1f} s"
        print(line, flush=True)
        shutil.rmtree(results)
    first, last = min(sizes), max(sizes)
    grown = (
        (math.log(warm[last]["csv"] / warm[first]["csv"]) / math.log(last / first))
        if last > first
        else 1
    )
    few = ", ".join(f"{start[s][0]:.2f} s as {s} ({start[s][1]:.0f} MB)" for s in FORMATS)
    return f"exponent {grown:.2f}; of twenty runs, which is taken off: {few}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", help="by default 1000 10000 100000")
    parser.add_argument("--report", action="store_true", help="time `calibench report`")
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.report:
            report(folder, *(options.runs or [500]))
            return
        for number in range(20):
            write(folder / "few", number)
        print(leaderboards(folder, options.runs or [1_000, 10_000, 100_000]))


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "a warm leaderboard, CPU time beyond start-up, and peak memory; with `--report` a report",
        aim="1 s for 10,000 runs; 10 s and 10 MB for a report of 500",
    )

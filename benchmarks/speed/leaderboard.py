"""Seconds and memory of the leaderboard over many generated runs, each format in a fresh process.

    python benchmarks/speed/leaderboard.py [--runs 10000]

Runs are 10 seeds of 20 losses on 5 backbones, with metrics.json of the size that `fit` writes (raw and
two calibrators, two splits, two OOD sets). The first reading after writing is warm.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {f"model.some.init_args.option_{i}": i for i in range(80)}
KEY = hashlib.sha256(json.dumps(SETTINGS, sort_keys=True).encode()).hexdigest()[:10]
CALIBRATORS = ("raw", "TemperatureScaling", "AdaptiveTemperatureScaling")
SCORES = ("error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece")
MORE = ("ece_20", "adaptive_ece_20", "classwise_ece_20")
RUN = """
import argparse
from calibench import leaderboard
parser = argparse.ArgumentParser()
leaderboard.add_arguments(parser)
leaderboard.run(parser.parse_args())
"""


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
        for m in ("ood_auroc", "ood_fpr95")
        for s in ("entropy", "msp")
    ]


def write(root: Path, number: int) -> None:
    rest, seed = divmod(number, 10)
    rest, loss = divmod(rest, 20)
    benchmark, backbone = divmod(rest, 5)
    who = {"benchmark": f"b{benchmark}", "backbone": f"n{backbone}", "loss": f"L{loss}", "key": KEY}
    folder = root.joinpath(*who.values(), f"seed={seed}")
    folder.mkdir(parents=True)
    content = {**who, "seed": seed, "settings": SETTINGS, "fingerprint": "x", "rows": rows()}
    environment = {"wall_seconds": 3.2, "seconds_per_epoch": 0.1, "peak_memory_mb": 100.0}
    (folder / "metrics.json").write_text(json.dumps(content, indent=1))
    (folder / "status.json").write_text(json.dumps({"status": "done", "reason": None}))
    (folder / "environment.json").write_text(json.dumps(environment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.runs):
            write(Path(name), number)
        for style in ("csv", "table", "markdown", "json"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            started = time.perf_counter()
            command = [sys.executable, "-c", RUN, name, "--format", style]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            wall = time.perf_counter() - started
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = f"{usage.ru_utime - before:5.2f} s CPU, {usage.ru_maxrss / 1024:4.0f} MB"
            print(f"{options.runs} runs as {style:<9} {wall:5.2f} s wall, {used} at most so far")


if __name__ == "__main__":
    main()

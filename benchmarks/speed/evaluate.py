"""What `calibench evaluate` costs of a test set alone, and with as many validation examples: CPU time and memory.

Command:  python benchmarks/speed/evaluate.py [--rows 25000] [--classes 1000]

Every default: a block of four numbers, or seven rows of a table; 1,000 resamples. Each is a process of its own on one
core; the memory is its peak (VmHWM). Beside them stands what the same imports take that compute nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile

import numpy as np

RUN = """
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import calibench.evaluation.evaluation
from calibench.cli import main
code = main(sys.argv[1:]) if len(sys.argv) > 1 else 0
sys.stdout.flush()
_, _, peak = open("/proc/self/status").read().partition("VmHWM:")
print(sum(os.times()[:2]), int(peak.split()[0]) / 1e6, file=sys.stderr)
sys.exit(code)
"""


def files(folder: str, rows: int, classes: int) -> None:
    """Write overconfident logits whose labels are drawn from their softmax at two thirds of them."""
    for seed, name in enumerate(("val", "test")):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(rows, classes)).astype(np.float32)
        logits[np.arange(rows), random.integers(classes, size=rows)] += 12
        target = (logits / 1.5 + random.gumbel(size=logits.shape)).argmax(1)
        np.savez(f"{folder}/{name}.npz", logits=logits, target=target)


def measured(*arguments: str) -> str:
    """CPU seconds and the peak in GB of a process: of some arguments, or of the imports alone."""
    command = [sys.executable, "-c", RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stderr.splitlines()[-1].split())
    return f"{seconds:.1f} CPU-s, {peak:.2f} GB"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args(arguments)
    size = f"{options.rows:,} x {options.classes:,}"
    with tempfile.TemporaryDirectory() as folder:
        files(folder, options.rows, options.classes)
        test, val = f"{folder}/test.npz", f"{folder}/val.npz"
        print(f"{size} alone: {measured('evaluate', test)}")
        print(f"with as many for calibrators: {measured('evaluate', test, '--val', val)}")
    print(f"imports: {measured()}")


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "`calibench evaluate`, every default",
        aim="10,000 x 10 alone 3 CPU-s; 25,000 + 25,000 x 1,000: 107 CPU-s, 1 GB",
    )

"""What `calibench evaluate` costs on a large test set: CPU time, wall time and memory of the whole process.

Command:  python benchmarks/speed/evaluate.py [--rows 25000] [--classes 1000] [--write]

As many validation as test examples, every default: seven rows of a table, 1,000 resamples. The memory is the peak of
the process (VmHWM), of which an interpreter with torch imported takes about 0.3 GB. `--write` puts a row into the
README beside this file.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from rows import write

RUN = """
import sys
from pathlib import Path
from calibench.cli import main
code = main(sys.argv[1:])
_, _, peak = Path("/proc/self/status").read_text().partition("VmHWM:")
print(f"peak {int(peak.split()[0])}", file=sys.stderr)
sys.exit(code)
"""


def files(folder: str, rows: int, classes: int) -> None:
    """Write overconfident logits whose labels are drawn from their softmax at a third of them."""
    for seed, name in enumerate(("val", "test")):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(rows, classes)).astype(np.float32)
        logits[np.arange(rows), random.integers(classes, size=rows)] += 12
        target = (logits / 1.5 + random.gumbel(size=logits.shape)).argmax(1)
        np.savez(f"{folder}/{name}.npz", logits=logits, target=target)


def measured(folder: str, *options: str) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and the peak in GB of one evaluation."""
    command = [sys.executable, "-c", RUN, "evaluate", f"{folder}/test.npz", *options]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, int(done.stderr.rpartition("peak ")[2]) / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files(folder, options.rows, options.classes)
        cpu, wall, peak = measured(folder, "--val", f"{folder}/val.npz")
    figure = f"{cpu:.0f} CPU-s, {wall:.0f} s, {peak:.2f} GB"
    what = f"`evaluate`, {options.rows:,} + {options.rows:,} x {options.classes:,}, every default"
    if options.write:
        write(what, figure, aim="no more than 107 CPU-s, 1 GB")
    else:
        print(f"{what}: {figure}")


if __name__ == "__main__":
    main()

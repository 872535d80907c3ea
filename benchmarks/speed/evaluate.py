"""What `calibench evaluate` costs on a large test set: CPU time, wall time and memory of the whole process.

Command:  python benchmarks/speed/evaluate.py [--rows 25000] [--classes 1000]

As many validation as test examples, every default: seven rows of a table, 1,000 resamples. The memory is the peak of
the process (VmHWM), of which an interpreter with torch imported takes about 0.3 GB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile

import numpy as np

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
    """Write overconfident logits whose labels are drawn from their softmax at two thirds of them."""
    for seed, name in enumerate(("val", "test")):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(rows, classes)).astype(np.float32)
        logits[np.arange(rows), random.integers(classes, size=rows)] += 12
        target = (logits / 1.5 + random.gumbel(size=logits.shape)).argmax(1)
        np.savez(f"{folder}/{name}.npz", logits=logits, target=target)


def measured(folder: str, *options: str) -> tuple[float, float]:
    """CPU seconds and the peak in GB of one evaluation."""
    command = [sys.executable, "-c", RUN, "evaluate", f"{folder}/test.npz", *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, int(done.stderr.rpartition("peak ")[2]) / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files(folder, options.rows, options.classes)
        cpu, peak = measured(folder, "--val", f"{folder}/val.npz")
    print(
        f"{options.rows:,} + {options.rows:,} x {options.classes:,}: {cpu:.0f} CPU-s, {peak:.2f} GB"
    )


if __name__ == "__main__":
    from rows import script

    script(main, "`calibench evaluate` of large files, every default", aim="107 CPU-s, 1 GB")

"""CPU seconds of whole commands, from the start of the interpreter to its end: medians.

    python benchmarks/speed/verbs.py [--repeats 3] [--verbs doctor evaluate ...]

Those of a sweep are its own: a warm cell is what each further seed of one loss adds to a sweep of one seed, trained in
the same process; the dry run is of the folder that this sweep has left. A server that no command waits for starts the
processes that train, so this script adopts and waits for whatever a command leaves behind (on Linux).

`doctor` takes 1.33 times `import torch` (by turns, 2026-11-30), 1.43 times before Python's collector of cycles left
alone what a command has loaded, which it had looked through for 0.3 s. With scipy's optimisers, by which vector scaling
is fitted, `import torch` takes 1.17 times as long; the rest are the modules of this package and 105 fits of some 7 ms.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile

RUN = "shipped/digits_lt/SmallCNN/FocalLoss/seed=1"
SWEEP = "sweep digits_lt --losses cross_entropy --jobs 1 --seeds"
COMMANDS = {
    "import torch": "",
    "doctor": f"doctor {RUN}",
    "evaluate": f"evaluate {RUN}",
    "refused fit": "fit --config digits_lt --data.batch_size x",
    "a wrong value of the data": "fit --config digits_lt --data.batch_size 0",
    "a wrong value of a loss": "fit --config digits_lt --model.loss FocalLoss --model.loss.gamma -1",
}
FURTHER_SEEDS = 3
_SET_CHILD_SUBREAPER = 36  # of Linux's prctl


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends before them, so that they count as children."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no process can adopt others here")


def wait_for_orphans() -> None:
    """Wait until no child is left."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def cpu_seconds(command: str, folder: str) -> float:
    """User and system time of a command of calibench and all its processes; of `import torch` without one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["-m", "calibench", *command.split()] if command else ["-c", "import torch"]
    subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, check=False)
    wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sweep_seconds() -> tuple[float, float]:
    """CPU seconds of a warm cell, and of a dry run of the finished folder."""
    seeds = " ".join(map(str, range(1, FURTHER_SEEDS + 2)))
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as folder:
        cold = cpu_seconds(f"{SWEEP} 1", first)
        warm = (cpu_seconds(f"{SWEEP} {seeds}", folder) - cold) / FURTHER_SEEDS
        return warm, cpu_seconds(f"{SWEEP} {seeds} --dry-run", folder)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="CPU seconds of whole commands.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--verbs", nargs="*", default=[*COMMANDS, "sweep"])
    options = parser.parse_args(arguments)
    rounds = range(options.repeats)
    adopt_orphans()
    for name in options.verbs:
        if name == "sweep":
            cells, dry_runs = zip(*(sweep_seconds() for _ in rounds), strict=True)
            print(f"a warm cell {statistics.median(cells):.2f}")
            print(f"a dry run of a finished folder {statistics.median(dry_runs):.2f}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            seconds = [cpu_seconds(COMMANDS[name], folder) for _ in rounds]
        print(f"{name} {statistics.median(seconds):.2f}")


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "CPU seconds of whole commands: a run of the store, refusals, a sweep of `digits_lt`",
        aim="`doctor` 3, `evaluate` 5.4, refused `fit` 5.3, a wrong value 2.5, a warm cell 2.8, a dry run 1",
    )

"""What `calibench fit` adds to `import lightning.pytorch.cli`, up to its first training step; and the light verbs.

Command:  python benchmarks/speed/startup.py [repeats]

Each figure is the median wall time of whole processes, started in turn, up to the import or the step: what an
interpreter takes to end, which with Lightning imported may be a second, is left out. The aim: at most about 0.5 s for
`fit`. Then follow CPU times, of whole processes, of what is refused or answered before torch is imported, and of
`calibench evaluate` on small files beside `import torch` in the same minutes: their difference and ratio hardly
depend on other load.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

IMPORT = "import os, lightning.pytorch.cli; os._exit(0)"
FIRST_STEP = """
open("ends.py", "w").write(
    "import os\\n"
    "from calibench.losses import CrossEntropyLoss\\n"
    "class Ends(CrossEntropyLoss):\\n"
    "    def forward(self, logits, target): os._exit(0)\\n"
)
from calibench import cli
options = ["--model.loss", "ends.Ends", "--trainer.enable_progress_bar", "false"]
cli.main(["fit", "--config", "digits_lt", *options])
"""
LIGHT = {
    verb: f"from calibench.cli import main; main({verb.split()!r})"
    for verb in ("--help", "list losses")
}


# What is refused, or answered, without torch: each should take less than half a second of CPU time.
ANSWERED_AT_ONCE = (
    "fit --config digits_lt --model.loss FocaLoss",
    "fit --config digits_lt --trainer.max_epoch 3",
    "fit --config digits_lt --ckpt_path nowhere.ckpt",
    "evaluate --val nowhere.npz --test nowhere.npz",
    "calibrate --val nowhere.npz -o x.pt",
    "export nowhere",
    "report nowhere",
    "sweep digits_lt --losses focall",
    "data list",
)
EVALUATE = ("evaluate", "--val", "val.npz", "--test", "test.npz")
IMPORTED = ("torch", "calibench.evaluation", "calibench.verbs.evaluate")


def cpu_seconds(*command: str, folder: str) -> float:
    """User and system time of a whole process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_cpu_times(repeats: int) -> None:
    """CPU time of imports and of commands that need no torch; unlike wall time, it hardly depends on other load."""
    commands = {f"import {name}": ("-c", f"import {name}") for name in IMPORTED}
    commands |= {line: ("-m", "calibench", *line.split()) for line in ANSWERED_AT_ONCE}
    print("CPU seconds")
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as folder:
            least = min(cpu_seconds(*command, folder=folder) for _ in range(repeats))
        print(f"{name:50s} {least:6.2f}")


def print_evaluate(repeats: int) -> None:
    """CPU time of `evaluate` (1,000 and 2,000 rows, 4 classes, every default) over that of `import torch`."""
    commands = {"import torch": ("-c", "import torch"), "evaluate": ("-m", "calibench", *EVALUATE)}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for name, rows in (("val", 1000), ("test", 2000)):
            target = rng.integers(4, size=rows)
            logits = rng.normal(size=(rows, 4)) + 2 * np.eye(4)[target]
            np.savez(f"{folder}/{name}.npz", logits=logits.astype(np.float32), target=target)
        for _ in range(repeats):
            for name, command in commands.items():
                times[name].append(cpu_seconds(*command, folder=folder))
    torch, evaluate = (statistics.median(values) for values in times.values())
    print(f"{'import torch':50s} {torch:6.2f}")
    print(f"{'evaluate, 1,000 + 2,000 x 4':50s} {evaluate:6.2f}")
    print(
        f"{'evaluate adds':50s} {evaluate - torch:6.2f}  ({evaluate / torch:.2f} times import torch)"
    )


def seconds(code: str, folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return time.perf_counter() - start


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    commands = {
        "python -c pass": "pass",
        "import lightning.pytorch.cli": IMPORT,
        "fit, up to the first step": FIRST_STEP,
        **LIGHT,
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, code in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                times[name].append(seconds(code, folder))
    for name, values in times.items():
        print(f"{name:32s} {statistics.median(values):6.2f} s")
    added = statistics.median(
        b - a
        for a, b in zip(
            times["import lightning.pytorch.cli"], times["fit, up to the first step"], strict=True
        )
    )
    print(f"{'fit adds':32s} {added:6.2f} s")
    print_cpu_times(repeats)
    print_evaluate(repeats)


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "start-up: `fit` over `import lightning.pytorch.cli`; light verbs and `evaluate`, CPU time",
        aim="0.5 s; `evaluate` 3 s",
    )

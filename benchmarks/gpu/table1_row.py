"""As many cells of the GCE paper's Table 1, row CIFAR-10 with ResNet-50, as fit into the time; a second start goes on.

Commands:

    python benchmarks/gpu/table1_row.py --data DIR --at-once 4 --set model.compile=true trainer.precision=bf16-mixed
    python benchmarks/gpu/table1_row.py --device cpu --losses gce --seeds 1 --set trainer.max_epochs=1 ...     tries it

350 epochs a cell, seven losses, ten seeds (`table1_row.yaml`). `calibench sweep` trains them; after `--minutes`
each cell is ended where it is and goes on from its last checkpoint at the next start. What is set by `--set` stands in
every cell's configuration: precision, compile and channels_last change numbers in the last digits and make cells of
their own. At the end the paper's numbers stand above ours (`calibench reproduce gce --table 1`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sitting import parser, read

CALIBENCH = [sys.executable, "-m", "calibench"]


def run(command: Sequence[str], seconds: float) -> None:
    """Run a command, and end it by Ctrl-C's signal when its time is over; it writes what it has."""
    process = subprocess.Popen(command)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Train until the time is over, then print the table."""
    choices = parser("table1_row.py", __doc__)
    choices.add_argument("--data", help="folder of data (CALIBENCH_DATA)")
    choices.add_argument("--losses", nargs="+", default=[], help="labels of the suite's losses")
    choices.add_argument("--seeds", default="1..10")
    choices.add_argument("--at-once", type=int, default=4, help="cells at once on the GPU")
    choices.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    choices.set_defaults(output="results")
    options = read(choices, arguments)
    if options.data:
        os.environ["CALIBENCH_DATA"] = options.data
    gpu = options.device == "cuda"
    sweep = [
        *CALIBENCH,
        "sweep",
        str(Path(__file__).with_suffix(".yaml")),
        "--seeds",
        options.seeds,
    ]
    sweep += ["--losses", *options.losses] if options.losses else []
    sweep += ["--cells-per-gpu" if gpu else "--jobs", str(options.at_once)]
    sweep += [f"--trainer.accelerator={'gpu' if gpu else 'cpu'}"]
    sweep += [
        f"--trainer.default_root_dir={options.output}",
        *(f"--{pair}" for pair in options.set),
    ]
    print(" ".join(sweep[2:]), flush=True)
    run(sweep, 60 * options.minutes)
    subprocess.run(
        [*CALIBENCH, "reproduce", "gce", "--table", "1", "--results", options.output], check=False
    )


if __name__ == "__main__":
    main()

"""How long a table of numbers takes to load, and how much memory, beside `pandas.read_csv` of the same file.

    OMP_NUM_THREADS=1 python benchmarks/speed/table.py [--rows 1000000] [--columns 68] [--repeats 3]

Each is measured in a process of its own, in turns: CPU seconds, and the peak of memory beyond that of the imports
(Linux). The file, 9 bytes a cell, is written to a temporary folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas

from calibench.data.tabular.table import TableDataModule


def write(path: Path, rows: int, columns: int) -> None:
    """Write numbers of six decimals, which repeat after 1,000 rows, three labels and groups of ten rows."""
    random = np.random.default_rng(0)
    drawn = [",".join(f"{x:.6f}" for x in row) for row in random.normal(size=(1000, columns))]
    labels = random.choice(["a", "b", "c"], rows)
    header = ",".join(f"x{number}" for number in range(columns))
    with path.open("w") as file:
        file.write(f"{header},label,patient\n")
        file.writelines(f"{drawn[i % 1000]},{labels[i]},{i // 10}\n" for i in range(rows))


def load(path: str) -> None:
    """Load the table as a run does, splits by group included."""
    TableDataModule(train_file=path, group_column="patient").setup("fit")


WAYS = {"pandas": pandas.read_csv, "calibench": load}


def measured(way: str, path: str) -> tuple[float, float]:
    """CPU seconds and growth of the peak of memory in MB, by this process."""
    before, began = _peak(), time.process_time()
    WAYS[way](path)
    return time.process_time() - began, _peak() - before


def _peak() -> float:
    _, _, after = Path("/proc/self/status").read_text().partition("VmHWM:")
    return int(after.split()[0]) / 1024


def elsewhere(way: str, path: Path) -> tuple[float, float]:
    """The same, by a process of its own."""
    command = [sys.executable, __file__, "--measure", way, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each repeat."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=68)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(*measured(*options.measure))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, options.rows, options.columns)
        print(f"{options.rows:,} x {options.columns}, {path.stat().st_size / 1e6:.0f} MB")
        for _ in range(options.repeats):
            theirs, ours = (elsewhere(way, path) for way in WAYS)
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            shown = "; ".join(f"{s:.2f} s, {m:.0f} MB" for s, m in (theirs, ours))
            print(f"pandas and calibench: {shown}: {ratios[0]:.2f} and {ratios[1]:.2f} times")


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "loading a table of numbers beside `pandas.read_csv`",
        aim="3 times its CPU time, 2 times its memory",
    )

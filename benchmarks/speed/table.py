"""How long a table of numbers takes to load, and how much memory, beside `pandas.read_csv` of the same file.

    OMP_NUM_THREADS=1 python benchmarks/speed/table.py [--rows 1000000] [--columns 68] [--repeats 3]

Each is measured in a process of its own, in turns: CPU seconds, and the peak of the memory beyond that after the
imports. The file, some 10 bytes a cell, is written to a temporary folder.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas

from calibench.data.tabular.columns import read_columns
from calibench.data.tabular.table import TableDataModule


def write(path: Path, rows: int, columns: int, block: int = 10_000) -> None:
    """Write a table of normal numbers with six digits, a column of three labels and one of groups of ten rows."""
    random = np.random.default_rng(0)
    header = [f"x{number}" for number in range(columns)]
    for first in range(0, rows, block):
        count = min(block, rows - first)
        table = pandas.DataFrame(random.normal(size=(count, columns)), columns=header)
        table["label"] = random.choice(["a", "b", "c"], count)
        table["patient"] = np.arange(first, first + count) // 10
        table.to_csv(path, mode="a", header=first == 0, index=False, float_format="%.6f")


def load(path: str) -> None:
    """Load the table as a run does, splits included."""
    TableDataModule(train_file=path, group_column="patient").setup("fit")


def columns(path: str) -> None:
    """Read its columns only."""
    read_columns(Path(path), None, "label", "patient")


WAYS = {"pandas": pandas.read_csv, "columns": columns, "load": load}


def measured(way: str, path: str) -> tuple[float, float]:
    """CPU seconds and peak of memory in MB, by this process."""
    before, began = _peak(), time.process_time()
    kept = WAYS[way](path)
    spent = time.process_time() - began
    del kept
    return spent, _peak() - before


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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
            found = {way: elsewhere(way, path) for way in WAYS}
            seconds, memory = found["pandas"]
            for way, (s, m) in found.items():
                print(f"{way}: {s:.2f} s, {m:.0f} MB: {s / seconds:.2f} and {m / memory:.2f} times")


if __name__ == "__main__":
    main()

"""How long `calibench verify` takes of copies of the shipped store, on all cores.

    python benchmarks/speed/verify.py [--copies 20] [--entries 51]

20 copies are 1,020 entries, 109,860 numbers. On 16 cores (a Xeon beside an H200, 2026-11-26) they took 39, 42 and 47 s,
where an entry took .6 CPU seconds.
Since floors end at 64 draws where these prove a claim it is .51 (.65 before, on the same busy two cores). Adaptive
temperatures that count the errors of many rounds together, and fewer widths in smECE's search, take 31 % less than that
(.71 beside 1.04, 25 entries each by CPU time on two cores that others use as well). Of .92 CPU seconds on busier ones
smECE is .24, fits of adaptive temperatures .20 (.45 before) and of other temperatures .08, classwise errors .14, binned
errors .11, cross-fits and refinement .06, reading .03. So 60 s of 1,000 entries need several times two cores, or the
memory of earlier verdicts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path

from calibench.store.lookup import entries, results_folder
from calibench.verbs.store import verify


def copied(folder: Path, copies: int, number: int) -> float:
    """Write so many copies of the first entries of the shipped store; their size in MB."""
    store = results_folder("store").resolve()
    for entry in islice(entries(store), number):
        *above, key, seed = entry.folder.relative_to(store).parts
        for copy in range(copies):
            shutil.copytree(entry.folder, folder.joinpath(*above, f"{copy:02d}{key[2:]}", seed))
    shutil.copytree(store / "labels", folder / "labels")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--entries", type=int, default=51)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        size = copied(Path(folder), options.copies, options.entries)
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = verify(folder)
        took = time.perf_counter() - start
    *_, of_entries, of_numbers = filter(None, printed.getvalue().splitlines())
    print(f"{of_entries.strip()}; {of_numbers.strip()}; {size:.0f} MB; exit code {code}")
    cores = len(os.sched_getaffinity(0))
    print(
        f"{took:.1f} s on {cores} cores: {1000 * took / (options.copies * options.entries):.0f} s for 1,000"
    )


if __name__ == "__main__":
    from rows import script

    script(main, "`calibench verify` of the shipped store", aim="1,000 entries in 200 MB and 60 s")

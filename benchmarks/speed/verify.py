"""How long `calibench verify` takes of copies of the shipped store, on all cores.

    python benchmarks/speed/verify.py [--copies 20] [--entries 51]

20 copies are 1,020 entries, 109,860 numbers. On 16 cores (a Xeon beside an H200, 2026-11-26) they took 39, 42 and 47 s,
where an entry took .6 CPU seconds.
On two cores that others use as well an entry took .73 CPU seconds, then .53 since 24 draws prove most floors, smECE's
floors are estimated, adaptive temperatures of all folds are searched together and other temperatures take fewer steps.
Since then some 9 % less (17 entries, 14.6 and 13.6 CPU seconds with the start of Python): smECE's width is looked for
where it is claimed, sums of binned errors are differences of sorted ones, and what classwise errors list is listed
once. And 12 % less again (.358 in place of .406 CPU seconds an entry, 11 entries by turns with the version before, the
best of eight each, on two idle cores): the top-label errors of a set share the models that are drawn.

What is left, by share of CPU time (of a sample each 2 ms, 17 entries):

    floors of claimed verdicts                  32 %  classwise cells and labels 17, smECE 8, the rest 7
    cross-fitted NLL of each calibrator         22 %  adaptive temperatures 14, temperature 3, folds and scores 5
    values                                      13 %  binned errors 8, smECE 3, means 2
    parts of the raw NLL, cross-fitted          12 %
    fits of the calibrators                      6 %
    files read, unpacked and compared            5 %
    log-probabilities, OOD scores                5 %
    the rest of an evaluation                    5 %

An entry makes 83,000 calls of Python functions, and one of 359 examples takes three quarters of the time of one of
10,000: most is the price of many short operations, no arithmetic. 60 s on two cores are .10 CPU seconds an entry, once
the start and the cost of two processes are taken off. What is left where parts are left out (10 entries, the best of
three, AMD EPYC, 2026-11-30, faster than the day before):

    everything                                  .216
    without floors                              .153
    and without cross-fitted NLL                .106
    and without the parts of the raw NLL        .078

So floors and cross-fits would have to cost a sixth of what they do; without the memory of earlier verdicts it takes
four such cores.
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
from calibench.verbs.verify import verify


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

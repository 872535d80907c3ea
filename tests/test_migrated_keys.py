"""Every committed key is that of an entry: `benchmarks/results/migrated_keys.csv` has what each was before format 2.

A row is a run: its place (the store, an archive, or the table that alone has it), its names and digests before and now.
"""

from __future__ import annotations

import csv
import runpy
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from calibench.runs import RunId
from calibench.store import entries
from calibench.sweeps.suite_files import load_suite
from calibench.training.experiment import Experiment
from tests.golden.keys import recorded

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RESULTS = BENCHMARKS / "results"
Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def migrated() -> dict[str, Rows]:
    """The rows by place."""
    rows = defaultdict(list)
    for row in read("migrated_keys.csv"):
        rows[row["place"]].append(row)
    return rows


def test_every_committed_key_is_that_of_an_entry() -> None:
    names = {row["new"] for rows in migrated().values() for row in rows}
    tables = 0
    for path in sorted(RESULTS.glob("*.csv")):
        rows = read(path.name)
        if "key" not in rows[0]:
            continue
        tables += 1
        runs = {
            (row["benchmark"], row["backbone"], row["loss"], row["key"], f"seed={seed}")
            for row in rows
            for seed in (row.get("seed") or row["seeds"]).split()
        }
        assert {"/".join(run) for run in runs} <= names, path.name
    assert tables == 13
    assert {row["entry"] for row in read("eight_bits.csv")} <= names


def test_a_key_has_one_name_and_one_of_before() -> None:
    pairs = {
        (RunId.from_folder(row["old"]).key, RunId.from_folder(row["new"]).key)
        for rows in migrated().values()
        for row in rows
    }
    old, new = zip(*pairs, strict=True)
    assert len({*old}) == len({*new}) == len(pairs) > 300
    assert not {*old} & {*new}


def test_the_rows_of_the_store_are_its_entries() -> None:
    kept = {entry.name: entry.digest for entry in entries(BENCHMARKS / "store")}
    assert {row["new"]: row["new_digest"] for row in migrated()["store"]} == kept


@pytest.mark.slow
def test_the_rows_of_the_archives_are_their_runs() -> None:
    packed = runpy.run_path(str(BENCHMARKS / "evidence" / "runs.py"))["packed"]
    archives = sorted(RESULTS.glob("*.tar.xz"))
    assert len(archives) == 8
    for archive in archives:
        names = {name for name, _ in packed(archive)}
        assert {row["new"] for row in migrated()[archive.name]} == names


def keys_of_tables_alone() -> Iterator[tuple[str, str]]:
    for place, rows in migrated().items():
        if place.endswith(".csv"):
            for row in rows:
                run = RunId.from_folder(row["new"])
                yield f"{run.benchmark} {run.loss}", run.key


@pytest.mark.slow
def test_keys_that_tables_alone_have_are_those_of_their_suites() -> None:
    """Of runs that are in no archive: today's suites and files give their keys."""
    jobs = [
        setting.job(1)
        for name in ("cifar10_lt_cpu", "text_cpu")
        for setting in load_suite(f"suites/{name}").settings()
    ]
    known = {Experiment(job.config).run_id.key for job in jobs} | {*recorded().values()}
    wanted = {*keys_of_tables_alone()}
    assert len(wanted) == 25
    assert {pair for pair in wanted if pair[1] not in known} == set()

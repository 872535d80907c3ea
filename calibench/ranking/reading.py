"""Reading of run folders for a leaderboard: from their JSON files alone, many of them in several processes."""

import hashlib
import json
import math
import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calibench.files.atomic_files import read_content
from calibench.messages.printable_text import without_folders
from calibench.messages.progress import with_progress
from calibench.parallel.processes import map_in_processes
from calibench.ranking.column_store import file_stamp, read_run_index, write_run_index
from calibench.ranking.columns import COSTS
from calibench.ranking.records import (
    ALL_NUMBERS,
    Layout,
    NumberFilter,
    Numbers,
    Problem,
    Record,
    Results,
    Settings,
    Verdicts,
    Versions,
    package_versions,
)
from calibench.runs import (
    CorruptRun,
    RunId,
    read_json,
    run_folders,
)
from calibench.runs.files import OldFormat, check_content, describe_content
from calibench.runs.folder import holds_run
from calibench.statistics import Verdict
from calibench.statistics.number import RAW, Key
from calibench.store import results_folder
from calibench.store.entry import check_status
from calibench.store.verified import verified_digests
from calibench.tables.metric_titles import add_described

RUNS_A_READER = 1000  # with fewer, starting another process takes longer than it saves
RUNS_A_PART = 250  # that a process reads in one go
INDEXED = 500  # runs from which on there is an index: fewer are read in as little time
NEW = 0.02  # share of runs from which on it is written again: fewer are read in as little time

_TEST_FILE = "predictions/test.npz"
TRIAL = "trial runs (fast_dev_run, or no training step)"
IMPORTED = "imported predictions, which come without numbers (see `calibench evaluate`)"
CLAIMED = "claimed, as their logits are not in the store: {}"


def read_results(
    results: Path | str, *, number_filter: NumberFilter = ALL_NUMBERS, processes: int = 1
) -> Results:
    """Read every run folder below `results`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no run.
        OldFormat: If it holds runs of before this format; the message names the command that migrates them.
    """
    root = results_folder(results).resolve()
    folders = list(run_folders(root))
    if len(folders) < INDEXED:
        read = _read_folders(folders, number_filter, processes)
    else:
        read = _read_indexed(root, folders, number_filter, processes)
    read.folder = root
    if not read.records and not read.problems:
        raise ValueError(f"{results} holds no run (<benchmark>/<backbone>/<loss>/<key>/seed=<k>).")
    digests = set()
    for record in read.records:
        if record.described:
            add_described(record.described)
        if record.entry_digest:
            digests.add(record.entry_digest)
    if digests:
        read.unverified = frozenset(digests - verified_digests(root, digests))
    return without_repeated_predictions(without_other_data(read))


def joined_results(parts: Sequence[Results]) -> Results:
    """The runs of several folders as one collection; of a run that is in two folders the first one counts.

    The others are named in a warning.
    """
    if len(parts) == 1:
        return parts[0]
    joined = Results(folder=parts[0].folder)
    cells: dict[RunId, str] = {}
    for part in parts:
        for record in part.records:
            if cells.setdefault(record.cell, record.folder) == record.folder:
                joined.records.append(record)
            else:
                first = cells[record.cell]
                joined.warnings.append(f"{record.folder}: left out, as {first} is the same run")
        joined.warnings += part.warnings
        joined.unverified |= part.unverified
    for part in parts:
        joined.problems += [problem for problem in part.problems if problem.cell not in cells]
    return without_repeated_predictions(without_other_data(joined))


def _read_folders(folders: Sequence[str], number_filter: NumberFilter, processes: int) -> Results:
    parts = [folders[i : i + RUNS_A_PART] for i in range(0, len(folders), RUNS_A_PART)]
    processes = min(processes, len(folders) // RUNS_A_READER)
    parts_read = map_in_processes(
        partial(_read_part, number_filter=number_filter),
        parts,
        processes=processes,
        imports=[__name__],
    )
    read = Results()
    for part in with_progress(parts_read, len(parts), "reading runs"):
        read.records += part.records
        read.problems += part.problems
        read.warnings += part.warnings
    return read


def _read_indexed(
    root: Path, folders: Sequence[str], number_filter: NumberFilter, processes: int
) -> Results:
    """Read runs from their index where they have not changed; it is written again where that saves time."""
    stamps = {folder: file_stamp(folder) for folder in folders}
    records = read_run_index(root, stamps, number_filter)
    read = _read_folders([f for f in folders if f not in records], ALL_NUMBERS, processes)
    new = {record.folder: record for record in read.records}
    if len(new) > len(folders) * NEW and os.access(root, os.W_OK):
        finished_records = {
            folder: record  # of one that comes with a warning, this is given each time
            for folder, record in (read_run_index(root, stamps) | new).items()
            if not any(warning.startswith(f"{folder}: ") for warning in read.warnings)
        }
        write_run_index(root, stamps, list(finished_records.values()))
    records |= {folder: record.narrow(number_filter) for folder, record in new.items()}
    read.records = [records[folder] for folder in folders if folder in records]
    return read


def _read_part(folders: Sequence[str], number_filter: NumberFilter) -> Results:
    reader = _RunReader(number_filter)
    for folder in folders:
        reader.read(folder)
    return reader.results


class _RunReader:
    """Reads runs one after the other; equal keys, settings and versions become one object."""

    def __init__(self, number_filter: NumberFilter) -> None:
        self.results = Results()
        self._number_filter = number_filter
        # by what a row of metrics.json says of it; None where the number is not wanted
        self._keys: dict[tuple[Any, ...], Key | None] = {}
        self._settings: dict[str, Settings] = {}
        self._versions: dict[Versions, Versions] = {}
        self._layouts: dict[tuple[Key, ...], Layout] = {}

    def read(self, folder: str) -> None:
        """Add the run of one folder."""
        try:
            cell = RunId.from_folder(folder)
        except ValueError:
            return  # its path is not that of a run folder
        try:
            outcome = self._read_run(cell, folder)
        except OldFormat:  # so are the others, probably: one line, not one for each
            raise
        except CorruptRun as why:
            outcome = Problem(cell, folder, str(why))
        if isinstance(outcome, Record):
            self.results.records.append(outcome)
        elif outcome is not None:
            self.results.problems.append(outcome)

    def _read_run(self, cell: RunId, folder: str) -> Record | Problem | None:
        try:
            status = _read_file(folder, "status.json")
        except OldFormat:
            raise
        except CorruptRun:
            if holds_run(folder):
                raise
            return None  # a process holds or held the folder, and has not begun to train
        state, reason_text = status.get("status"), status.get("reason")
        if state == "trial" or status.get("imported"):
            reason = TRIAL if state == "trial" else IMPORTED
            return Problem(cell, folder, reason, warn=False, expected=False)
        if state != "done":
            reason = f"{state or 'unknown state'}: {reason_text}" if reason_text else str(state)
            return Problem(cell, folder, reason, warn=state != "running", failed=state == "failed")
        content = _read_file(folder, "metrics.json")
        if digest := status.get("digest"):
            _check_is_of_entry(folder, status)
        _check_cell(cell, content)
        try:
            record = self._record(cell, folder, content, status.get("claimed") or ())
            test_digest = _digest_of_test(content, status)
            return replace(record, digest=test_digest, entry_digest=digest or "")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"metrics.json lacks what a run holds ({type(error).__name__}: {error})"
            raise CorruptRun(text) from error

    def _record(
        self, cell: RunId, folder: str, content: Mapping[str, Any], claimed: Sequence[str]
    ) -> Record:
        values, verdicts = self._values(content["rows"])
        environment = self._environment(folder)
        versions = package_versions(environment)
        costs = {name: environment.get(name) for name in COSTS}
        further = {RAW: costs | {"seconds": environment.get("wall_seconds")}}
        for calibrator, parameters in (further | (content.get("calibrators") or {})).items():
            for name, value in parameters.items():
                key = Key(name, calibrator=calibrator)
                if isinstance(value, int | float) and self._number_filter(key):
                    values[key] = float(value)
        return Record(
            cell,
            folder,
            self._shared_settings(cell, content),
            str(content.get("fingerprint")),
            Numbers(self._layout(values), array("d", values.values())),
            Verdicts(
                self._layout(verdicts),
                array("d", [number for verdict in verdicts.values() for number in verdict[:2]]),
            ),
            content.get("sets") or {},
            content.get("unavailable") or {},
            (
                *map(without_folders, content.get("caveats") or ()),
                *([CLAIMED.format(", ".join(claimed))] if claimed else []),
            ),
            self._versions.setdefault(versions, versions),  # one object for all runs
            content.get("metrics") or {},
        )

    def _layout(self, keys: Mapping[Key, object]) -> Layout:
        """The layout of keys in their order, one object for all runs that have them."""
        return self._layouts.setdefault(tuple(keys), Layout.from_keys(keys))

    def _environment(self, folder: str) -> Mapping[str, Any]:
        """The content of environment.json: seconds, memory, versions; empty if it cannot be read."""
        try:
            return _read_file(folder, "environment.json")
        except CorruptRun as why:
            if os.path.exists(f"{folder}/environment.json"):
                unknown = "its seconds, memory and versions are unknown"
                self.results.warnings.append(f"{folder}: {why}; {unknown}")
            return {}

    def _values(
        self, rows: Iterable[Mapping[str, Any]]
    ) -> tuple[dict[Key, float], dict[Key, Verdict]]:
        keys, values, verdicts = self._keys, {}, {}
        for row in rows:
            get = row.get
            place = (
                row["metric"], row["split"], row["calibrator"], get("score"), get("n_bins"), get("label")
            )  # fmt: skip
            if place not in keys:
                key = Key.from_row(row)
                keys[place] = key if self._number_filter(key) else None
            value_key = keys[place]
            if value_key is not None:
                value = row["value"]
                values[value_key] = math.nan if value is None else float(value)
                verdict = Verdict.from_row(row)
                if verdict is not None:
                    verdicts[value_key] = verdict
        return values, verdicts

    def _shared_settings(self, cell: RunId, content: Mapping[str, Any]) -> Settings:
        """The settings, one object for all runs of a key; raises CorruptRun if they do not give that key."""
        settings = dict(content["settings"])
        shared = self._settings.get(cell.key)
        if shared == settings:
            return shared
        text = json.dumps(settings, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[: len(cell.key)]
        if digest != cell.key:
            message = f"its configuration gives the key {digest}, its folder says {cell.key}"
            raise CorruptRun(message)
        return self._settings.setdefault(cell.key, settings)


def _digest_of_test(content: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Digest of the test predictions: of a run in its metrics.json, of an entry of a store in its status.json."""
    files = content.get("files") or status.get("files") or {}
    return str((files.get(_TEST_FILE) or {}).get("sha256", ""))


def _read_file(folder: str, name: str) -> Mapping[str, Any]:
    return read_json(f"{folder}/{name}", called=name)


def _check_is_of_entry(folder: str, status: Mapping[str, Any]) -> None:
    """Raise a CorruptRun unless the numbers of an entry of a store are those that its status.json was written for."""
    check_status(status, folder)
    recorded = status["files"].get("metrics.json")
    if recorded is None:
        raise CorruptRun("metrics.json does not belong to the entry")
    present = describe_content(read_content(f"{folder}/metrics.json"))
    check_content(present, recorded, "metrics.json")


def _check_cell(cell: RunId, content: Mapping[str, Any]) -> None:
    for name, expected in cell._asdict().items():
        recorded = content.get(name)
        if str(recorded).replace("/", "_") != str(expected):
            raise CorruptRun(f"metrics.json is of {name} {recorded}, its folder says {expected}")


def without_other_data(results: Results) -> Results:
    """Turn runs on data that differ from those of comparable runs into problems.

    Runs of one benchmark with the same `data.*` settings and the same seed have used the same
    examples, so their fingerprints agree; the ones that differ from the most frequent are left out.
    """
    data: dict[int, str] = {}  # by the settings, of which runs of a key share one object
    prints: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    comparable = []
    for record in results.records:
        settings = record.settings
        if id(settings) not in data:
            data_settings = {
                key: value for key, value in settings.items() if key.startswith("data.")
            }
            data[id(settings)] = json.dumps(data_settings, sort_keys=True)
        comparable.append(prints[record.cell.benchmark, record.cell.seed, data[id(settings)]])
        comparable[-1][record.fingerprint] += 1
    records, problems = [], list(results.problems)
    for record, counts in zip(results.records, comparable, strict=True):
        most_frequent = max(counts, key=counts.__getitem__)
        if record.fingerprint == most_frequent:
            records.append(record)
        else:
            reason = (
                f"its data {record.fingerprint} are not those of comparable runs ({most_frequent})"
            )
            problems.append(Problem(record.cell, record.folder, reason))
    return replace(results, records=records, problems=problems)


def without_repeated_predictions(results: Results) -> Results:
    """Turn runs into problems whose test predictions are, to the bit, those of another seed: the two are one run."""
    first: dict[tuple[RunId, str], Record] = {}
    records, problems = [], list(results.problems)
    for record in results.records:
        key = (record.cell._replace(seed=0), record.digest)
        same = first.setdefault(key, record)
        if same is record or not record.digest:
            records.append(record)
            continue
        reason = f"its test predictions are those of seed {same.cell.seed}, to the bit: the two count as one run"
        problems.append(Problem(record.cell, record.folder, reason))
    return replace(results, records=records, problems=problems)

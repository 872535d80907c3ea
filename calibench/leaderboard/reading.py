"""From run folders to records: read from JSON alone, many of them in several processes."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from calibench.config import with_present_names
from calibench.leaderboard.columns import COSTS
from calibench.leaderboard.records import (
    Identity,
    Problem,
    Record,
    Results,
    Settings,
    UnusableRun,
)
from calibench.leaderboard.versions import Versions, package_versions
from calibench.processes import spread, watched
from calibench.runs import parse_json
from calibench.tables.key import RAW, Key
from calibench.tables.titles import learn

RUNS_A_PROCESS = 1000  # below it, another process takes longer to start than it saves
RUNS_A_PART = 250  # that a process reads in one go

_SEED = "seed="


def run_folders(results: Path) -> Iterator[str]:
    """Paths of all folders named `seed=<k>` below a folder (or the folder itself), in order."""
    if results.name.startswith(_SEED):
        yield str(results)
        return
    pending = [str(results)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            folders = sorted((e.path for e in entries if e.is_dir()), reverse=True)
        runs = [path for path in folders if os.path.basename(path).startswith(_SEED)]
        yield from sorted(runs, key=lambda path: (len(path), path))
        pending += [path for path in folders if not os.path.basename(path).startswith((_SEED, "."))]


@dataclass(frozen=True)
class Wanted:
    """Which numbers of a run to keep: many runs are read faster, and held in less memory.

    Attributes:
        metrics: The metrics; every one if None.
        no_splits: Splits whose numbers are not kept.
    """

    metrics: frozenset[str] | None = None
    no_splits: frozenset[str] = frozenset()

    def __call__(self, metric: str, split: str) -> bool:
        """Whether to keep a metric of a split."""
        return (self.metrics is None or metric in self.metrics) and split not in self.no_splits


EVERYTHING = Wanted()


def read_results(results: Path, *, wanted: Wanted = EVERYTHING, processes: int = 1) -> Results:
    """Read every run folder below `results`.

    Args:
        results: A folder of run folders.
        wanted: Which numbers to keep.
        processes: How many read at a time, if there are runs enough; see `spread`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no run.
    """
    if not results.is_dir():
        raise FileNotFoundError(f"no folder {results}")
    folders = list(run_folders(results.resolve()))
    parts = [folders[i : i + RUNS_A_PART] for i in range(0, len(folders), RUNS_A_PART)]
    processes = min(processes, len(folders) // RUNS_A_PROCESS)
    done = spread(partial(_read, wanted=wanted), parts, processes=processes, imports=[__name__])
    read = Results()
    for part in watched(done, len(parts), "reading runs"):
        read.add(part)
    if not read.records and not read.problems:
        raise ValueError(f"{results} holds no run (<benchmark>/<backbone>/<loss>/<key>/seed=<k>).")
    learn(read.metrics)
    return without_strangers(read)


_Place = tuple[str, str, str, str | None, int | None, str | None]  # of a row, as the file names it


def _read(folders: Sequence[str], wanted: Wanted) -> Results:
    reader = _Reader(wanted)
    for folder in folders:
        reader.read(folder)
    return reader.results


class _Reader:
    """Reads runs one after the other and shares what they have in common."""

    def __init__(self, wanted: Wanted) -> None:
        self.results = Results()
        self._wanted = wanted
        self._keys: dict[_Place, Key | None] = {}  # None of what is not wanted
        self._settings: dict[str, Settings] = {}
        self._versions: dict[Versions, Versions] = {}

    def read(self, folder: str) -> None:
        """Add the run of one folder."""
        try:
            benchmark, backbone, loss, key, last = folder.split(os.sep)[-5:]
            identity = Identity(benchmark, backbone, loss, key, int(last.removeprefix(_SEED)))
        except ValueError:
            return  # not a run folder's place or name
        try:
            self._add(identity, folder)
        except UnusableRun as why:
            self.results.problems.append(Problem(identity, folder, str(why)))

    def _add(self, identity: Identity, folder: str) -> None:
        try:
            status = read_json_object(folder, "status.json")
        except UnusableRun:
            if any(os.path.exists(f"{folder}/{name}") for name in ("status.json", "metrics.json")):
                raise
            return  # a process has the folder, or had it, and has not begun
        state = status.get("status")
        if state == "trial":
            self._leave_out_trial(identity, folder)
            return
        if state != "done":
            reason = (
                f"{state or 'unknown state'}: {status['reason']}" if status.get("reason") else state
            )
            problem = Problem(identity, folder, str(reason), warn=state != "running")
            self.results.problems.append(problem)
            return
        content = read_json_object(folder, "metrics.json")
        if content.get("fast_dev_run"):  # up to version 0.1.0 a trial was done
            self._leave_out_trial(identity, folder)
            return
        _check_identity(identity, content)
        try:
            record = self._record(identity, folder, content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"metrics.json lacks what a run holds ({type(error).__name__}: {error})"
            raise UnusableRun(text) from error
        self.results.records.append(record)

    def _leave_out_trial(self, identity: Identity, folder: str) -> None:
        reason = "a trial, left out"
        self.results.problems.append(Problem(identity, folder, reason, warn=False, expected=False))

    def _record(self, identity: Identity, folder: str, content: Mapping[str, Any]) -> Record:
        values = self._values(content["rows"])
        environment = self._environment(folder)
        values |= _costs(environment)
        versions = package_versions(environment)
        self.results.metrics |= content.get("metrics") or {}
        for calibrator, parameters in (content.get("calibrators") or {}).items():
            for name, value in parameters.items():
                if isinstance(value, int | float):
                    values[Key(name, calibrator=calibrator)] = float(value)
        return Record(
            identity,
            folder,
            self._shared_settings(identity, content),
            str(content.get("fingerprint")),
            values,
            content.get("unavailable") or {},
            tuple(content.get("caveats") or ()),
            self._versions.setdefault(versions, versions),  # one object for all runs
        )

    def _environment(self, folder: str) -> Mapping[str, Any]:
        """What environment.json says: seconds, memory, versions; a run without a readable one just has none."""
        try:
            return read_json_object(folder, "environment.json")
        except UnusableRun as why:
            if os.path.exists(f"{folder}/environment.json"):
                self.results.warnings.append(
                    f"{folder}: {why}; its seconds, memory and versions are unknown"
                )
            return {}

    def _values(self, rows: Iterable[Mapping[str, Any]]) -> dict[Key, float]:
        keys, values = self._keys, {}
        for row in rows:
            get = row.get
            place = (
                row["metric"], row["split"], row["calibrator"], get("score"), get("n_bins"), get("label")
            )  # fmt: skip
            if place not in keys:
                key = Key.of(row)
                keys[place] = key if self._wanted(key.metric, key.split) else None
            wanted = keys[place]
            if wanted is not None:
                value = row["value"]
                values[wanted] = math.nan if value is None else float(value)
        return values

    def _shared_settings(self, identity: Identity, content: Mapping[str, Any]) -> Settings:
        """The configuration, one object for all runs of a key; it must give that key."""
        settings: dict[str, Any] = dict(content["settings"])
        present, shared = with_present_names(settings), self._settings.get(identity.key)
        if shared == present:
            return shared
        text = json.dumps(settings, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[: len(identity.key)]
        if digest != identity.key:
            said = f"its configuration gives the key {digest}, its folder says {identity.key}"
            raise UnusableRun(said)
        return self._settings.setdefault(identity.key, present)


def _costs(environment: Mapping[str, Any]) -> dict[Key, float]:
    """Seconds and memory of a run."""
    named = {name: environment.get(name) for name in COSTS}
    named["seconds"] = environment.get("wall_seconds")
    return {
        Key(n, calibrator=RAW): float(v) for n, v in named.items() if isinstance(v, int | float)
    }


def read_json_object(folder: str, name: str) -> dict[str, Any]:
    """Read a JSON object of a run folder; raises UnusableRun saying why it cannot be."""
    try:
        with open(f"{folder}/{name}", "rb", buffering=0) as file:
            content = parse_json(file.read())
    except FileNotFoundError:
        raise UnusableRun(f"no {name}") from None
    except (OSError, ValueError) as error:
        raise UnusableRun(f"{name} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise UnusableRun(f"{name} is not a JSON object")
    return content


def _check_identity(identity: Identity, content: Mapping[str, Any]) -> None:
    for name, expected in identity._asdict().items():
        said = content.get(name)
        if str(said).replace("/", "_") != str(expected):
            raise UnusableRun(f"metrics.json is of {name} {said}, its folder says {expected}")


def without_strangers(results: Results) -> Results:
    """Turn runs whose data differ from those of their kind into problems.

    Runs of one benchmark with the same `data.*` settings and the same seed have used the same
    examples, so their fingerprints agree; the ones that differ from the most frequent are flagged.
    """
    kinds: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    data: dict[int, str] = {}
    for record in results.records:
        settings = record.settings
        if id(settings) not in data:
            chosen = {key: value for key, value in settings.items() if key.startswith("data.")}
            data[id(settings)] = json.dumps(chosen, sort_keys=True)
        kinds[record.identity.benchmark, record.identity.seed, data[id(settings)]].append(record)
    strangers = {
        id(record): reason for kind in kinds.values() for record, reason in _strangers(kind)
    }
    if not strangers:
        return results
    flagged = [
        Problem(record.identity, record.folder, strangers[id(record)])
        for record in results.records
        if id(record) in strangers
    ]
    kept = [record for record in results.records if id(record) not in strangers]
    return replace(results, records=kept, problems=results.problems + flagged)


def _strangers(kind: list[Record]) -> Iterator[tuple[Record, str]]:
    prints = [record.fingerprint for record in kind]
    if len(set(prints)) == 1:
        return
    usual = max(prints, key=prints.count)
    for record in kind:
        if record.fingerprint != usual:
            yield record, f"its data {record.fingerprint} are not those of the same cells ({usual})"

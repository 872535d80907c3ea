"""Versions of calibench, torch and the data that made the runs of a table; a table names it if they differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from calibench.leaderboard.records import Problem, Record

Versions = tuple[tuple[str, str], ...]
"""Name and version of each part; the data's version is their fingerprint."""

PACKAGES = ("calibench", "torch")
ROWS = 3  # that a note names

_UNKNOWN = "unknown"


def package_versions(environment: Mapping[str, Any]) -> Versions:
    """The versions in a run's environment.json, without the build (`2.6.0+cu124` is 2.6.0)."""
    versions = environment.get("versions")
    known = versions if isinstance(versions, Mapping) else {}
    return tuple((name, str(known.get(name, _UNKNOWN)).partition("+")[0]) for name in PACKAGES)


def unlike(records: Sequence[Record]) -> tuple[dict[int, str], Versions]:
    """The runs that were made by other versions than most runs; of versions with equally many runs the newest count.

    Returns:
        The versions in which each such run differs, by `id` of its record, and the versions that made most runs.
    """
    made_by = list(_made_by(records))
    counts = Counter(made_by)
    if len(counts) < 2:
        return {}, ()
    usual = max(counts, key=lambda versions: (counts[versions], _age(versions)))
    others = {
        id(record): _text(version for version in versions if version not in usual)
        for record, versions in zip(records, made_by, strict=True)
        if versions != usual
    }
    return others, usual


def same_version(runs: Sequence[Record | Problem]) -> list[Record | Problem]:
    """The runs of a table, in which those made by other versions than most have become problems."""
    others, _ = unlike([run for run in runs if isinstance(run, Record)])
    return [
        Problem(run.cell, run.folder, f"made with {others[id(run)]}", warn=False)
        if isinstance(run, Record) and id(run) in others
        else run
        for run in runs
    ]


def notes(rows: Mapping[str, Mapping[int, Record]]) -> Iterator[str]:
    """One line for each combination of versions that made some runs of a table, but not most.

    Args:
        rows: The runs of each row by seed, by the row's label.
    """
    others, usual = unlike([record for seeds in rows.values() for record in seeds.values()])
    for versions in sorted(set(others.values())):
        found = {
            label: [seed for seed, run in seeds.items() if others.get(id(run)) == versions]
            for label, seeds in rows.items()
        }
        runs = {label: seeds for label, seeds in found.items() if seeds}
        named = [
            f"{label} seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
            for label, seeds in list(runs.items())[:ROWS]
        ]
        more = [f"{len(runs) - ROWS} more rows"] if len(runs) > ROWS else []
        yield (
            f"environment differs: {versions} in {'; '.join([*named, *more])} (most runs: "
            f"{_named_as(versions, usual)}); `leaderboard --same-version` leaves them out"
        )


def counted(environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line that counts the versions in the environments of several runs, if they differ."""
    counts = Counter(map(package_versions, environments))
    if len(counts) > 1:
        parts = (f"{_text(versions)} in {count} runs" for versions, count in counts.most_common())
        yield f"environment differs: {'; '.join(parts)}"


def _text(versions: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions)


def _made_by(records: Iterable[Record]) -> Iterator[Versions]:
    """The versions of each run, with its data's unless they follow the seed and so differ anyway."""
    follows: dict[int, bool] = {}  # by the settings, of which runs of a key share one object
    for record in records:
        settings = record.settings
        if id(settings) not in follows:
            data = (value for key, value in settings.items() if key.startswith("data."))
            follows[id(settings)] = "run" in data
        fixed = "" if follows[id(settings)] else record.fingerprint
        yield (*record.versions, ("data", fixed))


def _named_as(text: str, usual: Versions) -> str:
    """Those of the usual versions that belong to the parts that a text names."""
    parts = [part.partition(" ")[0] for part in text.split(", ")]
    return _text(version for version in usual if version[0] in parts)


def _age(versions: Versions) -> list[list[int]]:
    """A sort key by which newer versions are greater."""
    return [[int(n) for n in re.findall(r"\d+", v)] for name, v in versions if name != "data"]

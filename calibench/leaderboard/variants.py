"""Variants of a benchmark: rows on different examples (another imbalance factor or split) are not comparable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibench.ground.regular_files import text_of
from calibench.leaderboard.labels import differing, short_names
from calibench.leaderboard.records import Problem, Record, Settings

RowKey = tuple[str, str]  # loss and key

_DATA = "data."


def row_variants(runs: Sequence[Record | Problem]) -> dict[RowKey, str]:
    """The variant of each row, `imbalance_factor=10`: how its examples differ from those of others; empty if not.

    Rows are of the same examples if their data settings are the same, or the fingerprints of their data agree for a
    seed that both have; a row without a finished run goes by its config.yaml.

    Args:
        runs: Those of one benchmark and backbone.
    """
    records: dict[RowKey, list[Record]] = defaultdict(list)
    for run in runs:
        if isinstance(run, Record):
            records[run.cell.loss, run.cell.key].append(run)
    groups = _groups(records)
    names = _names([records[group[0]][0].settings for group in groups])
    variants = {row: name for group, name in zip(groups, names, strict=True) for row in group}
    for run in runs:
        row = (run.cell.loss, run.cell.key)
        if row not in variants:
            variants[row] = _planned(run.folder, names)
    return variants


def _groups(records: Mapping[RowKey, Sequence[Record]]) -> list[list[RowKey]]:
    """Rows grouped by the examples that they used, in the order of their data settings."""
    alike: dict[str, list[RowKey]] = defaultdict(list)
    for row in records:
        alike[_data_text(records[row][0].settings)].append(row)
    groups: list[tuple[set[tuple[int, str]], list[RowKey]]] = []
    for text in sorted(alike):
        rows = alike[text]
        used = {(run.cell.seed, run.fingerprint) for row in rows for run in records[row]}
        same = next((group for group in groups if group[0] & used), None)
        if same is None:
            groups.append((used, rows))
        else:
            same[0].update(used)
            same[1].extend(rows)
    return [rows for _, rows in groups]


def _data_text(settings: Settings) -> str:
    return repr(sorted((key, repr(v)) for key, v in settings.items() if key.startswith(_DATA)))


def _names(settings: Sequence[Settings]) -> list[str]:
    """A name for each of several data settings: the values in which they differ, or a number if there are none."""
    if len(settings) < 2:
        return [""] * len(settings)
    keys = sorted(key for key in differing(settings) if key.startswith(_DATA))
    short = short_names(keys)
    names = [" ".join(f"{short[key]}={_plain(of.get(key))}" for key in keys) for of in settings]
    if len(set(names)) == len(names):
        return names
    return [f"data {number}" for number in range(1, len(names) + 1)]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _planned(folder: str, names: Sequence[str]) -> str:
    """The variant of a run that has not finished, from its config.yaml; the first one if that is not possible."""
    import yaml

    if len(set(names)) < 2:
        return names[0] if names else ""
    try:
        content = yaml.safe_load(text_of(Path(folder) / "config.yaml"))
        arguments = content["data"]["init_args"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return names[0]
    values = {f"{key}={_plain(value)}" for key, value in arguments.items()}
    return max(names, key=lambda name: len(values & set(name.split())))

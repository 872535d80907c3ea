"""Labels of rows: the loss, and the settings in which rows differ; variants of a benchmark, on different examples."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from calibench.files.atomic_files import read_text
from calibench.messages.printable_text import without_machine
from calibench.ranking.records import Problem, Record, Settings

LABEL_SETTINGS = 3  # settings in a label; rows that share all of them also get their key
_LOSS = "model.loss."
_CLASS_ENDING = "Loss"
_UNSET = "unset"
_DATA = "data."

RowKey = tuple[str, str]  # loss and key


def differing_settings(rows: Sequence[Settings]) -> set[str]:
    """Keys of settings that do not have one value in all rows."""
    if len(rows) < 2:
        return set()
    keys = list(set().union(*rows))
    values = zip(*(map(row.get, keys) for row in rows), strict=True)
    return {
        key
        for key, column in zip(keys, values, strict=True)
        if column.count(column[0]) < len(column)
    }


def display_name(loss: str) -> str:
    """The name of a loss in tables: its class without the ending `Loss`."""
    return loss.removesuffix(_CLASS_ENDING) or loss


def row_labels(rows: Sequence[tuple[str, str, Settings | None]]) -> list[str]:
    """One label per row, given by loss, key and settings (None where no run could be read).

    A label is the loss, then the settings in which rows of the same loss differ, then the other
    settings in which the row differs from most rows of the table. Labels are unique.
    """
    known_settings = [settings for _, _, settings in rows if settings is not None]
    most_frequent = {
        key: Counter(_hashable(row.get(key)) for row in known_settings).most_common(1)[0][0]
        for key in differing_settings(known_settings)
        if not key.startswith(_LOSS)
    }
    names = _display_names([loss for loss, _, _ in rows])
    same_loss: dict[str, list[Settings]] = defaultdict(list)
    for loss, _, settings in rows:
        if settings is not None:
            same_loss[loss].append(settings)
    labels = [f"{names[loss]} [{key}]" if same_loss[loss] else names[loss] for loss, key, _ in rows]
    for place, (loss, _, settings) in enumerate(rows):
        if settings is not None:
            labels[place] = _label(
                names[loss], settings, differing_settings(same_loss[loss]), most_frequent
            )
    counts = Counter(labels)
    return [
        f"{label} [{key}]" if counts[label] > 1 else label
        for label, (_, key, _) in zip(labels, rows, strict=True)
    ]


def _display_names(losses: Sequence[str]) -> dict[str, str]:
    """The name of each loss in a table; a class keeps its ending where another one has its name without it."""
    classes = set(losses)
    return {loss: loss if display_name(loss) in classes else display_name(loss) for loss in classes}


def _label(
    loss: str, settings: Settings, row_keys: set[str], most_frequent: Mapping[str, Hashable]
) -> str:
    unusual = {key for key, value in most_frequent.items() if _hashable(settings.get(key)) != value}
    keys = sorted(row_keys | unusual, key=lambda key: (not key.startswith(_LOSS), key))
    names = short_setting_names(keys)
    shown_settings = [
        f"{names[key]}={without_machine(settings.get(key, _UNSET))}"
        for key in keys[:LABEL_SETTINGS]
    ]
    remainder = [f"+{len(keys) - LABEL_SETTINGS}"] if len(keys) > LABEL_SETTINGS else []
    return " ".join([loss, *shown_settings, *remainder])


def short_setting_names(keys: Sequence[str]) -> dict[str, str]:
    """The shortest dotted ending that is unique: `model.loss.init_args.gamma` -> `gamma`."""
    parts = {key: _parts_of_setting(key) for key in keys}
    longest = max((len(part) for part in parts.values()), default=0)
    names: dict[str, str] = {}
    for length in range(1, longest + 1):
        endings = {key: ".".join(part[-length:]) for key, part in parts.items()}
        counts = Counter(endings.values())
        for key, ending in endings.items():
            if key not in names and counts[ending] == 1 and ending != "class_path":
                names[key] = ending
    return {key: names.get(key, key) for key in keys}


def _parts_of_setting(key: str) -> list[str]:
    """The parts of a dotted key without `init_args`, which no label needs."""
    return [part for part in key.split(".") if part != "init_args"] or [key]


def _hashable(value: Any) -> Hashable:
    return repr(value) if isinstance(value, list | dict) else value


def row_variants(runs: Sequence[Record | Problem]) -> dict[RowKey, str]:
    """The variant of each row, `imbalance_factor=10`: how its examples differ from those of others; empty if not.

    Rows are of the same examples if their data settings are the same, or the fingerprints of their data agree for a
    seed that both have; a row without a finished run goes by its config.yaml.
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
        settings = records[row][0].settings.items()
        data = sorted((key, repr(value)) for key, value in settings if key.startswith(_DATA))
        alike[repr(data)].append(row)
    groups: list[tuple[set[tuple[int, str]], list[RowKey]]] = []
    for text in sorted(alike):
        rows = alike[text]
        cells = {(run.cell.seed, run.fingerprint) for row in rows for run in records[row]}
        same = next((group for group in groups if group[0] & cells), None)
        if same is None:
            groups.append((cells, rows))
        else:
            same[0].update(cells)
            same[1].extend(rows)
    return [rows for _, rows in groups]


def _names(settings: Sequence[Settings]) -> list[str]:
    """A name for each of several data settings: the values in which they differ, or a number if there are none."""
    if len(settings) < 2:
        return [""] * len(settings)
    keys = sorted(key for key in differing_settings(settings) if key.startswith(_DATA))
    short = short_setting_names(keys)
    names = [
        " ".join(f"{short[key]}={_plain(row_settings.get(key))}" for key in keys)
        for row_settings in settings
    ]
    if len(set(names)) == len(names):
        return names
    return [f"data {number}" for number in range(1, len(names) + 1)]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _planned(folder: str, names: Sequence[str]) -> str:
    """The variant of a run that has not finished, from its config.yaml; the first one if that is not possible."""
    if len(set(names)) < 2:
        return names[0] if names else ""
    try:
        content = yaml.safe_load(read_text(Path(folder) / "config.yaml"))
        arguments = content["data"]["init_args"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return names[0]
    values = {f"{key}={_plain(value)}" for key, value in arguments.items()}
    return max(names, key=lambda name: len(values & set(name.split())))

"""Labels of rows: the loss, and the settings in which rows differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from calibench.ground.output import without_machine
from calibench.leaderboard.records import Settings

SHOWN = 3  # settings in a label; rows that share all of them also get their key
_LOSS = "model.loss."
_UNSET = "unset"


def differing(rows: Sequence[Settings]) -> set[str]:
    """Keys of settings that do not have one value in all rows."""
    if len(rows) < 2:
        return set()
    first, *others = rows
    keys = set().union(*rows)
    return {key for key in keys if any(row.get(key) != first.get(key) for row in others)}


def row_labels(rows: Sequence[tuple[str, str, Settings | None]]) -> list[str]:
    """One label per row.

    A label is the loss, then the settings in which rows of the same loss differ, then the other
    settings in which the row differs from most rows of the table. Labels are unique.

    Args:
        rows: Loss, key and settings of each row (None where no run of it could be read).
    """
    known = [settings for _, _, settings in rows if settings is not None]
    usual = _usual(known, {key for key in differing(known) if not key.startswith(_LOSS)})
    same_loss: dict[str, list[Settings]] = defaultdict(list)
    for loss, _, settings in rows:
        if settings is not None:
            same_loss[loss].append(settings)
    labels = [f"{loss} [{key}]" if same_loss[loss] else loss for loss, key, _ in rows]
    for place, (loss, _, settings) in enumerate(rows):
        if settings is not None:
            labels[place] = _label(loss, settings, differing(same_loss[loss]), usual)
    several = Counter(labels)
    return [
        f"{label} [{key}]" if several[label] > 1 else label
        for label, (_, key, _) in zip(labels, rows, strict=True)
    ]


def _usual(rows: Sequence[Settings], keys: set[str]) -> dict[str, Hashable]:
    counts = {key: Counter(_hashable(row.get(key)) for row in rows) for key in keys}
    return {key: count.most_common(1)[0][0] for key, count in counts.items()}


def _label(loss: str, settings: Settings, own: set[str], usual: Mapping[str, Hashable]) -> str:
    unusual = {key for key, value in usual.items() if _hashable(settings.get(key)) != value}
    keys = sorted(own | unusual, key=lambda key: (not key.startswith(_LOSS), key))
    names = short_names(keys)
    shown = [f"{names[key]}={without_machine(settings.get(key, _UNSET))}" for key in keys[:SHOWN]]
    more = [f"+{len(keys) - SHOWN}"] if len(keys) > SHOWN else []
    return " ".join([loss, *shown, *more])


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The shortest dotted ending that is unique: `model.loss.init_args.gamma` -> `gamma`."""
    parts = {key: [p for p in key.split(".") if p != "init_args"] or [key] for key in keys}
    longest = max((len(part) for part in parts.values()), default=0)
    names: dict[str, str] = {}
    for length in range(1, longest + 1):
        endings = {key: ".".join(part[-length:]) for key, part in parts.items()}
        counts = Counter(endings.values())
        for key, ending in endings.items():
            if key not in names and counts[ending] == 1 and ending != "class_path":
                names[key] = ending
    return {key: names.get(key, key) for key in keys}


def _hashable(value: Any) -> Hashable:
    return repr(value) if isinstance(value, list | dict) else value

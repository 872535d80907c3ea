"""Results of the post-hoc benchmark in CalArena's form: one CSV for each calibrator (Berta et al. 2026)."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibench.runs import write_atomically
from calibench.statistics.number import RAW

_UNCALIBRATED = "Base-model"
_METRICS = {"brier": "brier", "logloss": "nll", "ece-15": "ece"}


def write_arena(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write `<folder>/{binary,multiclass}/<calibrator>.csv`, a row for each model that was scored.

    Of a model that was halved at random, the first split counts. `time` is CPU seconds of one thread, fit and
    application together. Their ECE has 15 bins too; their Kuiper error of two classes is not among ours.
    """
    tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if str(row["size"]) == "0" and str(row["repeat"]) == "0":
            kind = "binary" if str(row["classes"]) == "2" else "multiclass"
            name = _UNCALIBRATED if row["calibrator"] == RAW else row["calibrator"]
            tables.setdefault((kind, name), []).append(_row(row, name, kind))
    for (kind, name), lines in tables.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        file = name.replace(":", "-").replace("/", "-")
        write_atomically(folder / kind / f"{file}.csv", text.getvalue().encode())


def _row(row: Mapping[str, Any], name: str, kind: str) -> dict[str, Any]:
    model = row["model"] if str(row["seed"]) == "1" else f"{row['model']}/seed={row['seed']}"
    sizes = {"cal_size": row["fitted_on"], "test_size": row["tested_on"]}
    sizes |= {"n_classes": row["classes"]} if kind == "multiclass" else {}
    found = {f"{name}_{theirs}": row.get(ours, "") for theirs, ours in _METRICS.items()}
    error, spent = row.get("error"), [row.get("fit_seconds"), row.get("apply_seconds")]
    seconds = sum(float(part) for part in spent if part) if all(spent) else ""
    return {
        "dataset": row["dataset"], "model": model, **sizes, **found,
        f"{name}_accuracy": 1 - float(error) if error else "",
        f"{name}_time": seconds,
    }  # fmt: skip

"""Cells of the post-hoc benchmark: a calibrator fitted and scored on one split of one source; their results as CSV."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibench.calibrator_comparison.peers import build_peer
from calibench.calibrator_comparison.sources import ModelPredictions, load_source
from calibench.calibrators import Calibrator
from calibench.calibrators.fit_warnings import BoundWarning, ConvergenceWarning, silence_fits
from calibench.evaluation.calibrator_fits import predicted_log_probabilities
from calibench.evaluation.extra_metrics import LabelledSet, import_metrics, score_extra_metrics
from calibench.evaluation.scoring import compute_metrics
from calibench.evaluation.serialization import build_calibrator_block
from calibench.messages.version import __version__
from calibench.parallel.threads import use_threads
from calibench.plugins.registries import load_plugins
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun, Predictions, write_atomically
from calibench.statistics.number import RAW
from calibench.tables.text import csv_field, csv_text
from calibench.tensors.arrays import Integers

COMPARISON_BINS = 15

Row = dict[str, Any]
Block = Mapping[str, Any]


@dataclass(frozen=True)
class CalibratorFit:
    """A calibrator with the predictions that it is fitted and scored on.

    Attributes:
        calibrator: Its name, or `raw`.
        repeat: Number of the random split, or of the random draw of `size` examples, from 0.
        size: Number of examples to fit on; 0 for all there are.
        further: Metrics beyond the panel, as blocks `{class_path, init_args}`.
        also: Names that are calibrators of other packages.
    """

    source: ModelPredictions
    calibrator: str
    repeat: int
    size: int
    metrics: tuple[str, ...]
    reader: Reader
    further: tuple[Block, ...] = ()
    also: tuple[str, ...] = ()


def prepare_worker() -> None:
    """Let each worker process use one core."""
    use_threads(1)
    load_plugins("calibrators")


def compute_row(cell: CalibratorFit) -> Row:
    """Compute the row of a cell: metrics and CPU seconds; of a fit that fails the reason in `note`."""
    val, test = _split_predictions(cell)
    wrong = (ArithmeticError, RuntimeError, ValueError)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            numbers = _compute_numbers(cell, val, test)
        except Exception as error:
            if not isinstance(error, wrong) and cell.calibrator not in cell.also:
                raise
            numbers = {"note": f"failed: {' '.join(str(error).split())}"}
    note = {"note": str(caught[0].message)} if caught else {}
    return {"fitted_on": len(val.target), "tested_on": len(test.target), **note, **numbers}


def _compute_numbers(cell: CalibratorFit, val: Predictions, test: Predictions) -> Row:
    calibrator: Calibrator | None = None
    if cell.calibrator in cell.also:
        calibrator = build_peer(cell.calibrator)
    elif cell.calibrator != RAW:
        calibrator = build_calibrator_block({"class_path": cell.calibrator})
    start = time.process_time()
    if calibrator is not None:
        with silence_fits(BoundWarning):
            calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    fitted = time.process_time()
    log_probs = predicted_log_probabilities(test, calibrator)
    applied = time.process_time()
    numbers = compute_metrics(
        log_probs, torch.from_numpy(test.target), cell.metrics, n_bins=COMPARISON_BINS
    )
    if cell.further:
        import_metrics(cell.further)
        val_set = LabelledSet(val, predicted_log_probabilities(val, calibrator))
        extra_numbers = score_extra_metrics(LabelledSet(test, log_probs), cell.further, (), val_set)
        numbers |= {
            number.key.metric: number.value for number in extra_numbers if not number.key.label
        }
    if lacking := [name for name in cell.metrics if name not in numbers]:
        raise ValueError(f"{lacking[0]} has no value for these predictions")
    numbers = {name: numbers[name] for name in cell.metrics}
    return {**numbers, "fit_seconds": fitted - start, "apply_seconds": applied - fitted}


def _split_predictions(cell: CalibratorFit) -> tuple[Predictions, Predictions]:
    """Split the predictions of a cell into those that are fitted on and those that are scored."""
    first, *others = load_source(cell.source, cell.reader).values()
    order = np.random.RandomState(cell.repeat).permutation(len(first.target))
    if others:
        rows = order[: cell.size] if cell.size else np.arange(len(order))
        return _select_rows(first, rows), others[0]
    half = len(order) // 2
    return _select_rows(first, order[: cell.size or half]), _select_rows(first, order[half:])


def _select_rows(part: Predictions, rows: Integers) -> Predictions:
    return Predictions(part.logits[rows], part.target[rows], part.metadata)


IDENTITY_COLUMNS = ("dataset", "model", "seed", "digest", "size", "repeat", "calibrator", "version")
NUMBER_COLUMNS = (
    "classes",
    "fitted_on",
    "tested_on",
    "shrinkage",
    "fit_seconds",
    "apply_seconds",
    "note",
)


class ResultsFile:
    """The rows of a CSV file, to which cells are added; those of earlier runs stay, also of other sources.

    A row must have the `metrics` to count as done. A file that is no such CSV is a CorruptRun.
    """

    def __init__(self, path: Path, metrics: Sequence[str]) -> None:
        self.path, self._metrics = path, metrics
        self.rows = {_row_key(row): row for row in _read_rows(path)}
        earlier = {name for row in self.rows.values() for name in row}
        others = sorted(earlier - {*IDENTITY_COLUMNS, *NUMBER_COLUMNS, *metrics})
        self.columns = [*IDENTITY_COLUMNS, *metrics, *others, *NUMBER_COLUMNS]

    def lacks(self, cell: CalibratorFit) -> bool:
        """Whether a cell is still to be computed."""
        row = self.rows.get(_row_key(identify_cell(cell)), {})
        failed = str(row.get("note", "")).startswith("failed")
        is_complete = all(row.get(name) for name in self._metrics)
        return not row or not (failed or is_complete)

    def rows_of_cells(self, cells: Iterable[CalibratorFit]) -> list[Row]:
        """The rows of those cells that the file has."""
        rows = (self.rows.get(_row_key(identify_cell(cell))) for cell in cells)
        return [row for row in rows if row is not None]

    @contextmanager
    def open(self) -> Iterator[Callable[[CalibratorFit, Mapping[str, Any]], None]]:
        """Open the file, put its rows in order, and yield a function that appends the numbers of a cell."""
        write_atomically(self.path, csv_text(self.columns, self.rows.values()).encode())
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="", lineterminator="\n")

            def add(cell: CalibratorFit, numbers: Mapping[str, Any]) -> None:
                shrinkage = "" if cell.calibrator in (RAW, *cell.also) else True
                properties = {"classes": cell.source.classes, "shrinkage": shrinkage}
                row = {**identify_cell(cell), **properties, **numbers}
                text = {name: csv_field(row.get(name, "")) for name in self.columns}
                writer.writerow(text)
                file.flush()
                self.rows[_row_key(row)] = {name: str(value) for name, value in text.items()}

            yield add


def identify_cell(cell: CalibratorFit) -> Row:
    """Identify the row of a cell among others; a row of another version of calibench is another one."""
    source = cell.source
    return {
        "dataset": source.dataset, "model": source.model, "seed": source.seed, "digest": source.digest,
        "size": cell.size, "repeat": cell.repeat, "calibrator": cell.calibrator, "version": __version__,
    }  # fmt: skip


def _row_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(csv_field(row[name])) for name in IDENTITY_COLUMNS)


def _read_rows(path: Path) -> list[Row]:
    """The whole rows of a file; a line that was cut short is left out."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if not set(IDENTITY_COLUMNS) <= set(reader.fieldnames or ()):
            raise CorruptRun(f"{path} is no CSV of `calibench posthoc`: its columns are others")
        return [row for row in reader if None not in row.values() and None not in row]


_METRICS = {"brier": "brier", "logloss": "nll", "ece-15": "ece"}


def write_arena(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write results as CalArena does: a file `<folder>/{binary,multiclass}/<calibrator>.csv` has a row for each model.

    Berta et al. (2026). Of a model that was halved at random, the first split counts. `time` is CPU seconds of one
    thread, fit and application together. Their ECE has 15 bins too; their Kuiper error of two classes is not among
    ours.
    """
    tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if str(row["size"]) == "0" and str(row["repeat"]) == "0":
            kind = "binary" if str(row["classes"]) == "2" else "multiclass"
            name = "Base-model" if row["calibrator"] == RAW else row["calibrator"]
            tables.setdefault((kind, name), []).append(_to_arena_row(row, name, kind))
    for (kind, name), lines in tables.items():
        file = folder / kind / f"{name.replace(':', '-').replace('/', '-')}.csv"
        write_atomically(file, csv_text(list(lines[0]), lines).encode())


def _to_arena_row(row: Mapping[str, Any], name: str, kind: str) -> dict[str, Any]:
    model = row["model"] if str(row["seed"]) == "1" else f"{row['model']}/seed={row['seed']}"
    sizes = {"cal_size": row["fitted_on"], "test_size": row["tested_on"]}
    sizes |= {"n_classes": row["classes"]} if kind == "multiclass" else {}
    scores = {
        f"{name}_{arena_name}": row.get(metric, "") for arena_name, metric in _METRICS.items()
    }
    error, spent = row.get("error"), [row.get("fit_seconds"), row.get("apply_seconds")]
    seconds = sum(float(part) for part in spent if part) if all(spent) else ""
    return {
        "dataset": row["dataset"], "model": model, **sizes, **scores,
        f"{name}_accuracy": 1 - float(error) if error else "",
        f"{name}_time": seconds,
    }  # fmt: skip

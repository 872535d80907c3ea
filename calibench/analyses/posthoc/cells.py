"""Cell of the post-hoc benchmark: one calibrator, fitted and scored on one split of one source."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from calibench.analyses.posthoc.sources import Source, load
from calibench.calibrators.convergence import ConvergenceWarning
from calibench.config.catalogue import load_plugins
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.files import Reader
from calibench.evaluation.scoring import log_probabilities, values
from calibench.runs import Predictions
from calibench.tables.key import RAW

BINS = 15

Numbers = dict[str, Any]
Indices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Cell:
    """What is fitted and scored.

    Attributes:
        source: The predictions.
        calibrator: Name of a calibrator, or `raw`.
        repeat: Number of the random split, or of the random draw of `size` examples, from 0.
        size: Number of examples to fit on; 0 for all there are.
        metrics: What is computed.
        reader: How files are read.
    """

    source: Source
    calibrator: str
    repeat: int
    size: int
    metrics: tuple[str, ...]
    reader: Reader


def alone() -> None:
    """Let each worker process use one core."""
    torch.set_num_threads(1)
    load_plugins("calibrators")


def row(cell: Cell) -> Numbers:
    """The row of a cell: metrics and CPU seconds; of a fit that fails the reason in `note`."""
    val, test = _parts(cell)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            numbers = _numbers(cell, val, test)
        except (ArithmeticError, RuntimeError, ValueError) as error:
            numbers = {"note": f"failed: {' '.join(str(error).split())}"}
    said = {"note": str(told[0].message)} if told else {}
    return {"fitted_on": len(val.target), "tested_on": len(test.target), **said, **numbers}


def _numbers(cell: Cell, val: Predictions, test: Predictions) -> Numbers:
    start = time.process_time()
    calibrator = None
    if cell.calibrator != RAW:
        calibrator = calibrator_named(cell.calibrator)
        calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    fitted = time.process_time()
    log_probs = log_probabilities(torch.from_numpy(test.logits), calibrator)
    applied = time.process_time()
    found = values(log_probs, torch.from_numpy(test.target), cell.metrics, n_bins=BINS)
    return {**found, "fit_seconds": fitted - start, "apply_seconds": applied - fitted}


def _parts(cell: Cell) -> tuple[Predictions, Predictions]:
    """What is fitted on and what is scored."""
    sets = load(cell.source, cell.reader)
    first, *others = sets.values()
    order = np.random.RandomState(cell.repeat).permutation(len(first.target))
    if others:
        chosen = order[: cell.size] if cell.size else np.arange(len(order))
        return _rows(first, chosen), others[0]
    half = len(order) // 2
    return _rows(first, order[: cell.size or half]), _rows(first, order[half:])


def _rows(part: Predictions, rows: Indices) -> Predictions:
    return Predictions(part.logits[rows], part.target[rows])


def planned(
    found: Sequence[Source],
    calibrators: Sequence[str],
    *,
    repeats: int,
    sizes: Sequence[int],
    metrics: tuple[str, ...],
    reader: Reader,
) -> list[Cell]:
    """The cells, source by source: one split where val and test are given, else random halves.

    With sizes each one is drawn as often as there are repeats, where there are as many examples.
    """
    return [
        Cell(source, calibrator, repeat, size, metrics, reader)
        for source in found
        for size in (sizes or (0,))
        if size <= source.fitted_on
        for repeat in range(repeats if size or source.halved else 1)
        for calibrator in calibrators
    ]

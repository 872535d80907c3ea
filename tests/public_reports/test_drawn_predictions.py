"""The door as a law: whatever is drawn, the numbers are those of the values that were written, or it is refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.metrics import calibration_error
from calibench.predictions.files import Reader
from calibench.predictions.inputs import Sets
from calibench.runs import Predictions
from tests.public_reports.drawn_files import TABLES, Written, draw_choices, write_set

N_BINS = 15


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def numbers_of_written(written: Written, are_logits: bool) -> tuple[float, float]:
    """NLL and ECE of what was written, by numpy alone."""
    values, rows = written.values, np.arange(len(written.target))
    with np.errstate(divide="ignore"):
        log_probs = (
            log_softmax(values)
            if are_logits
            else np.log(values / values.sum(axis=1, keepdims=True))
        )
    confidence = np.exp(log_probs).max(axis=1) if are_logits else values.max(axis=1)
    hits = values.argmax(axis=1) == written.target
    edges = (np.arange(N_BINS + 1) / N_BINS).astype(np.float32)
    bins = np.searchsorted(edges, confidence.astype(np.float32), side="left")
    gaps = [abs((confidence[bins == i] - hits[bins == i]).sum()) for i in np.unique(bins)]
    return float(-log_probs[rows, written.target].mean()), sum(gaps) / len(rows)


def numbers_of_read(predictions: Predictions) -> tuple[float, float]:
    """NLL and ECE of what was read, as an evaluation takes them."""
    logits, target = predictions.logits.astype(np.float64), predictions.target
    log_probs = log_softmax(logits)
    probs = np.exp(log_probs) if predictions.probs is None else predictions.probs
    ece = calibration_error(torch.from_numpy(probs), torch.from_numpy(target), n_bins=N_BINS)
    return float(-log_probs[np.arange(len(target)), target].mean()), float(ece)


def check(seed: int, folder: Path) -> str:
    """`read` or `refused: <why>` of two drawn sets; an AssertionError if a number is another."""
    random = np.random.default_rng(seed)
    choices = draw_choices(random)
    val = write_set(folder / "val", choices, random, is_test=False)
    test = write_set(folder / "test", choices, random, is_test=True)
    undeclared = choices.kind in TABLES and choices.are_logits and not choices.prefix
    reader = Reader(scores="logits" if undeclared else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            sets = Sets(val=(val.source,), test=(test.source,)).read(reader, reader.of_ood)
        except ValueError as error:
            return f"refused: {error}"
    assert choices.harm is None, f"seed {seed} is read in spite of {choices.harm}: {choices}"
    for written, (predictions,) in ((val, sets["val"]), (test, sets["test"])):
        right = numbers_of_written(written, choices.are_logits)
        assert numbers_of_read(predictions) == pytest.approx(right, abs=2e-5), (
            f"seed {seed}: {choices}"
        )
    return "read"


def check_seeds(seeds: range, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [check(seed, folder) for seed in seeds]
    capsys.readouterr()
    refused = [(seed, line) for seed, line in zip(seeds, outcomes, strict=True) if line != "read"]
    harmless = [
        (seed, line)
        for seed, line in refused
        if draw_choices(np.random.default_rng(seed)).harm is None
    ]
    assert len(harmless) <= 0.03 * len(seeds), "\n".join(map(str, harmless))


def test_drawn_predictions_are_read_right_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_seeds(range(34), tmp_path, capsys)


@pytest.mark.slow
def test_many_drawn_predictions_are_read_right_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_seeds(range(34, 2100), tmp_path, capsys)

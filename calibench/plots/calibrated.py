"""Scores of a run after a calibrator: with the parameters in metrics.json, or else fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from calibench.calibrators import Calibrator
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.scoring import log_probabilities
from calibench.evaluation.settings import calibrator_of
from calibench.leaderboard.records import Record
from calibench.plots.example_scores import ExampleScores, load_predictions
from calibench.runs import Predictions, read_json
from calibench.runs.key import RAW


def calibrated(record: Record, split: str, name: str) -> ExampleScores:
    """Scores of a run on a split after a calibrator.

    Args:
        record: The run.
        split: Split or set.
        name: Its name in a leaderboard, or a class of ours, which is then fitted with its default arguments.

    Raises:
        FileNotFoundError: If the run lacks a prediction file.
        ValueError: If there is no such calibrator, or the run names a class that is not loaded.
    """
    return _applied(calibrator_of_run(record, name), load_predictions(record, split))


def probabilities(record: Record, split: str, name: str) -> npt.NDArray[np.float64]:
    """Probabilities (N, K) of a run on a split, raw or after a calibrator; see `calibrated`."""
    logits = torch.from_numpy(load_predictions(record, split).logits)
    calibrator = None if name == RAW else calibrator_of_run(record, name)
    found: npt.NDArray[np.float64] = log_probabilities(logits, calibrator).double().exp().numpy()
    return found


def calibrator_of_run(record: Record, name: str) -> Calibrator:
    """A fitted calibrator of a run: with the parameters in metrics.json, or else fitted on its validation logits.

    Args:
        record: The run.
        name: Its name in a leaderboard, or a class of ours, which is then fitted with its default arguments.

    Raises:
        FileNotFoundError: If the run lacks a prediction file.
        ValueError: If there is no such calibrator, or the run names a class that is not loaded.
    """
    content = read_json(f"{record.folder}/metrics.json")
    calibrator = fitted_from(content, name)
    if calibrator is None:
        calibrator = _unfitted(content, name)
        val = load_predictions(record, "val")
        calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    return calibrator


def as_fitted(
    record: Record, predictions: Predictions, names: Sequence[str]
) -> dict[str, ExampleScores]:
    """Scores after each of several calibrators, leaving out those whose parameters metrics.json lacks.

    Args:
        record: The run.
        predictions: Its logits on a split.
        names: The names of the calibrators in a leaderboard.
    """
    content = read_json(f"{record.folder}/metrics.json")
    found = {name: fitted_from(content, name) for name in names}
    return {name: _applied(one, predictions) for name, one in found.items() if one is not None}


def _applied(calibrator: Calibrator, predictions: Predictions) -> ExampleScores:
    log_probs = calibrator.log_prob(torch.from_numpy(predictions.logits).double()).numpy()
    return ExampleScores.of(log_probs, predictions.target, predictions.metadata)


def fitted_from(content: Mapping[str, Any], name: str) -> Calibrator | None:
    """A fitted calibrator from a run's metrics.json; None if the file lacks some of its parameters.

    Args:
        content: The file's content.
        name: The calibrator's name in it.
    """
    parameters = (content.get("calibrators") or {}).get(name)
    if not parameters:
        return None
    try:
        calibrator = _unfitted(content, name)
        state = {key: torch.tensor(value, dtype=torch.float64) for key, value in parameters.items()}
        calibrator.load_state_dict(state)
    except (RuntimeError, TypeError, ValueError):
        return None  # the file holds a summary of the parameters only, or the class is not loaded
    return calibrator if calibrator.fitted else None


def _unfitted(content: Mapping[str, Any], name: str) -> Calibrator:
    """The calibrator of that name in the run's evaluation, or else of that class with default arguments."""
    blocks = (content.get("evaluation") or {}).get("calibrators") or []
    evaluated = dict(zip(content.get("calibrators") or {}, blocks, strict=False))
    return calibrator_of(evaluated[name]) if name in evaluated else calibrator_named(name)

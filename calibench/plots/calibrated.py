"""A run's outputs after a calibrator: as the run fitted it where metrics.json holds that, else fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from calibench.calibrators import Calibrator
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.settings import calibrator_of
from calibench.leaderboard.records import Record
from calibench.plots.example_scores import ExampleScores, load_predictions
from calibench.runs import Predictions, read_json


def calibrated(record: Record, split: str, name: str) -> ExampleScores:
    """A run's outputs on a split after a calibrator.

    Args:
        record: The run.
        split: Split or set.
        name: As a leaderboard names it, or a class of ours, which is then fitted with its default arguments.

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
    return _applied(calibrator, load_predictions(record, split))


def as_fitted(
    record: Record, predictions: Predictions, names: Sequence[str]
) -> dict[str, ExampleScores]:
    """Scores after each of several calibrators whose fit metrics.json holds; those of others are not there.

    Args:
        record: The run.
        predictions: Its logits on a split.
        names: As a leaderboard names the calibrators.
    """
    content = read_json(f"{record.folder}/metrics.json")
    found = {name: fitted_from(content, name) for name in names}
    return {name: _applied(one, predictions) for name, one in found.items() if one is not None}


def _applied(calibrator: Calibrator, predictions: Predictions) -> ExampleScores:
    log_probs = calibrator.log_prob(torch.from_numpy(predictions.logits).double()).numpy()
    return ExampleScores.of(log_probs, predictions.target, predictions.metadata)


def fitted_from(content: Mapping[str, Any], name: str) -> Calibrator | None:
    """A calibrator of a run's metrics.json as it was fitted, if the file holds all that was.

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
        return None  # a summary of what was fitted, or a class that is not loaded
    return calibrator if calibrator.fitted else None


def _unfitted(content: Mapping[str, Any], name: str) -> Calibrator:
    """The calibrator of that name in a run's evaluation, else of that class with its default arguments."""
    blocks = (content.get("evaluation") or {}).get("calibrators") or []
    evaluated = dict(zip(content.get("calibrators") or {}, blocks, strict=False))
    return calibrator_of(evaluated[name]) if name in evaluated else calibrator_named(name)

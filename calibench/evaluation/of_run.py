"""Calibrators of a finished run: with the parameters in its metrics.json, or else fitted on its validation logits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from calibench.calibrators import Calibrator
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.settings import calibrator_of
from calibench.runs import Predictions, evaluated_calibrators, read_json, with_present_calibrators


def calibrator_of_run(folder: Path | str, name: str) -> Calibrator:
    """A fitted calibrator of a run: with the parameters in metrics.json, or else fitted on its validation logits.

    Args:
        folder: The run folder.
        name: Its name in a leaderboard, or a class of ours, which is then fitted with its default arguments.

    Raises:
        FileNotFoundError: If the run lacks a prediction file.
        ValueError: If there is no such calibrator, or the run names a class that is not loaded.
    """
    content = read_json(Path(folder) / "metrics.json")
    calibrator = fitted_from(content, name)
    if calibrator is None:
        calibrator = _unfitted(content, name)
        val = Predictions.load(Path(folder) / "predictions" / "val.npz")
        calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    return calibrator


def fitted_from(content: Mapping[str, Any], name: str) -> Calibrator | None:
    """A fitted calibrator from a run's metrics.json; None if the file lacks some of its parameters.

    Args:
        content: The file's content.
        name: The calibrator's name in it.
    """
    parameters = with_present_calibrators(content)["calibrators"].get(name)
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
    block = evaluated_calibrators(content).get(name)
    return calibrator_named(name) if block is None else calibrator_of(block)

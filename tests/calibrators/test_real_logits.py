"""Temperatures and errors of real networks' logits, measured before by another implementation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from calibench.calibrators import TemperatureScaling
from calibench.calibrators.temperature import expected_calibration_errors

Integers = npt.NDArray[np.int64]


def ece(probs: Tensor, target: Tensor) -> float:
    confidence, predicted = probs.max(dim=1)
    residual = confidence - (predicted == target).double()
    return 100 * expected_calibration_errors(confidence.numpy(), residual.numpy(), 15)


def load(path: Path) -> tuple[Tensor, Tensor]:
    with np.load(path) as arrays:
        target = torch.from_numpy(arrays["labels"]).long()
        if "logits" in arrays:
            return torch.from_numpy(arrays["logits"]).double(), target
        # Two of the sets hold exact zeros.
        return torch.from_numpy(arrays["probs"]).double().clamp(min=1e-12).log(), target


def test_index_is_reproduced_within_its_rounding(shared: Path) -> None:
    folder = shared / "data" / "calibration-logits"
    if not folder.is_dir():
        pytest.skip("no real logits")
    for entry in json.loads((folder / "index.json").read_text()):
        logits, target = load(folder / entry["file"])
        order = np.random.RandomState(0).permutation(len(target))
        val, test = order[: len(order) // 2], order[len(order) // 2 :]
        model = TemperatureScaling(shrinkage=False).fit(logits[val], target[val])
        raw, scaled = logits[test].softmax(1), model(logits[test])
        found = (model.temperature.item(), ece(raw, target[test]), ece(scaled, target[test]))
        names = ("T_on_val_half", "ece15_test_half_uncal", "ece15_test_half_TS")
        for value, name, unit in zip(found, names, (1e-3, 1e-2, 1e-2), strict=True):
            assert value == pytest.approx(entry[name], abs=0.51 * unit), (entry["file"], name)


def referenced_halves(
    shared: Path,
) -> Iterator[tuple[str, dict[str, Any], Tensor, Tensor, Integers, Integers]]:
    """Name, reference numbers, logits, targets, and the two halves' rows of every real set in `structured.json`."""
    folder = shared / "data" / "calibration-logits"
    if not folder.is_dir():
        pytest.skip("no real logits")
    numbers = json.loads((shared / "reference" / "structured.json").read_text())
    for key, expected in numbers.items():
        if key.startswith("dev/"):
            logits, target = load(folder / key.removeprefix("dev/"))
            order = np.random.RandomState(0).permutation(len(target))
            val, test = np.split(order, [len(order) // 2])
            yield key, expected, logits, target, val, test

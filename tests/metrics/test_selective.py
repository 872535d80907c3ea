"""Risk and coverage against all orders of the ties."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from calibench import metrics as M
from tests.metrics.cases import batch
from tests.metrics.test_calibration_error import pairs


def aurc(wrong: list[int]) -> float:
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


def test_ties_are_averaged_over_their_orders() -> None:
    preds, target = pairs([0.9, 0.8, 0.8, 0.8, 0.6], [1, 0, 1, 1, 0])
    expected = np.mean([aurc([0, *middle, 1]) for middle in permutations([1, 0, 0])])
    rates = M.risk_coverage(preds, target, risk=0.25)
    assert float(rates["aurc"]) == pytest.approx(expected, abs=1e-12)
    best = aurc([0, 0, 0, 1, 1])
    assert float(rates["excess_aurc"]) == pytest.approx(expected - best, abs=1e-12)
    assert float(rates["coverage_at_risk"]) == pytest.approx(4 / 5)  # risks 0, 1/6, 2/9, 1/4, 2/5


def test_without_ties() -> None:
    preds, target = batch(401, dtype=torch.float64)
    preds = preds[torch.arange(401) % 7 != 0][:, :]
    target = target[torch.arange(401) % 7 != 0]
    keep = preds.amax(1) < 1
    preds, target = preds[keep], target[keep]
    order = preds.amax(1).argsort(descending=True)
    wrong = (preds.argmax(1) != target)[order].int().tolist()
    rates = M.risk_coverage(preds, target)
    assert float(rates["aurc"]) == pytest.approx(aurc(wrong), abs=1e-9)
    risk = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    covered = (np.flatnonzero(risk <= 0.05)[-1] + 1) / len(wrong) if (risk <= 0.05).any() else 0
    assert float(rates["coverage_at_risk"]) == pytest.approx(covered)


def test_extremes() -> None:
    preds, target = pairs([0.9, 0.8, 0.7], [1, 1, 1])
    right = {name: float(value) for name, value in M.risk_coverage(preds, target).items()}
    assert right == {"aurc": 0, "excess_aurc": 0, "coverage_at_risk": 1, "augrc": 0}
    wrong = {name: float(value) for name, value in M.risk_coverage(preds, 1 - target).items()}
    assert wrong == {"aurc": 1, "excess_aurc": 0, "coverage_at_risk": 0, "augrc": 0.5}


def test_augrc_is_its_form_by_auroc_and_accuracy() -> None:
    preds, target = batch(1003)
    confidence, wrong = preds.amax(1), preds.argmax(1) != target
    accuracy = 1 - wrong.double().mean().item()
    auroc = roc_auc_score(
        wrong.logical_not(), confidence
    )  # of being right, as failure detection has it
    expected = (1 - auroc) * accuracy * (1 - accuracy) + (
        1 - accuracy
    ) ** 2 / 2  # Traub et al. 2024, eq. 7
    assert float(M.risk_coverage(preds, target)["augrc"]) == pytest.approx(expected, abs=1e-12)

"""MaxEnt loss: its multipliers meet their constraints, and the numbers of the authors' code."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import calibench.losses as L

THEIRS = json.loads(
    (Path(__file__).parent.parent / "reference" / "losses_history.json").read_text()
)["maxent"]
CONSTRAINTS = ("mean", "variance", "both")
EXAMPLES = {
    f"MaxEntLoss {name}": lambda name=name: L.MaxEntLoss(constraint=name)
    for name in ("variance", "both")
}


@pytest.mark.committed
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("case", THEIRS, ids=lambda case: f"K={len(case['counts'])}")
def test_values_gradients_and_multipliers_of_the_authors_code(
    case: dict[str, object], constraint: str
) -> None:
    expected = case[constraint]
    loss = L.MaxEntLoss(constraint=constraint, gamma=1.0)  # type: ignore[arg-type]
    loss.on_fit_start(torch.tensor(case["counts"]))
    # their iteration stops after 21 steps
    np.testing.assert_allclose(loss.per_class[:, 1:], expected["multipliers"], rtol=1e-6)
    logits = torch.tensor(case["logits"], dtype=torch.float64, requires_grad=True)
    value = loss(logits, torch.tensor(case["target"]))
    value.backward()
    assert value.item() == pytest.approx(expected["value"], rel=1e-6)
    np.testing.assert_allclose(logits.grad, expected["gradient"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("counts", [[9, 3], [1, 2, 3, 4, 40], [5] * 30])
def test_multipliers_give_the_mean_of_both_targets(counts: list[int]) -> None:
    number, total = np.arange(len(counts)), sum(counts)
    of_all = sum(k * n for k, n in enumerate(counts)) / total
    loss = L.MaxEntLoss()
    loss.on_fit_start(torch.tensor(counts))
    for label, (_, multiplier) in enumerate(loss.per_class.tolist()):
        mean = sum(k * math.exp(-1 - multiplier * k) for k in number)
        assert mean == pytest.approx((of_all + label) / 2, rel=1e-8)


def test_a_sure_prediction_of_the_mean_class_pays_nothing() -> None:
    loss = L.MaxEntLoss(constraint="mean", gamma=2.0)
    loss.on_fit_start(torch.tensor([0, 0, 7, 0, 0]))  # one class: no mean but its own
    logits, target = torch.zeros(1, 5, dtype=torch.float64), torch.tensor([2])
    logits[0, 2] = 200.0
    assert float(loss(logits, target)) == pytest.approx(0, abs=1e-12)


def test_constraints_that_no_distribution_meets_are_refused_before_training() -> None:
    with pytest.raises(ValueError, match="no multipliers"):
        L.MaxEntLoss(constraint="both").on_fit_start(torch.tensor([50, 50]))

"""ECE-CE beside the authors' code, and the epochs that the code cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.losses import CrossEntropyLoss, ECEWeightedLoss
from tests.losses.examples import batch

pytestmark = pytest.mark.committed

REFERENCE = Path(__file__).parent.parent / "reference"
ECE_CE = json.loads((REFERENCE / "losses_state.json").read_text())["ece_ce"]

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "ECEWeightedLoss": lambda: ECEWeightedLoss(n_bins=5),
}


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    with (
        np.load(REFERENCE / "losses_state.npz") as state,
        np.load(REFERENCE / "losses_oracles.npz") as oracles,
    ):
        return {**state, **oracles}


@pytest.fixture
def measured(arrays: dict[str, np.ndarray]) -> ECEWeightedLoss:
    loss = ECEWeightedLoss()
    logits = torch.from_numpy(arrays["ph10_val/logits"])
    loss.on_validation_epoch_end(logits, torch.from_numpy(arrays["ph10_val/labels"]).long())
    return loss


def test_measured_errors(measured: ECEWeightedLoss) -> None:
    # their sums are float32
    np.testing.assert_allclose(measured.width_gaps, ECE_CE["bin_ece"], rtol=2e-5, atol=2e-7)
    np.testing.assert_allclose(measured.mass_gaps, ECE_CE["ada_gap"], rtol=2e-5, atol=2e-7)
    np.testing.assert_allclose(measured.class_errors, ECE_CE["classwise"], rtol=2e-5)


@pytest.mark.parametrize("case", list(ECE_CE["values"]))
def test_loss_and_gradient(case: str, arrays: dict[str, np.ndarray]) -> None:
    name, epoch = case.split("/epoch")
    loss = ECEWeightedLoss()
    loss.width_gaps = torch.tensor(ECE_CE["bin_ece"], dtype=torch.float64)
    loss.mass_gaps = torch.tensor(ECE_CE["ada_gap"], dtype=torch.float64)
    loss.class_errors = torch.tensor(ECE_CE["classwise"], dtype=torch.float64)
    loss.on_train_epoch_start(int(epoch), 350)
    logits = torch.from_numpy(arrays[f"in/{name}/logits"]).double().requires_grad_()
    target = torch.from_numpy(arrays[f"in/{name}/labels"])
    value = len(target) * loss(logits, target)
    value.backward()
    assert value.item() == pytest.approx(ECE_CE["values"][case], rel=1e-9)
    assert logits.grad is not None
    theirs = arrays[f"ece_ce_grad/{case}"]
    np.testing.assert_allclose(logits.grad[:16].numpy(), theirs, rtol=1e-9, atol=1e-12)


def test_before_a_validation_it_is_cross_entropy() -> None:
    loss = ECEWeightedLoss()
    loss.on_train_epoch_start(2, 3)
    torch.testing.assert_close(loss(*batch()), CrossEntropyLoss()(*batch()))


def test_epoch_0_is_cross_entropy(measured: ECEWeightedLoss) -> None:
    logits, target = torch.randn(32, 10), torch.randint(10, (32,))
    measured.on_train_epoch_start(0, 350)
    torch.testing.assert_close(measured(logits, target), CrossEntropyLoss()(logits, target))
    measured.on_train_epoch_start(349, 350)
    assert measured(logits, target) < 0.5 * CrossEntropyLoss()(logits, target)

"""Losses made of losses: every moment reaches every part."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import calibench.losses as L
from tests.losses.examples import batch, live

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "MDCALoss": lambda: L.MDCALoss(base=L.FocalLoss(gamma=1.0)),
    "WeightedSum": lambda: L.WeightedSum(
        losses=[L.CrossEntropyLoss(), L.AdaFocalLoss(n_bins=5), L.LogitAdjustedLoss()],
        weights=[1.0, 0.5, -0.1],
    ),
}


class Recorder(L.CalibrationLoss):
    """Notes which moments reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return logits.mean()

    def on_fit_start(self, class_counts: Tensor) -> None:
        self.seen.append(f"fit {class_counts.tolist()}")

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        self.seen.append(f"epoch {epoch}/{total_epochs}")

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        self.seen.append(f"validation {len(target)}")

    def on_train_batch(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        self.seen.append(f"batch {len(target)} to {int(index.max())}")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda part: L.WeightedSum(losses=[L.BrierLoss(), part], weights=[1.0, 2.0]),
        lambda part: L.MDCALoss(base=part),
        lambda part: L.MDCALoss(base=L.WeightedSum(losses=[part], weights=[1.0])),
    ],
    ids=["WeightedSum", "MDCALoss", "nested"],
)
def test_moments_reach_the_parts(wrap: object) -> None:
    part = Recorder()
    whole = live(wrap(part))  # type: ignore[operator]
    counts = "fit [500, 200, 90, 40, 15, 7]"
    assert part.seen == [
        counts,
        "epoch 0/3",
        "validation 200",
        "epoch 1/3",
        *["batch 24 to 23"] * 2,
    ]
    assert whole.remembers_examples
    assert not L.WeightedSum(losses=[L.BrierLoss()], weights=[1.0]).remembers_examples


def test_sum_and_gradient() -> None:
    logits, target = batch()
    parts = [L.BrierLoss(), L.FocalLoss(gamma=2.0)]
    loss = L.WeightedSum(losses=parts, weights=[0.3, -2.0])
    expected = 0.3 * parts[0](logits, target) - 2.0 * parts[1](logits, target)
    torch.testing.assert_close(loss(logits, target), expected)


def test_mdca_and_dca_by_hand() -> None:
    logits = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1]]).log()
    target = torch.tensor([0, 1, 1, 1])
    # mean probabilities .65 and .35 against shares .25 and .75; confidence .75 against accuracy .5
    ce = L.CrossEntropyLoss()(logits, target)
    torch.testing.assert_close(L.MDCALoss(weight=2.0)(logits, target) - ce, torch.tensor(0.8))
    torch.testing.assert_close(L.DCALoss(weight=2.0)(logits, target) - ce, torch.tensor(0.5))


@pytest.mark.parametrize(("losses", "weights"), [([], []), ([L.BrierLoss()], [1.0, 2.0])])
def test_counts_of_losses_and_weights_must_agree(
    losses: list[L.CalibrationLoss], weights: list[float]
) -> None:
    with pytest.raises(ValueError, match="`losses` must hold at least one loss and `weights`"):
        L.WeightedSum(losses=losses, weights=weights)

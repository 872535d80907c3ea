"""Correctness ranking: its history, its pairs, and the numbers of the authors' code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import calibench.losses as L
from calibench.losses.several_labels import LabelLoss
from tests.losses.examples import K, batch, value_and_grad

THEIRS = json.loads(
    (Path(__file__).parent.parent / "reference" / "losses_history.json").read_text()
)["crl"]
CONFIDENCES = {"probability": "softmax", "entropy": "entropy", "margin": "margin"}
EXAMPLES = {
    f"CorrectnessRankingLoss {name}": lambda name=name: L.CorrectnessRankingLoss(confidence=name)
    for name in ("entropy", "margin")
}


def started(**options: object) -> L.CorrectnessRankingLoss:
    loss = L.CorrectnessRankingLoss(**options)  # type: ignore[arg-type]
    loss.on_fit_start(torch.tensor([THEIRS["examples"], 0, 0, 0]))
    return loss


def steps(loss: L.CalibrationLoss, first: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Value and gradient of each step of their training, from a step on."""
    found, epoch = [], THEIRS["steps"][first - 1]["epoch"] if first else -1
    for step in THEIRS["steps"][first:]:
        if step["epoch"] > epoch:
            epoch = step["epoch"]
            loss.on_train_epoch_start(epoch, 4)
        logits = torch.tensor(step["logits"], dtype=torch.float64)
        target = torch.tensor(step["target"])
        loss.on_train_batch(logits, target, torch.tensor(step["index"]))
        found.append(value_and_grad(loss, logits, target))
    return found


@pytest.mark.committed
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_four_epochs_of_the_authors_code(confidence: str) -> None:
    loss = started(confidence=confidence)
    for (value, grad), step in zip(steps(loss), THEIRS["steps"], strict=True):
        expected = step[CONFIDENCES[confidence]]
        assert float(value) == pytest.approx(
            expected["value"], abs=1e-6
        )  # their margins are float32
        np.testing.assert_allclose(grad.numpy(), expected["gradient"], rtol=1e-9, atol=1e-12)
    assert loss.hits.tolist() == THEIRS["counts"]


def test_the_first_epoch_is_cross_entropy_and_later_ones_are_not() -> None:
    plain, terms = L.CrossEntropyLoss(), [0.0] * 4
    for (value, _), step in zip(steps(started()), THEIRS["steps"], strict=True):
        logits = torch.tensor(step["logits"], dtype=torch.float64)
        terms[step["epoch"]] += float(value - plain(logits, torch.tensor(step["target"])))
    assert terms[0] == 0
    assert min(terms[1:]) > 0


def test_a_history_from_a_checkpoint_goes_on_as_the_whole_one() -> None:
    whole = steps(started())
    for cut in (1, 4, 7):  # within an epoch and at its end
        loss = started()
        for step in THEIRS["steps"][:cut]:
            loss.on_train_epoch_start(step["epoch"], 4)
            logits = torch.tensor(step["logits"], dtype=torch.float64)
            loss.on_train_batch(logits, torch.tensor(step["target"]), torch.tensor(step["index"]))
        file = io.BytesIO()
        torch.save(loss.state_dict(), file)
        file.seek(0)
        resumed = started()
        resumed.load_state_dict(torch.load(file, weights_only=True))
        for (value, grad), (expected, expected_grad) in zip(
            steps(resumed, cut), whole[cut:], strict=True
        ):
            assert torch.equal(value, expected)
            assert torch.equal(grad, expected_grad)


def test_a_pair_by_hand_and_its_gradient() -> None:
    loss = L.CorrectnessRankingLoss(weight=2.0)
    loss.on_fit_start(torch.tensor([2, 1]))
    loss.hits[:] = torch.tensor([3, 1, 0])
    loss.on_train_epoch_start(4, 9)
    logits = torch.log(torch.tensor([[0.6, 0.4], [0.2, 0.8]], dtype=torch.float64))
    target = torch.tensor([0, 1])
    loss.on_train_batch(logits, target, torch.tensor([0, 1]))
    # c = 3/4 and 1/4, so that the first should be surer by 1/2, and is less sure by 0.2
    term = loss(logits, target) - L.CrossEntropyLoss()(logits, target)
    assert float(term) == pytest.approx(2 * (0.5 + 0.2))
    assert torch.autograd.gradcheck(loss, (logits.requires_grad_(), target))
    assert loss.hits.tolist() == [4, 2, 0]


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_gradients_of_a_batch_that_was_told(confidence: str) -> None:
    loss, (logits, target) = L.CorrectnessRankingLoss(confidence=confidence), batch(7)
    loss.on_fit_start(torch.full((K,), 2))
    loss.on_train_epoch_start(2, 3)
    loss.hits += torch.arange(12) % 3
    loss.on_train_batch(logits, target, torch.arange(7))
    assert float(loss(logits, target)) > float(L.CrossEntropyLoss()(logits, target))
    assert torch.autograd.gradcheck(loss, (logits.clone().requires_grad_(), target))


def test_several_labels_an_example_are_refused_in_a_line() -> None:
    for loss in (started(), L.WeightedSum(losses=[started()], weights=[1.0])):
        with pytest.raises(ValueError, match="remembers each example's one class"):
            LabelLoss(loss, ["a", "b"])

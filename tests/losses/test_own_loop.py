"""Losses in a loop of one's own: moments, shapes of the field, class weights, reductions, and what they print."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F

import calibench.losses as L

COUNTS = [50, 30, 20]


def logits_and_target(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 3, *shape, generator=generator, requires_grad=True)
    return logits, torch.randint(3, (6, *shape), generator=generator)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 5)])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.5]])
def test_cross_entropy_takes_what_torchs_takes(
    reduction: str, shape: tuple[int, ...], weight: list[float] | None
) -> None:
    """Shapes (N, K, d1, ...), -100, class weights and reductions are torch's, to its numbers and gradients."""
    logits, target = logits_and_target(*shape)
    target.view(-1)[::4] = -100
    given = torch.tensor(weight) if weight else None
    ours = L.CrossEntropyLoss()(
        logits, target.int(), weight=weight, ignore_index=-100, reduction=reduction
    )
    theirs = F.cross_entropy(logits, target, weight=given, ignore_index=-100, reduction=reduction)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(value.sum(), logits)[0] for value in (ours, theirs)]
    torch.testing.assert_close(*gradients)


def test_every_example_left_out_is_no_nan() -> None:
    logits, target = logits_and_target()
    for reduction in ("mean", "sum"):
        value = L.FocalLoss(gamma=2.0)(
            logits, torch.full_like(target, -100), ignore_index=-100, reduction=reduction
        )
        value.backward()
        assert float(value.detach()) == 0
        assert logits.grad is not None
        assert not logits.grad.any()


def test_a_batch_coupled_loss_leaves_examples_out_and_has_no_losses_of_single_ones() -> None:
    logits, target = logits_and_target(4)
    loss = L.GenerativeCrossEntropy()
    rows, classes = logits.movedim(1, -1).reshape(-1, 3), target.reshape(-1)
    torch.testing.assert_close(loss(logits, target), loss(rows, classes))
    target.view(-1)[0] = -100
    torch.testing.assert_close(loss(logits, target, ignore_index=-100), loss(rows[1:], classes[1:]))
    for options in ({"reduction": "none"}, {"weight": [1.0, 1.0, 1.0]}):
        with pytest.raises(ValueError, match="GenerativeCrossEntropy is the loss of a batch"):
            loss(logits, target, ignore_index=-100, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"reduction": "average"}, "`reduction`"),
        ({"weight": [1.0, 2.0]}, "`weight` must hold a factor for each of 3 classes"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        L.CrossEntropyLoss()(*logits_and_target(), **options)  # type: ignore[arg-type]


def test_a_wrong_shape_names_what_is_expected() -> None:
    logits, target = logits_and_target(4)
    with pytest.raises(
        ValueError, match=r"must have shape \(6, 4\) for logits \(6, 3, 4\), got \(6,\)"
    ):
        L.CrossEntropyLoss()(logits, target[:, 0])


NEEDY = {
    "AdaFocalLoss": L.AdaFocalLoss,
    "ECEWeightedLoss": L.ECEWeightedLoss,
    "CorrectnessRankingLoss": L.CorrectnessRankingLoss,
    "schedule": lambda: L.FocalLoss(gamma=5.0, schedule=[(1, 3.0)]),
    "adaptive generative": L.GenerativeFocalLoss,
    "part": lambda: L.MDCALoss(base=L.AdaFocalLoss()),
}


@pytest.mark.parametrize("make", NEEDY.values(), ids=NEEDY)
def test_a_loss_that_needs_moments_warns_once_without_any(make: type[L.CalibrationLoss]) -> None:
    logits, target = logits_and_target()
    loss = make()
    with pytest.warns(UserWarning, match="nothing called it: it stays as it begins") as said:
        losses = [loss(logits, target) for _ in range(2)]
    assert len(said) == 1
    assert losses[0] == losses[1]


@pytest.mark.parametrize("make", NEEDY.values(), ids=NEEDY)
def test_one_that_is_attached_driven_or_only_evaluated_does_not_warn(
    make: type[L.CalibrationLoss],
) -> None:
    logits, target = logits_and_target()
    driven, passed_on = make(), make()
    driven.on_train_epoch_start(0, 3)
    passed_on.on_fit_start(torch.tensor(COUNTS))
    attached = L.attach(make(), class_counts=COUNTS, epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (driven, passed_on, attached, make().eval(), copy.deepcopy(attached)):
            loss(logits, target)
        make()(logits.detach(), target)  # no training step


def test_losses_without_moments_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (L.FocalLoss(gamma=2.0), L.GenerativeFocalLoss(gamma=1.0), L.MMCELoss()):
            loss(*logits_and_target())


def test_attach_asks_for_what_a_loss_needs() -> None:
    with pytest.raises(ValueError, match="LogitAdjustedLoss needs `class_counts`"):
        L.attach(L.LogitAdjustedLoss())
    with pytest.raises(ValueError, match="ECEWeightedLoss needs `epochs`"):
        L.attach(L.ECEWeightedLoss(), class_counts=COUNTS)
    logits, target = logits_and_target()
    adjusted = L.attach(L.LogitAdjustedLoss(), class_counts=COUNTS)
    prior = torch.tensor(COUNTS).double() / sum(COUNTS)
    torch.testing.assert_close(
        adjusted(logits, target), F.cross_entropy(logits + prior.log().float(), target)
    )


def test_epochs_of_a_loop_are_those_of_the_schedule() -> None:
    loss = L.attach(L.FocalLoss(gamma=5.0, schedule=[(1, 3.0), (2, 2.0)]), epochs=3)
    gammas = []
    for number in range(3):
        loss.epoch(number)
        gammas.append(float(loss.gamma))  # type: ignore[arg-type]
    assert gammas == [5.0, 3.0, 2.0]
    with pytest.raises(ValueError, match=r"must lie in \[0, 3\)"):
        loss.epoch(3)
    with pytest.raises(ValueError, match="attach"):
        L.CrossEntropyLoss().epoch(0)


def test_a_loss_prints_its_values() -> None:
    assert repr(L.FocalLoss(gamma=2.0)) == "FocalLoss(gamma=2.0)"
    assert repr(L.WeightedMMCELoss(variant="reference")) == "WeightedMMCELoss(variant='reference')"
    both = L.WeightedSum(losses=[L.CrossEntropyLoss(), L.MDCALoss(weight=1.0)], weights=[1.0, 2.0])
    text = "WeightedSum(losses=[CrossEntropyLoss(), MDCALoss(weight=1.0)], weights=[1.0, 2.0])"
    assert repr(both) == repr(copy.deepcopy(both)) == repr(pickle.loads(pickle.dumps(both))) == text

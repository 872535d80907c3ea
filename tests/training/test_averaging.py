"""Averages are their formulas, and the loss is left out of them (test_parts.py cuts such runs short)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibench.data import DigitsDataModule
from calibench.messages.errors import UsageError
from calibench.training.averaging import EMA, SWA
from tests.training.test_lookahead import Steps, trained


@pytest.mark.slow
def test_the_average_is_its_formula_and_the_loss_is_left_out() -> None:
    steps = Steps()
    plain = trained(Steps(), epochs=3)
    module = trained(steps, EMA(decay=0.9), epochs=3)
    _, average, *states = steps.states  # it begins with the weights after the first step
    for state in states:
        for name, value in state.items():
            old = average[name].double()
            average[name] = 0.9 * old + 0.1 * value if value.is_floating_point() else value
    for name, value in module.backbone.state_dict().items():
        torch.testing.assert_close(value.double(), average[name].double(), rtol=1e-5, atol=1e-6)
    gamma = module.loss.state_dict()
    start = trained(epochs=0).loss.state_dict()
    assert any(not torch.equal(gamma[name], start[name]) for name in gamma)  # AdaFocal's exponents
    assert any(not torch.equal(gamma[name], plain.loss.state_dict()[name]) for name in gamma)


@pytest.mark.slow
def test_the_mean_is_of_the_ends_of_the_last_epochs_and_normalises_by_the_training_images() -> None:
    steps = Steps()
    module = trained(steps, SWA(start=0.5), epochs=4)
    a_epoch = (len(steps.states) - 1) // 4
    ends = [steps.states[a_epoch * epoch] for epoch in (3, 4)]
    network = module.backbone.state_dict()
    for name in (name for name, _ in module.backbone.named_parameters()):
        mean = (ends[0][name].double() + ends[1][name].double()) / 2
        torch.testing.assert_close(network[name].double(), mean, rtol=1e-6, atol=1e-7)
    data = DigitsDataModule(batch_size=128)
    data.setup()
    first = module.backbone.features[0][0]
    with torch.no_grad():
        batches = [first(inputs).transpose(0, 1).flatten(1) for inputs in data.training_inputs()]
    for name, of in (("running_mean", torch.mean), ("running_var", torch.var)):
        expected = torch.stack([of(batch, dim=1) for batch in batches]).mean(0)
        torch.testing.assert_close(network[f"features.0.1.{name}"], expected)


def test_before_the_average_begins_the_network_itself_is_evaluated() -> None:
    averaged, plain = (trained(*parts, epochs=1).backbone for parts in ([SWA(start=0.9)], []))
    for name, value in plain.state_dict().items():
        assert torch.equal(value, averaged.state_dict()[name]), name


def test_what_no_average_can_do_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"EMA and SWA are averages .* choose one"):
        trained(EMA(), SWA())
    monkeypatch.setattr(nn, "SyncBatchNorm", nn.BatchNorm2d)
    with pytest.raises(UsageError, match="SWA does not go with the batch normalisation of several"):
        trained(SWA())

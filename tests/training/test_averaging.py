"""The average is its formula, and the loss is left out of it (test_sharpness.py cuts such a run short)."""

from __future__ import annotations

import torch

from calibench.training.averaging import EMA
from tests.training.test_lookahead import Steps, trained


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

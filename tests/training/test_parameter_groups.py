"""Parameter groups: rules place every parameter once, and weight decay does not depend on the rate."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from calibench.backbones import SpeedNet
from calibench.messages.errors import UsageError
from calibench.training.parameter_groups import ParameterGroups, Rule

SGD = partial(torch.optim.SGD, lr=0.5, momentum=0.9)
BIASES = Rule("*BatchNorm*", "bias", lr_scale=64.0)


def network() -> SpeedNet:
    return SpeedNet(num_classes=4, widths=(8, 8, 8))


def test_the_biases_of_batch_norm_are_a_group_of_their_own() -> None:
    module = network()
    rest, biases = ParameterGroups([BIASES]).optimizer(SGD, module).param_groups
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    assert [id(one) for one in biases["params"]] == [id(norm.bias) for norm in norms]
    assert (rest["lr"], biases["lr"]) == (0.5, 32.0)
    everything = {id(one) for one in module.parameters()}
    placed = [id(one) for group in (rest, biases) for one in group["params"]]
    assert len(placed) == len(everything)
    assert set(placed) == everything


def test_without_rules_the_optimiser_is_the_plain_one() -> None:
    module = network()
    (group,) = ParameterGroups().optimizer(SGD, module).param_groups
    (plain,) = SGD(module.parameters()).param_groups
    assert [id(one) for one in group.pop("params")] == [id(one) for one in plain.pop("params")]
    assert group == plain


def test_a_shared_parameter_is_in_one_group_and_the_first_rule_decides() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.LayerNorm(3))
    module[1].weight = module[0].weight
    rules = [Rule("Linear", "bias", 2.0), Rule("L*", "bias", 3.0)]
    groups = ParameterGroups(rules).optimizer(SGD, module).param_groups
    assert [len(group["params"]) for group in groups] == [2, 2, 1]
    assert [group["lr"] for group in groups] == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("lr", [0.01, 0.5])
def test_weight_decay_shrinks_every_group_alike_whatever_its_rate(lr: float) -> None:
    module = network()
    build = partial(torch.optim.SGD, lr=lr)
    optimizer = ParameterGroups([BIASES], weight_decay=0.1).optimizer(build, module)
    before = [torch.ones_like(one) for one in module.parameters()]
    for one in module.parameters():
        one.data.fill_(1.0)
        one.grad = torch.zeros_like(one)
    optimizer.step()
    for one, old in zip(module.parameters(), before, strict=True):
        torch.testing.assert_close(one.data, 0.9 * old)


def test_a_rule_without_a_parameter_is_refused_with_the_layers_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"`bias` of a layer `LayerNorm`; .* BatchNorm2d, Conv2d, Linear"
    ):
        ParameterGroups([Rule("LayerNorm", "bias")]).optimizer(SGD, network())


def test_two_weight_decays_are_refused() -> None:
    build = partial(torch.optim.SGD, lr=0.1, weight_decay=1e-4)
    with pytest.raises(UsageError, match=r"`model\.optimizer\.weight_decay` to 0"):
        ParameterGroups(weight_decay=0.1).optimizer(build, network())


@pytest.mark.parametrize("value", [-1.0, float("inf")])
def test_values_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="`lr_scale`"):
        Rule("Linear", lr_scale=value)
    with pytest.raises(ValueError, match="`weight_decay`"):
        ParameterGroups(weight_decay=value)

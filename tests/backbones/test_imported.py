"""Any network by import path."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibench.backbones import ImportedBackbone
from calibench.messages.errors import UsageError

OWN = "tests.own_classes"


def test_the_number_of_classes_is_passed_on() -> None:
    network = ImportedBackbone(num_classes=5, name=f"{OWN}.PlainNetwork")
    assert network(torch.randn(2, 3, 8, 8)).shape == (2, 5)
    assert network.draws_in_training


def test_a_head_is_replaced_when_asked() -> None:
    plain = ImportedBackbone(num_classes=5, name=f"{OWN}.tiny_network")
    assert plain(torch.randn(2, 1, 8, 8)).shape == (2, 7)
    replaced = ImportedBackbone(num_classes=5, name=f"{OWN}.tiny_network", replace_head=True)
    assert replaced(torch.randn(2, 1, 8, 8)).shape == (2, 5)


def test_models_of_torchvision_by_path() -> None:
    network = ImportedBackbone(num_classes=5, name="torchvision.models.squeezenet1_1")
    assert network(torch.randn(1, 3, 64, 64)).shape == (1, 5)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        (f"{OWN}.PlainNetwork", {"arguments": {"widht": 3}}, "no argument `widht`; did you mean width"),
        (f"{OWN}.poly_loss", {}, "missing a required argument: 'logits'"),
        ("torch.nn.Flatten", {"replace_head": True}, "has no linear layer to replace"),
        ("torch.nn.Linear", {"replace_head": True, "arguments": {"in_features": 3, "out_features": 2}}, "no linear layer"),
        ("collections.OrderedDict", {}, "gives a OrderedDict; a torch.nn.Module is expected"),
        ("torchvision.models.resnet18", {"arguments": {"weights": "NONE"}}, "`torchvision.models.resnet18` cannot be made"),
    ],
)  # fmt: skip
def test_what_makes_no_network_is_one_line(name: str, more: dict[str, object], said: str) -> None:
    with pytest.raises((UsageError, ValueError), match=said):
        ImportedBackbone(num_classes=5, name=name, **more)  # type: ignore[arg-type]


class Pair(nn.Module):
    """Gives logits and features."""

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return inputs, inputs


def test_more_than_logits_is_refused() -> None:
    with pytest.raises(UsageError, match="gives a tuple; one tensor of logits"):
        ImportedBackbone(num_classes=5, name=f"{__name__}.Pair")(torch.zeros(2, 5))

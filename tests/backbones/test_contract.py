"""What every exported backbone must do."""

from __future__ import annotations

import inspect

import pytest
import torch

from calibench import backbones
from calibench.backbones import Backbone
from tests.deterministic import AsOnADeterministicGpu
from tests.examples import for_each

CLASSES = [
    backbone
    for name in backbones.__all__
    if not inspect.isabstract(backbone := getattr(backbones, name))
]
NEED_FILES = {"HuggingFaceBackbone"}  # tested with a model's folder in its own file
IMAGE = (3, 32, 32)
ARGUMENTS = {
    "DenseNet121": {"pretrained": False},
    "ImportedBackbone": {"name": "tests.own_classes.PlainNetwork", "arguments": {"width": 4}},
    "MLP": {"in_features": 3 * 32 * 32, "hidden": (16,)},
    "SmallCNN": {"in_channels": 3, "width": 8},
    "TimmBackbone": {"name": "test_resnet"},
}


def inputs_for(cls: type[Backbone], n: int = 2) -> torch.Tensor:
    if "vocab_size" in inspect.signature(cls).parameters:
        return torch.randint(1, 100, (n, 30))
    return torch.randn(n, *IMAGE)


def build(cls: type[Backbone]) -> Backbone:
    return cls(num_classes=7, **ARGUMENTS.get(cls.__name__, {}))


# A forward pass takes seconds on one core; named, as to build them for a count of their parameters does too.
BIG = {
    "CIFARResNet50", "CIFARResNet110", "TinyImageNetResNet50", "TinyImageNetResNet110", "WideResNet26x10"
}  # fmt: skip


@pytest.mark.parametrize(
    "cls",
    [
        pytest.param(cls, marks=pytest.mark.slow if cls.__name__ in BIG else ())
        for cls in CLASSES
        if cls.__name__ not in NEED_FILES
    ],
    ids=lambda cls: cls.__name__,
)
def test_backbone(cls: type[Backbone]) -> None:
    network = build(cls)
    assert isinstance(network, Backbone)
    assert network.num_classes == 7
    inputs = inputs_for(cls)
    with AsOnADeterministicGpu():
        logits = network(inputs)
    assert logits.shape == (2, 7)
    logits.square().sum().backward()
    assert all((one.grad is not None) == one.requires_grad for one in network.parameters())
    assert network(inputs[:0]).shape == (0, 7)
    network.eval().requires_grad_(False)
    assert network(inputs[:0]).shape == (0, 7)
    if inputs.ndim != 4:
        return
    last = inputs.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(network(last), network(inputs), rtol=1e-4, atol=1e-4)


@for_each(CLASSES)
def test_arguments_are_keywords_with_types_and_a_source(cls: type[Backbone]) -> None:
    signature = inspect.signature(cls.__init__)
    for name, parameter in list(signature.parameters.items())[1:]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameter.annotation is not inspect.Parameter.empty, name
    first = inspect.getdoc(cls).splitlines()[0]
    assert first.endswith(").")
    assert len(first) <= 95

from __future__ import annotations

import logging

import pytest
import torch
import yaml

from calibench.backbones import TimmBackbone
from calibench.configuration.files import find_configuration_file
from calibench.files import hub
from tests.examples import sampled
from tests.log_records import log_messages

BENCHMARKS = find_configuration_file("fcl_table10", folders=("suites",)).parent.parent


def test_classes_and_channels_reach_timm() -> None:
    network = TimmBackbone(num_classes=5, name="test_resnet", in_channels=1)
    assert network(torch.randn(2, 1, 32, 32)).shape == (2, 5)


def test_cifar_stem_keeps_the_resolution() -> None:
    network = TimmBackbone(num_classes=10, name="resnet18", cifar_stem=True).network
    inputs = torch.randn(1, 3, 32, 32)
    assert network.forward_features(inputs).shape == (1, 512, 4, 4)
    # the well-known CIFAR ResNet-18
    assert sum(p.numel() for p in network.parameters()) == 11_173_962


def test_cifar_stem_of_something_else() -> None:
    with pytest.raises(ValueError, match="`cifar_stem` is for ResNets; timm's `test_vit` has no"):
        TimmBackbone(num_classes=10, name="test_vit", cifar_stem=True)


def test_unknown_name_lists_near_matches() -> None:
    with pytest.raises(ValueError, match=r"timm has no model `resnet1B`; did you mean .*resnet18"):
        TimmBackbone(num_classes=10, name="resnet1B")


def test_unreachable_weights_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    create = timm.create_model

    def offline(name, pretrained=False, **options):
        if pretrained:
            logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s")
            raise OSError("cannot reach the hub\nand much more")
        return create(name, **options)

    monkeypatch.setattr(timm, "create_model", offline)
    monkeypatch.setattr(hub, "reason_offline", lambda: "")
    with (
        log_messages("huggingface_hub.utils") as messages,
        pytest.raises(
            ValueError, match=r"weights of `resnet18` cannot be loaded: cannot reach the hub$"
        ),
    ):
        TimmBackbone(num_classes=10, name="resnet18", pretrained=True)
    assert messages == []  # not a line for each retry


def test_imagenet_stem_on_small_images_warns_once() -> None:
    network = TimmBackbone(num_classes=10, name="resnet18").eval()
    with pytest.warns(
        UserWarning, match=r"`resnet18` reduces 32-pixel images .*`cifar_stem: true`"
    ):
        network(torch.zeros(1, 3, 32, 32))
    network(torch.zeros(1, 3, 32, 32))


def test_resize_lets_a_transformer_run_on_small_images() -> None:
    network = TimmBackbone(num_classes=10, name="test_vit", resize=160)
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_options_reach_timm() -> None:
    network = TimmBackbone(
        num_classes=10, name="test_vit", options={"img_size": 32, "patch_size": 4}
    )
    assert network.network.patch_embed.num_patches == 64
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def transformers() -> dict[str, dict]:
    """The transformers of the FCL paper's Table 10, as the suite names them."""
    suite = yaml.safe_load((BENCHMARKS / "suites" / "fcl_table10.yaml").read_text())
    return {name: entry["init_args"] for name, entry in suite["backbones"].items()}


@pytest.mark.parametrize("name", sampled(transformers(), ["transformer_1"]))
def test_the_transformers_of_the_suite_learn_from_small_images(name: str) -> None:
    network = TimmBackbone(num_classes=10, **transformers()[name])
    inputs, target = torch.randn(2, 3, 32, 32), torch.tensor([0, 1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(network(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert losses[-1] < 0.5 * losses[0]

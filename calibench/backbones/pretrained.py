"""Pretrained networks of timm and transformers, by name, and what their libraries say of one that is not there."""

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.files.hub import cache_if_offline, one_line_errors
from calibench.messages.errors import UsageError, near_matches, pip_install
from calibench.messages.spelling import spell_key
from calibench.tensors.scores import TokenInputs


class HuggingFaceBackbone(Backbone):
    """Any sequence classifier of transformers, by its name or folder (Wolf et al. 2020).

    It needs the extra `text` and a data module whose `tokenizer_file` is the model's own `tokenizer.json`, as it is
    of a pretrained model unless the configuration says another. Inputs are as data modules of texts make
    them: 0 is padding, in front, and the model's token t is t + 1. The model sees each text from
    position 0 on, with its own padding behind and an attention mask.

    Args:
        num_classes: Number of logits; a pretrained classification head of another size is replaced.
        name: Name on the hub, or a local folder with a `config.json`.
        pretrained: Load the pretrained weights (from the folder, the cache, or downloaded); False
            draws them at random and needs the configuration only.
        options: Entries of the model's configuration that are set to something else.

    A model that brings its own code is refused: a name in a configuration must not run what a stranger wrote.

    Raises:
        ValueError: `transformers` is missing, there is no such model, or it needs code of its own.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        name: str,
        pretrained: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.pretrained = num_classes, pretrained
        self.network = _sequence_classifier(
            name, pretrained, {**(options or {}), "num_labels": num_classes}
        )
        self.padding = int(getattr(self.network.config, "pad_token_id", None) or 0)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of token numbers (N, L)."""
        if not len(inputs):  # reshapes inside models refuse no rows
            anchor: Tensor = next(self.network.parameters())
            return anchor.new_zeros(0, self.num_classes)
        tokens, mask = self._left_aligned(inputs)
        logits: Tensor = self.network(input_ids=tokens, attention_mask=mask).logits
        return logits

    @staticmethod
    def tokenizer_of(name: str, pretrained: bool = True) -> str | None:
        """The `tokenizer_file` of a model by its name or folder; None where it has no tokens of its own, or no file."""
        if not Path(name).is_dir():
            return f"hf:{name}" if pretrained else None
        file = Path(name) / "tokenizer.json"
        return str(file) if pretrained and file.is_file() else None

    def on_tokens(self, tokens: TokenInputs) -> None:
        """Check that the data module's tokens are the model's own; raises a UsageError if they are not."""
        config: Any = self.network.config
        if self.pretrained and tokens.are_words:
            raise UsageError(
                "texts are cut into words, but a pretrained model needs its own tokens: its tokenizer.json as "
                f"`data.tokenizer_file`, or {spell_key('model.backbone.pretrained', False)}."
            )
        vocab_size = int(config.vocab_size)
        if tokens.vocab_size - 1 > vocab_size:
            raise UsageError(
                f"the data module has {tokens.vocab_size - 1} tokens, the model knows {vocab_size}: "
                "`tokenizer_file` must be the model's own tokenizer.json."
            )

    def _left_aligned(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The model's tokens (N, L) from position 0 on, and which of them count."""
        order = (inputs == 0).long().argsort(dim=1, stable=True)
        aligned = inputs.gather(1, order)
        mask = aligned > 0
        return torch.where(mask, aligned - 1, self.padding), mask.long()


def _sequence_classifier(name: str, pretrained: bool, options: Mapping[str, Any]) -> nn.Module:
    try:
        from transformers import AutoConfig, AutoModelForSequenceClassification
    except ImportError:
        raise ValueError(
            f"`HuggingFaceBackbone` needs transformers: {pip_install('text')}."
        ) from None
    if "trust_remote_code" in options:
        raise ValueError(
            "`options` must not hold trust_remote_code: only transformers' own models are run."
        )
    kind: Any = AutoModelForSequenceClassification
    hub_access = nullcontext() if Path(name).is_dir() else cache_if_offline()
    with one_line_errors(f"the model `{name}` cannot be had", OSError, ValueError), hub_access:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **options)
        if not pretrained:
            return kind.from_config(config, trust_remote_code=False)  # type: ignore[no-any-return]
        network, loaded = kind.from_pretrained(
            name, config=config, ignore_mismatched_sizes=True, trust_remote_code=False, output_loading_info=True
        )  # fmt: skip
    prefix = f"{network.base_model_prefix}."  # of what lies below the classification head
    if below := sorted(key for key in loaded["missing_keys"] if key.startswith(prefix)):
        warnings.warn(
            f"`{name}` has no weights of {', '.join(below[:3])}{', ...' * (len(below) > 3)}: they start at random.",
            stacklevel=2,
        )
    return network  # type: ignore[no-any-return]


_SMALL = 64  # pixels; below, a stem that reduces fourfold leaves a ResNet next to nothing


class TimmBackbone(Backbone):
    """Any image model of timm, by its name (Wightman 2019, timm).

    Args:
        num_classes: Number of logits; a pretrained classifier is replaced.
        name: timm's name of the model, `resnet18` for instance.
        pretrained: Load timm's pretrained weights (from its cache, or downloaded).
        cifar_stem: Replace a ResNet's 7x7 stride-2 stem and max pooling by a 3x3 stride-1
            convolution, for 32x32 images.
        in_channels: Channels of the images.
        resize: Side in pixels to which images are resized (bilinear) before the model; None for
            no resizing. A vision transformer of 224 pixels runs on CIFAR with 224.
        options: Further arguments of `timm.create_model`; `{img_size: 32, patch_size: 4}` makes a
            vision transformer for 32x32 images.

    Raises:
        ValueError: timm has no such model, its weights cannot be loaded, or `cifar_stem` is asked
            of a model without a ResNet's stem.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        name: str,
        pretrained: bool = False,
        cifar_stem: bool = False,
        in_channels: int = 3,
        resize: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.name, self.resize = num_classes, name, resize
        self.network = _image_model(
            name, pretrained, num_classes=num_classes, in_chans=in_channels, **(options or {})
        )
        if cifar_stem:
            _use_cifar_stem(self.network, name)
        self._warn_if_small = _has_imagenet_stem(self.network)
        config: Any = getattr(self.network, "pretrained_cfg", {})
        self.is_trained = pretrained and config.get("num_classes") == num_classes

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        if self.resize is not None:
            size = (self.resize, self.resize)
            inputs = F.interpolate(inputs, size, mode="bilinear", antialias=True)
        if self._warn_if_small and inputs.shape[-1] < _SMALL:
            self._warn_if_small = False
            warnings.warn(
                f"`{self.name}` reduces {inputs.shape[-1]}-pixel images fourfold in its ImageNet "
                "stem; `cifar_stem: true` keeps their resolution.",
                stacklevel=2,
            )
        logits: Tensor = self.network(inputs)
        return logits


def _image_model(name: str, pretrained: bool, **options: Any) -> nn.Module:
    import timm  # seconds, and only this backbone needs it

    if not timm.is_model(name.split(".")[0]):
        raise ValueError(f"timm has no model `{name}`{near_matches(name, timm.list_models())}.")
    # The hub client's errors differ by version and by what is missing: network, file, rights.
    errors = (Exception,) if pretrained else ()
    hub_access = cache_if_offline() if pretrained else nullcontext()
    with (
        one_line_errors(f"the pretrained weights of `{name}` cannot be loaded", *errors),
        hub_access,
    ):
        network: nn.Module = timm.create_model(name, pretrained=pretrained, **options)
    return network


def _has_imagenet_stem(network: nn.Module) -> bool:
    stem, pool = getattr(network, "conv1", None), getattr(network, "maxpool", None)
    return isinstance(stem, nn.Conv2d) and isinstance(pool, nn.MaxPool2d)


def _use_cifar_stem(network: nn.Module, name: str) -> None:
    stem = getattr(network, "conv1", None)
    if not isinstance(stem, nn.Conv2d) or not hasattr(network, "maxpool"):
        raise ValueError(f"`cifar_stem` is for ResNets; timm's `{name}` has no such stem.")
    conv1 = nn.Conv2d(stem.in_channels, stem.out_channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv1.weight, mode="fan_out", nonlinearity="relu")
    network.conv1, network.maxpool = conv1, nn.Identity()

"""Any sequence classifier of Hugging Face's transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.backbones.hub import one_line_of, without_retries
from calibench.ground.errors import UsageError
from calibench.ground.extras import pip_install
from calibench.ground.tokens import TokenInputs


class HuggingFaceBackbone(Backbone):
    """Any sequence classifier of transformers, by its name or folder (Wolf et al. 2020).

    It needs the extra `text` and a data module whose
    `tokenizer_file` is the model's own `tokenizer.json`. Inputs are as data modules of texts make
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
        self.num_classes = num_classes
        self.network = _create(name, pretrained, {**(options or {}), "num_labels": num_classes})
        self.padding = int(getattr(self.network.config, "pad_token_id", None) or 0)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of token numbers (N, L)."""
        if not len(inputs):  # reshapes inside models refuse no rows
            anchor: Tensor = next(self.network.parameters())
            return anchor.new_zeros(0, self.num_classes)
        tokens, mask = self._left_aligned(inputs)
        logits: Tensor = self.network(input_ids=tokens, attention_mask=mask).logits
        return logits

    def on_tokens(self, tokens: TokenInputs) -> None:
        """Check that the model has every token of the data module.

        Raises:
            UsageError: It has not.
        """
        config: Any = self.network.config
        known = int(config.vocab_size)
        if tokens.vocab_size - 1 > known:
            raise UsageError(
                f"the data module has {tokens.vocab_size - 1} tokens, the model knows {known}: "
                "`tokenizer_file` must be the model's own tokenizer.json."
            )

    def _left_aligned(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The model's tokens (N, L) from position 0 on, and which of them count."""
        order = (inputs == 0).long().argsort(dim=1, stable=True)
        aligned = inputs.gather(1, order)
        mask = aligned > 0
        return torch.where(mask, aligned - 1, self.padding), mask.long()


def _create(name: str, pretrained: bool, options: Mapping[str, Any]) -> nn.Module:
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
    here = nullcontext() if Path(name).is_dir() else without_retries()
    with one_line_of(f"the model `{name}` cannot be had", OSError, ValueError), here:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **options)
        if not pretrained:
            return kind.from_config(config, trust_remote_code=False)  # type: ignore[no-any-return]
        network, loaded = kind.from_pretrained(
            name,
            config=config,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    _warn_of_missing_weights(name, network, loaded["missing_keys"])
    return network  # type: ignore[no-any-return]


def _warn_of_missing_weights(name: str, network: Any, missing: Iterable[str]) -> None:
    """Warn of weights below the classification head that the pretrained model does not have."""
    below = sorted(key for key in missing if key.startswith(f"{network.base_model_prefix}."))
    if below:
        warnings.warn(
            f"`{name}` has no weights of {', '.join(below[:3])}{', ...' * (len(below) > 3)}: they start at random.",
            stacklevel=2,
        )

"""What goes into the last linear layer of any network, and comes out of it: its features and its logits."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn

from calibench.data import Batch
from calibench.ground.errors import UsageError


class LastLayerOutputs(NamedTuple):
    """Input (n, D) and output (n, K) of the last linear layer on a batch, the classes, and whether it has a bias."""

    features: Tensor
    logits: Tensor
    target: Tensor
    bias: bool


def outputs_of(
    network: nn.Module, batches: Iterable[Batch], *, scaled: bool = False
) -> Iterator[LastLayerOutputs]:
    """Features and logits of each batch, of a network whose rows do not depend on each other, without gradient.

    With `scaled` the logits may also be a multiple of the layer's output.

    Raises:
        UsageError: If the logits are not the output of a linear layer.
    """
    seen: list[tuple[nn.Linear, Tensor]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(layer, nn.Linear) and inputs[0].dim() == 2:
            seen.append((layer, inputs[0]))

    network.eval()
    with torch.no_grad(), ExitStack() as hooks:
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                hooks.enter_context(layer.register_forward_pre_hook(note))
        for batch in batches:
            seen.clear()
            logits = network(batch.inputs)
            last = (entry for entry in reversed(seen) if entry[0].out_features == logits.shape[1])
            end, features = next(last, (None, logits))
            if end is None or not _is_output(end(features), logits, scaled=scaled):
                name = type(network).__name__
                raise UsageError(f"{name} does not end in a linear layer (torch.nn.Linear).")
            yield LastLayerOutputs(features, logits, batch.target, end.bias is not None)


def _is_output(output: Tensor, logits: Tensor, *, scaled: bool) -> bool:
    if torch.equal(output, logits) or not scaled:
        return torch.equal(output, logits)
    factor = (output * logits).sum() / output.square().sum()
    return torch.allclose(factor * output, logits, rtol=1e-4, atol=1e-6)

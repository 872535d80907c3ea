"""Features of a network: the inputs of its last linear layer, recorded by a hook."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn

from calibench.data import Batch
from calibench.messages.errors import UsageError


class LastLayerOutputs(NamedTuple):
    """Input (n, D) and output (n, K) of the last linear layer on a batch, the classes, and whether it has a bias."""

    features: Tensor
    logits: Tensor
    target: Tensor
    bias: bool


def iterate_last_layer(
    network: nn.Module, batches: Iterable[Batch], *, scaled: bool = False
) -> Iterator[LastLayerOutputs]:
    """Yield features and logits of each batch, without gradient, of a network whose rows do not depend on each other.

    Args:
        network: The network, which is set to evaluation mode.
        batches: Its inputs.
        scaled: Whether logits may be a multiple of the last layer's output.

    Raises:
        UsageError: If the logits are not the output of a linear layer.
    """
    calls: list[tuple[nn.Linear, Tensor]] = []

    def record(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(layer, nn.Linear) and inputs[0].dim() == 2:
            calls.append((layer, inputs[0]))

    network.eval()
    with torch.no_grad(), ExitStack() as hooks:
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                hooks.enter_context(layer.register_forward_pre_hook(record))
        for batch in batches:
            calls.clear()
            logits = network(batch.inputs)
            last = (call for call in reversed(calls) if call[0].out_features == logits.shape[1])
            end, features = next(last, (None, logits))
            if end is None or not _is_output(end(features), logits, scaled=scaled):
                name = type(network).__name__
                raise UsageError(f"{name} does not end in a linear layer (torch.nn.Linear).")
            yield LastLayerOutputs(features, logits, batch.target, end.bias is not None)


def _is_output(output: Tensor, logits: Tensor, *, scaled: bool) -> bool:
    if torch.equal(output, logits):
        return True
    if not scaled:
        return False
    factor = (output * logits).sum() / output.square().sum()
    return torch.allclose(factor * output, logits, rtol=1e-4, atol=1e-6)

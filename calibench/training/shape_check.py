"""Check before training: two examples go through network and loss, and what does not fit is one line."""

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn

from calibench.backbones import Backbone
from calibench.backbones.spellings import list_networks
from calibench.data import ClassificationDataModule
from calibench.losses import CalibrationLoss
from calibench.losses.imported import check_targets_are_indices
from calibench.losses.several_labels import LabelLoss
from calibench.messages.errors import ExpectedFailure, UsageError, one_line
from calibench.messages.spelling import spell_key, spell_traceback_hint
from calibench.tensors.scores import holds_probabilities
from calibench.training.module import ClassificationModule

SAMPLE_ROWS = 2


# What a kind of layer wants of its inputs: where it keeps the size, what is counted, that of given inputs, and what
# networks call it among their arguments.
_SIZES: dict[type[nn.Module], tuple[str, str, Callable[[Tensor], int], tuple[str, ...]]] = {
    nn.Conv2d: ("in_channels", "channels", lambda x: x.shape[-3], ("in_channels", "in_chans")),
    nn.Conv1d: ("in_channels", "channels", lambda x: x.shape[-2], ("in_channels", "embedding_dim")),
    nn.Linear: ("in_features", "numbers", lambda x: x.shape[-1], ("in_features",)),
    nn.Embedding: (
        "num_embeddings", "token numbers", lambda x: int(x.max()) + 1, ("vocab_size", "num_embeddings"),
    ),
}  # fmt: skip


@dataclass
class _LayerRecord:
    """Record of the layers that were called: the last one, a size that does not fit it, how many layers have a size."""

    layer: str = ""
    unfit: tuple[str, int, tuple[str, ...]] | None = None  # (takes, gets, names of arguments)
    sized: int = 0

    def note(self, path: str, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Note a layer before it is called."""
        self.layer, self.unfit = path, None
        kind = next((kind for kind in _SIZES if isinstance(layer, kind)), None)
        if kind is None or not inputs or not isinstance(inputs[0], Tensor) or inputs[0].ndim < 2:
            return
        self.sized += 1
        attribute, unit, size_of, options = _SIZES[kind]
        expected, got = int(getattr(layer, attribute)), size_of(inputs[0])
        if kind is nn.Embedding and got <= expected:  # a larger one takes them too
            return
        if got != expected:
            self.unfit = f"{expected} {unit}", got, options
        if self.unfit and kind is nn.Embedding:  # on a GPU such an index ends the process
            raise IndexError(path)


@contextmanager
def _watch_layers(network: nn.Module) -> Iterator[_LayerRecord]:
    """Note which layers of a network are called while inside."""
    record = _LayerRecord()
    with ExitStack() as hooks:
        for path, part in network.named_modules():
            if not any(part.children()):
                hooks.enter_context(part.register_forward_pre_hook(partial(record.note, path)))
        yield record


class ShapeCheck(Callback):
    """Sends two validation examples through the network, right before training and on the device.

    Nothing of the run changes by it: the network is in evaluation mode meanwhile, and random states are put back.
    """

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check; raises a UsageError if the network does not take the examples, or gives no logits of the classes."""
        module = cast(ClassificationModule, pl_module)
        data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
        precision = trainer.precision_plugin
        with isolate_rng(), evaluation_mode(module.backbone), precision.forward_context():
            inputs = data.first_inputs(SAMPLE_ROWS)
            if data.tokens is not None:  # one of them is the highest that there is
                inputs = inputs.clone()
                inputs[:, -1:] = data.tokens.vocab_size - 1
            inputs = precision.convert_input(inputs)
            with module.uncompiled():
                check_network_shapes(module.evaluated, module.backbone, inputs, data)
        with isolate_rng():
            loss = module.loss.losses[0] if isinstance(module.loss, LabelLoss) else module.loss
            check_gradient(cast(CalibrationLoss, loss), data.num_classes, trainer.max_epochs or 1)


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode while inside, and each of its parts back into its own mode."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def check_network_shapes(
    forward: Callable[[Tensor], Tensor],
    backbone: Backbone,
    inputs: Tensor,
    data: ClassificationDataModule,
) -> None:
    """Check that a network, which `forward` calls, takes inputs of `data` and gives logits of the classes.

    A UsageError names both sides otherwise, and the option to change where there is one.
    """
    with _watch_layers(backbone) as layers, torch.no_grad():
        try:
            logits = forward(inputs)
        except Exception as error:  # whatever a network raises that does not take its inputs
            sides = f"{data.title()} gives inputs {tuple(inputs.shape[1:])}, {backbone.title()}"
            raise UsageError(
                f"{sides} {_describe_remedy(layers, error, backbone, data)}"
            ) from error
    if tuple(logits.shape) != (len(inputs), data.num_outputs):
        shape = tuple(logits.shape[1:])
        width = str(shape[0]) if len(shape) == 1 else f"an array {shape} of"
        remedy = "it must give `num_classes` logits"
        if "replace_head" in inspect.signature(type(backbone)).parameters:
            key = spell_key("model.backbone.replace_head", True)
            remedy = f"{key} replaces its last linear layer"
        raise UsageError(
            f"{backbone.title()} gives {width} logits for an example, {data.title()} has "
            f"{data.num_outputs} {data.task.what}: {remedy}."
        )
    if holds_probabilities(logits):
        raise UsageError(
            f"{backbone.title()} gives probabilities, every row lies in [0, 1] and sums to 1; it must give logits: "
            "leave out its softmax."
        )
    if last := _squashing_end(backbone, inputs):
        raise UsageError(
            f"{backbone.title()} gives probabilities, it ends in a {last}; it must give logits: leave out its {last}."
        )


# Operations of autograd that keep the values of their input.
_KEEPING = re.compile(
    r"(ToCopy|View|UnsafeView|Reshape\w*|Alias|Squeeze|Unsqueeze|Clone|Transpose)Backward\d*"
)
_SQUASHING = {"SigmoidBackward0": "sigmoid", "SoftmaxBackward0": "softmax"}


def _squashing_end(backbone: Backbone, inputs: Tensor) -> str:
    """The `sigmoid` or `softmax` that a network ends in; empty where it ends otherwise, or without a gradient."""
    with torch.enable_grad():
        try:
            node = backbone(inputs).grad_fn
        except Exception:  # what gave logits without a gradient may not do with one
            return ""
    while node is not None and _KEEPING.fullmatch(node.name()):
        node = node.next_functions[0][0]
    return "" if node is None else _SQUASHING.get(node.name(), "")


def check_gradient(loss: CalibrationLoss, num_classes: int, epochs: int) -> None:
    """Check that the value of a loss depends on the logits by torch's operations, on a copy of it."""
    logits = torch.randn(num_classes, num_classes, requires_grad=True)
    check_targets_are_indices(loss, num_classes)
    try:
        tried = copy.deepcopy(loss).cpu()
        tried.on_train_epoch_start(0, epochs)
        value = tried(logits, torch.arange(num_classes))
    except Exception:  # whatever a user's loss raises: training says it, and of real logits
        return
    if not value.requires_grad or torch.autograd.grad(value, logits, allow_unused=True)[0] is None:
        raise UsageError(
            "`model.loss` gives a value that has no gradient, so that nothing would be learnt: "
            "`.detach()`, `.item()`, `argmax` or numpy is on the way from the logits to it."
        )


def _describe_remedy(
    layers: _LayerRecord, error: Exception, backbone: Backbone, data: ClassificationDataModule
) -> str:
    """Sentence that says which inputs the network takes instead, and which option to change."""
    reason = one_line(error)
    if isinstance(error, UsageError | ExpectedFailure):  # the network says it itself
        return f"refuses them: {reason}"
    if layers.unfit is None:
        failure = f"fails in its layer `{layers.layer}`" if layers.layer else "fails"
        return f"{failure}: {reason[:200]}{spell_traceback_hint()}"
    expected, got, options = layers.unfit
    if layers.sized == 1:
        settable = [name for name in options if name in backbone.argument_names()]
        other = _describe_other_network(backbone, options, got)
        remedy = spell_key(f"model.backbone.{settable[0]}", got) if settable else other
        return f"takes {expected}, not {got}: {remedy}."
    side = ", see `data.side`" if "side" in inspect.signature(type(data)).parameters else ""
    return (
        f"takes others: its layer `{layers.layer}` takes {expected} and gets {got}; "
        f"it is made for inputs of another size{side}."
    )


def _describe_other_network(backbone: Backbone, options: Sequence[str], count: int) -> str:
    """The network of timm that has an argument for the channels, where one of torchvision has none."""
    module, _, name = backbone.title().rpartition(".")
    if module != "torchvision.models" or "in_channels" not in options:
        return "no argument of it is known to set that, see its own documentation"
    if name not in list_networks("timm"):
        return "no argument of it sets that; networks of timm have one, `in_channels`"
    network = spell_key("model.backbone", f"timm:{name}")
    return f"timm's {name} takes any number, {network} with {spell_key('model.backbone.in_channels', count)}"

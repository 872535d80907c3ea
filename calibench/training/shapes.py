"""Check before training: two examples go through network and loss, and what does not fit is one line."""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from calibench.backbones import Backbone
from calibench.data import ClassificationDataModule
from calibench.ground.errors import ExpectedFailure, UsageError
from calibench.ground.tensors import are_probabilities
from calibench.losses import CalibrationLoss
from calibench.losses.base import LabelLoss
from calibench.training.module import ClassificationModule

ROWS = 2


class _Size(NamedTuple):
    """A size that a kind of layer wants of its inputs.

    Attributes:
        kinds: Classes of layers.
        attribute: Where a layer keeps it.
        unit: What is counted.
        of: The size of given inputs.
        options: What networks call it among their arguments.
        at_least: Whether a larger layer takes the inputs too.
    """

    kinds: tuple[type[nn.Module], ...]
    attribute: str
    unit: str
    of: Callable[[Tensor], int]
    options: tuple[str, ...]
    at_least: bool = False


_SIZES = (
    _Size((nn.Conv2d,), "in_channels", "channels", lambda x: x.shape[-3], ("in_channels", "in_chans")),
    _Size((nn.Conv1d,), "in_channels", "channels", lambda x: x.shape[-2], ("in_channels", "embedding_dim")),
    _Size((nn.Linear,), "in_features", "numbers", lambda x: x.shape[-1], ("in_features",)),
    _Size(
        (nn.Embedding,), "num_embeddings", "token numbers", lambda x: int(x.max()) + 1,
        ("vocab_size", "num_embeddings"), at_least=True,
    ),
)  # fmt: skip


class _Unfit(NamedTuple):
    """A layer that is given another size than it takes, and whether it is the first one that has a size."""

    size: _Size
    wanted: int
    got: int
    path: str
    first: bool


class _Watch:
    """Notes, while inside, which layers of a network are called, and whether the last one is given what it takes.

    Attributes:
        called: Names of the layers, in their order.
        unfit: What does not fit the last layer that has a size; None where all fits.
    """

    def __init__(self, network: nn.Module) -> None:
        self.called: list[str] = []
        self.unfit: _Unfit | None = None
        self._layers = {
            path: part for path, part in network.named_modules() if not any(part.children())
        }
        self._hooks: list[RemovableHandle] = []
        self._sized = 0

    def __enter__(self) -> None:
        for path, part in self._layers.items():
            self._hooks.append(part.register_forward_pre_hook(partial(self._note, path)))

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _note(self, path: str, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.called.append(path)
        self.unfit = None
        size = next((size for size in _SIZES if isinstance(layer, size.kinds)), None)
        if size is None or not inputs or not isinstance(inputs[0], Tensor) or inputs[0].ndim < 2:
            return
        self._sized += 1
        wanted, got = int(getattr(layer, size.attribute)), size.of(inputs[0])
        if got > wanted or (got < wanted and not size.at_least):
            self.unfit = _Unfit(size, wanted, got, path, self._sized == 1)
        if self.unfit and size.at_least:  # on a GPU an index that is too large ends the process
            raise IndexError(path)


class ShapeCheck(Callback):
    """Sends two validation examples through the network, right before training and on the device.

    Nothing of the run changes by it: the network is in evaluation mode meanwhile, and random states are put back.
    """

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check; raises a UsageError if the network does not take the examples, or gives no logits of the classes."""
        module = cast(ClassificationModule, pl_module)
        data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
        precision = trainer.precision_plugin
        with isolate_rng(), evaluating(module.backbone), precision.forward_context():
            inputs = precision.convert_input(_first_inputs(data))
            check_shapes(module.evaluated, module.backbone, inputs, data)
        with isolate_rng():
            loss = module.loss.losses[0] if isinstance(module.loss, LabelLoss) else module.loss
            check_gradient(cast(CalibrationLoss, loss), data.num_classes, trainer.max_epochs or 1)


def _first_inputs(data: ClassificationDataModule) -> Tensor:
    """Two validation inputs; of token numbers, one is the highest that there is."""
    inputs = data.first_inputs(ROWS)
    if data.tokens is not None:
        inputs = inputs.clone()
        inputs[:, -1:] = data.tokens.vocab_size - 1
    return inputs


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode while inside, and each of its parts back into its own mode."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def check_shapes(
    forward: Callable[[Tensor], Tensor],
    backbone: Backbone,
    inputs: Tensor,
    data: ClassificationDataModule,
) -> None:
    """Check that a network, which `forward` calls, takes inputs of `data` and gives logits of the classes.

    Raises:
        UsageError: If not; it names both sides, and the option to change where there is one.
    """
    watch = _Watch(backbone)
    try:
        with watch, torch.no_grad():
            logits = forward(inputs)
    except Exception as error:  # whatever a network raises that does not take its inputs
        sides = f"{data.title()} gives inputs {tuple(inputs.shape[1:])}, {backbone.title()}"
        raise UsageError(f"{sides} {_said(watch, error, backbone, data)}") from error
    if tuple(logits.shape) != (len(inputs), data.num_outputs):
        shape = tuple(logits.shape[1:])
        given = str(shape[0]) if len(shape) == 1 else f"an array {shape} of"
        remedy = "it must give `num_classes` logits"
        if "replace_head" in inspect.signature(type(backbone)).parameters:
            remedy = "`--model.backbone.replace_head true` replaces its last linear layer"
        raise UsageError(
            f"{backbone.title()} gives {given} logits for an example, {data.title()} has "
            f"{data.num_outputs} {data.task.what}: {remedy}."
        )
    if are_probabilities(logits):
        raise UsageError(
            f"{backbone.title()} gives probabilities, every row lies in [0, 1] and sums to 1; it must give logits: "
            "leave out its softmax."
        )


def check_gradient(loss: CalibrationLoss, num_classes: int, epochs: int) -> None:
    """Check that the value of a loss depends on the logits by torch's operations, on a copy of it."""
    logits = torch.randn(num_classes, num_classes, requires_grad=True)
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


def _said(
    watch: _Watch, error: Exception, backbone: Backbone, data: ClassificationDataModule
) -> str:
    """What the network takes instead, and what to do."""
    unfit, reason = watch.unfit, " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UsageError | ExpectedFailure):  # the network says it itself
        return f"refuses them: {reason}"
    if unfit is None:
        where = f"fails in its layer `{watch.called[-1]}`" if watch.called else "fails"
        return f"{where}: {reason[:200]} (--debug shows where)"
    size, wanted, got = unfit.size, unfit.wanted, unfit.got
    known = [name for name in size.options if name in backbone.argument_names()]
    if unfit.first:
        other = "no argument of it is known to set that, see its own documentation"
        remedy = f"`--model.backbone.{known[0]} {got}`" if known else other
        return f"takes {wanted} {size.unit}, not {got}: {remedy}."
    remedy = "it is made for inputs of another size"
    if "side" in inspect.signature(type(data)).parameters:
        remedy += ", see `--data.side`"
    return f"takes others: its layer `{unfit.path}` takes {wanted} {size.unit} and gets {got}; {remedy}."

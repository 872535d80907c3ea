"""Logits and labels of a network over a loader: `calibench.collect(model, loader)`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from calibench.messages.progress import with_progress
from calibench.predictions.files import Arrays

if TYPE_CHECKING:
    from torch import Tensor, nn

    from calibench.verbs.python_types import Loader

_LABEL_NAMES = ("labels", "label", "targets", "target", "y")
"""Names of the labels in a batch that is a mapping."""
_LOOKED_AT = 4  # examples that are read twice, to notice an augmentation


class Collected(NamedTuple):
    """Logits (N, K) or (N, L), float32, and labels (N,) or (N, L), int64, on the CPU, in the order of the loader."""

    logits: Tensor
    labels: Tensor


def collect(model: nn.Module, loader: Loader, *, progress: bool = True) -> Collected:
    """Collect the logits of a network, and the labels, over a loader.

    The network runs in eval mode, without gradients, on its device; afterwards each module is in its former mode. The
    result can be unpacked: `calibench.evaluate(*collect(model, loader))`.

    Args:
        model: A network whose output is logits: a tensor (N, K), or an object or mapping with `logits`.
        loader: Batches `(inputs, labels)` (further parts are ignored), or mappings with `labels`, `label`, `targets`,
            `target` or `y`, whose other entries are keyword arguments of the network.
        progress: Show a bar on a terminal.

    Returns:
        The logits and the labels, as tensors on the CPU.

    Raises:
        ValueError: If the loader drops examples or draws them with replacement, is empty, its batches have no labels,
            or the network does not return a row of logits for each example.

    Warns:
        UserWarning: If the loader shuffles (members of an ensemble would not match), or its data set returns
            another version of an example each time, as an augmentation does.

    Examples:
        >>> import torch, calibench
        >>> inputs, labels = torch.eye(3), torch.tensor([0, 1, 1])
        >>> data = torch.utils.data.TensorDataset(inputs, labels)
        >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
        >>> logits, labels = calibench.collect(torch.nn.Identity(), loader)
        >>> logits.shape, labels.tolist()
        (torch.Size([3, 3]), [0, 1, 1])
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
    if not hasattr(loader, "__iter__"):
        raise TypeError(
            f"`loader` must give batches, got {type(loader).__name__}: `torch.utils.data.DataLoader(dataset, "
            "batch_size=128)` gives those of a data set."
        )
    _check_loader(loader)
    device = next((part.device for part in (*model.parameters(), *model.buffers())), None)
    logits: list[Tensor] = []
    labels: list[Tensor] = []
    with _evaluating(model), torch.inference_mode():
        batches = len(loader) if isinstance(loader, Sized) else 0
        for batch in with_progress(loader, batches if progress else 0, "predicting"):
            args, named, target = _split_batch(batch)
            output = _to_device(args, device), _to_device(named, device)
            rows = _logits_of(model(*output[0], **output[1]))
            if rows.ndim != 2 or len(rows) != len(target):
                raise ValueError(
                    f"`model` must give logits (N, K) for {len(target)} examples, got {tuple(rows.shape)}."
                )
            logits.append(rows.float().cpu())
            labels.append(target.cpu())
    if not logits:
        raise ValueError("`loader` gives no batches.")
    # copies: tensors of inference mode cannot be used where gradients are
    return Collected(torch.cat(logits).clone(), torch.cat(labels).long().clone())


def collect_source(model: Any, loader: Any, name: str) -> Arrays:
    """Logits and labels of a network over a loader, whose rows belong together, as a set by a name."""
    return Arrays(*collect(model, loader), f"`{name}`", are_in_order=True)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _split_batch(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
    """Positional and keyword arguments of the network, and the labels, of a batch."""
    import torch

    if isinstance(batch, Mapping):
        name = next((name for name in _LABEL_NAMES if name in batch), None)
        if name is None:
            raise ValueError(
                f"a batch has {', '.join(map(repr, batch))}, and labels are expected: {', '.join(_LABEL_NAMES)}."
            )
        inputs = {str(key): value for key, value in batch.items() if key != name}
        return (), inputs, torch.as_tensor(batch[name])
    if not isinstance(batch, Sequence) or len(batch) < 2:
        raise ValueError(f"a batch must be `(inputs, labels)`, got a {type(batch).__name__}.")
    return (batch[0],), {}, torch.as_tensor(batch[1])


def _to_device(value: Any, device: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value if device is None else value.to(device)
    if isinstance(value, Mapping):
        return {key: _to_device(part, device) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_to_device(part, device) for part in value)
    return value


def _logits_of(output: Any) -> Tensor:
    import torch

    logits = (
        output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    )
    if not isinstance(logits, torch.Tensor):
        raise ValueError(
            f"`model` must give a tensor of logits, or `logits`, got a {type(output).__name__}."
        )
    return logits


def _check_loader(loader: Any) -> None:
    """Refuse a loader that leaves examples out or repeats them; warn of one that shuffles or augments."""
    from torch.utils import data

    if not isinstance(loader, data.DataLoader):
        return
    dataset, size = loader.dataset, loader.batch_size
    if loader.drop_last and size and hasattr(dataset, "__len__") and len(dataset) % size:
        raise ValueError(
            f"`loader` leaves out the last {len(dataset) % size} of {len(dataset)} examples: build it with "
            "`drop_last=False`."
        )
    sampler = loader.sampler
    repeats = (
        isinstance(sampler, data.WeightedRandomSampler | data.RandomSampler) and sampler.replacement
    )
    if repeats or isinstance(sampler, data.DistributedSampler):
        kind = type(sampler).__name__
        raise ValueError(
            f"`loader` has a {kind}, which does not give each example once: build it without."
        )
    if isinstance(sampler, data.RandomSampler):
        warnings.warn(
            "`loader` shuffles: predictions are in another order than the data set, and than those of other networks "
            "(`shuffle=False` keeps it).",
            stacklevel=3,
        )
    if not isinstance(dataset, data.IterableDataset) and _gives_other_examples(dataset):
        warnings.warn(
            "`loader` gives an example differently each time, as an augmentation of training does: evaluate the "
            "data set without it.",
            stacklevel=3,
        )


def _gives_other_examples(dataset: Any) -> bool:
    """Whether some of the first examples differ when they are read again; random states are left as they were."""
    import numpy as np
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        places = range(min(_LOOKED_AT, len(dataset) if hasattr(dataset, "__len__") else 0))
        return any(not _is_same(dataset[place], dataset[place]) for place in places)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def _is_same(left: Any, right: Any) -> bool:
    import numpy as np
    import torch

    if isinstance(left, torch.Tensor | np.ndarray):
        return np.array_equal(
            np.asarray(left), np.asarray(right), equal_nan=np.asarray(left).dtype.kind == "f"
        )
    if isinstance(left, Mapping):
        return all(_is_same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return all(map(_is_same, left, right))
    if hasattr(left, "tobytes"):  # an image of PIL
        return bool(left.tobytes() == right.tobytes())
    return True

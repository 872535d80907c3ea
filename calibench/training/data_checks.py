"""Checks of the data before the first step: values that are no numbers, classes without examples, the last batch."""

import copy
from collections.abc import Iterable

import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn

from calibench.data import Batch, ClassificationDataModule
from calibench.data.task import Task
from calibench.messages.errors import UsageError
from calibench.tensors.distributed import slice_sizes

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def describe_non_finite(inputs: Tensor, index: Tensor, name: str) -> str:
    """One line about the first example (n, ...) with an input that is NaN or infinite; empty if all are finite.

    `index` (n,) has the positions of the examples in the split or set `name`.
    """
    if not inputs.is_floating_point() or inputs.isfinite().all():
        return ""
    row, *place = (~inputs.isfinite()).nonzero()[0].tolist()
    value = float(inputs[(row, *place)])
    at = str(place[0]) if len(place) == 1 else str(tuple(place))
    return (
        f"input {at} of example {int(index[row])} of `{name}` is {value} (both are counted from 0)"
    )


def find_non_finite(batches: Iterable[Batch], name: str) -> str:
    """One line about the first example of some batches with an input that is NaN or infinite; empty without any."""
    lines = (describe_non_finite(batch.inputs, batch.index, name) for batch in batches)
    return next(filter(None, lines), "")


def check_inputs(data: ClassificationDataModule) -> None:
    """Raise a UsageError for an input that is NaN or infinite, in what a data module holds in memory as floats.

    What a transform mends, such as missing values, is none.
    """
    named = {name: getattr(data.splits, name) for name in ("train", "val", "test")}
    named |= {name: item.examples for name, item in data.evaluation_sets.items()}
    for name, examples in named.items():
        stored = examples.inputs
        if stored.is_floating_point() and not stored.isfinite().all():
            line = find_non_finite(data.plain_batches(name), name)
            if line:
                raise UsageError(f"{data.title()}: {line}; every input must be a number.")


def missing_classes(data: ClassificationDataModule) -> list[str]:
    """A line about the classes of which the training split has no example, if there are any."""
    if type(data.task) is not Task:
        return []
    names = [
        name
        for name, count in zip(data.class_names, data.class_counts.tolist(), strict=True)
        if not count
    ]
    first_names = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    return (
        [f"training has no example of {len(names)} of {data.num_classes} classes: {first_names}"]
        if names
        else []
    )


def smallest_slice(size: int, processes: int, *, synchronised: bool) -> int:
    """The fewest examples of a global batch that batch normalisation sees together, not counting processes without."""
    return size if synchronised else min(filter(None, slice_sizes(size, processes)), default=0)


def refuses_one_example(network: nn.Module, inputs: Tensor) -> bool:
    """Whether a network in training refuses one example (1, ...), for which its batch normalisation has no variance."""
    if not any(isinstance(part, BATCH_NORM) for part in network.modules()):
        return False
    tried = copy.deepcopy(network).train()
    with isolate_rng(), torch.no_grad():
        try:
            tried(inputs)
        except ValueError as error:
            return "more than 1 value per channel" in str(error)
    return False

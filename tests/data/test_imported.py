"""Any LightningDataModule by import path: the same batches by seed, epoch and step."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from calibench.data import Batch, DataError, ImportedDataModule
from calibench.ground.errors import UsageError

OWN = "tests.own_classes"


def module(name: str = "BlobsDataModule", **options: object) -> ImportedDataModule:
    made = ImportedDataModule(name=f"{OWN}.{name}", **options)  # type: ignore[arg-type]
    made.prepare_data()
    made.setup("fit")
    return made


def epoch(made: ImportedDataModule, number: int = 0) -> list[Batch]:
    loader = made.train_dataloader()
    loader.set_epoch(number)
    return list(loader)


def random_numbers() -> list[int]:
    """The state of numpy's own generator."""
    return np.random.get_state()[1].tolist()  # noqa: NPY002


def same(one: list[Batch], other: list[Batch]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a.inputs, b.inputs) and torch.equal(a.target, b.target)
        for a, b in zip(one, other, strict=True)
    )


def test_facts_about_the_data() -> None:
    made = module(arguments={"n": 100})
    assert made.num_classes == 3
    assert made.class_names == ["0", "1", "2"]
    assert made.class_counts.sum() == 60
    assert [len(part.target) for part in made.splits] == [60, 20, 20]
    assert made.first_inputs(2).shape == (2, 5)


def test_batches_follow_from_the_epoch_and_leave_the_random_state_alone() -> None:
    made = module()
    before = torch.get_rng_state(), random.getstate(), random_numbers()
    first = epoch(made)
    torch.rand(3)
    assert same(first, epoch(made))
    assert not same(first, epoch(made, 1))
    torch.set_rng_state(before[0])
    epoch(made)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert random_numbers() == before[2]
    assert len({batch.inputs.sum().item() for batch in first}) == len(first)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("OneHotDataModule", {}, "one class number per example .4,., got float32 of shape .4, 3."),
        ("HookedDataModule", {}, "overrides `on_after_batch_transfer`, which is not called here"),
        ("BlobsDataModule", {"num_classes": 2}, "has the classes 0 to 2; 0 to 1 are expected"),
        ("BlobsDataModule", {"class_names": ["a", "b"]}, "has 3 classes and 2 names"),
        ("BlobsDataModule", {"arguments": {"batchsize": 1}}, "did you mean batch_size"),
        ("PlainNetwork", {"num_classes": 3}, "gives a PlainNetwork; a LightningDataModule is expected"),
        ("tiny_network", {}, "gives a Sequential"),
    ],
)  # fmt: skip
def test_what_is_no_classification_data_is_one_line(
    name: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises((UsageError, DataError), match=said):
        module(name, **options)

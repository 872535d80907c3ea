"""Any LightningDataModule by import path: the same batches by seed, epoch and step."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibench.data import Batch, DataError, ImportedDataModule, adapters, disk_loader
from calibench.messages.errors import UsageError
from tests import own_classes
from tests.processes import run_processes

pytestmark = pytest.mark.processes

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
        ("SharedDataModule", {}, "has a DistributedSampler: leave it out"),
        ("PlainNetwork", {"num_classes": 3}, "gives a PlainNetwork; a LightningDataModule is expected"),
        ("tiny_network", {}, "gives a Sequential"),
        ("EndlessDataModule", {}, "`train_dataloader` of .* has no length: give it a `__len__`"),
    ],
)  # fmt: skip
def test_what_is_no_classification_data_is_one_line(
    name: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises((UsageError, DataError), match=said):
        module(name, **options)


def parts_of(made: ImportedDataModule, processes: int) -> list[tuple[list[Batch], list[int]]]:
    """The batches of an epoch in each of so many processes, and the examples that it read for them."""
    found = []
    for rank in range(processes):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk_loader, "world_size_and_rank", lambda rank=rank: (processes, rank))
            own_classes.READ.clear()
            found.append((epoch(made, 1), list(own_classes.READ)))
    return found


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [200, 55])  # a last batch of 24 rows, and one of 1
def test_processes_read_their_slices_of_one_processs_batches(processes: int, n: int) -> None:
    made = module("CountingDataModule", arguments={"n": n})
    own_classes.READ.clear()
    whole = epoch(made, 1)
    order = list(own_classes.READ)
    parts = parts_of(made, processes)
    for step, batch in enumerate(whole):
        pieces = [batches[step] for batches, _ in parts]
        for field in ("inputs", "target", "index"):
            together = torch.cat([getattr(piece, field) for piece in pieces])
            assert torch.equal(together, getattr(batch, field)), field
        assert {piece.size for piece in pieces} == {batch.size}
    for batches, read in parts:
        used = torch.cat([batch.index for batch in batches])
        empty = sum(not len(batch.target) for batch in batches)
        assert len(read) == len(used) + empty  # of no rows an example says the shape
        assert set(used.tolist()) <= {order.index(position) for position in read}


def test_workers_and_a_resumed_epoch_change_no_example() -> None:
    made = module("CountingDataModule")
    whole = epoch(made, 1)
    made._sources["train"] = torch.utils.data.DataLoader(
        made._sources["train"].dataset, 32, shuffle=True, num_workers=1
    )
    assert same(epoch(made, 1), whole)
    loader = module("CountingDataModule").train_dataloader()
    loader.set_epoch(1)
    loader.load_state_dict({"step": 2})
    own_classes.READ.clear()
    assert same(list(loader), whole[2:])
    assert len(own_classes.READ) == sum(batch.size for batch in whole[2:])


def test_an_order_of_the_users_own_generator_follows_from_the_epoch() -> None:
    made = module()
    parts = made._sources["train"].dataset
    made._sources["train"] = torch.utils.data.DataLoader(
        parts, 32, shuffle=True, generator=torch.Generator().manual_seed(5)
    )
    assert same(epoch(made, 1), epoch(made, 1))
    assert not same(epoch(made, 0), epoch(made, 1))


Plain = list[tuple[list[Any], list[int], list[int], int]]


def plain(batches: list[Batch]) -> Plain:
    """Batches as lists of numbers."""
    return [(b.inputs.tolist(), b.target.tolist(), b.index.tolist(), b.size) for b in batches]


def iterated(rank: int, processes: int, workers: int = 0) -> tuple[str, Plain, list[int]]:
    """The fingerprint of examples that are iterated over, an epoch of this process, and how many it collated for it."""
    made = module("IteratedDataModule", digest="always", arguments={"n": 55})
    if workers:
        same = made._sources["train"]
        made._sources["train"] = torch.utils.data.DataLoader(
            same.dataset, same.batch_size, collate_fn=same.collate_fn, num_workers=workers
        )
    own_classes.COLLATED.clear()
    return made.fingerprint, plain(epoch(made, 1)), list(own_classes.COLLATED)


def joined(parts: list[Plain]) -> Plain:
    """One process's batches, made of the slices of several."""
    made = []
    for pieces in zip(*parts, strict=True):
        fields = ([row for piece in pieces for row in piece[field]] for field in range(3))
        made.append((*fields, pieces[0][3]))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])  # the last batch of 1 leaves some without a row
def test_processes_collate_their_slices_of_what_is_iterated(processes: int) -> None:
    fingerprint, whole, collated = iterated(0, 1)
    assert [(len(target), size) for _, target, _, size in whole] == [(32, 32), (1, 1)]
    assert collated == [32, 1]
    parts = run_processes(iterated, processes)
    assert {part[0] for part in parts} == {fingerprint}
    assert joined([batches for _, batches, _ in parts]) == whole
    shares = [[len(rows) for rows in np.array_split(range(n), processes)] for n in (32, 1)]
    for rank, (_, _, collated) in enumerate(parts):  # of no rows an example says the shape
        assert collated == [max(1, share[rank]) for share in shares]


def test_a_resumed_epoch_of_what_is_iterated_goes_on() -> None:
    made = module("IteratedDataModule")
    whole = epoch(made, 1)
    loader = made.train_dataloader()
    loader.set_epoch(1)
    loader.load_state_dict({"step": 2})
    assert same(list(loader), whole[2:])


@pytest.mark.slow
def test_workers_iterate_for_each_process_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = iterated(0, 1, workers=1)[1], []
    for rank in range(2):
        made = module("IteratedDataModule", digest="off", arguments={"n": 55})
        monkeypatch.setattr(disk_loader, "world_size_and_rank", lambda rank=rank: (2, rank))
        made._sources["train"] = torch.utils.data.DataLoader(
            made._sources["train"].dataset,
            32,
            collate_fn=own_classes.drawing_collate,
            num_workers=1,
        )
        parts.append(plain(epoch(made, 1)))
        monkeypatch.undo()
    assert joined(parts) == whole


def digests_of_a_process(rank: int, processes: int) -> tuple[str, list[int], int]:
    """The data's fingerprint and class counts, and how many training examples this process read for it."""
    own_classes.READ.clear()
    made = module("CountingDataModule", digest="always")
    return made.fingerprint, made.class_counts.tolist(), len(own_classes.READ)


@pytest.mark.parametrize("processes", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_processes_digest_the_examples_together(processes: int) -> None:
    whole = digests_of_a_process(0, 1)
    parts = run_processes(digests_of_a_process, processes)
    assert {(fingerprint, *counts) for fingerprint, counts, _ in parts} == {(whole[0], *whole[1])}
    assert sum(read for *_, read in parts) == whole[2] == 120


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What is read is kept, however quick it was, below a folder."""
    monkeypatch.setattr(adapters, "SECONDS_WORTH_CACHING", 0.0)
    monkeypatch.setenv("CALIBENCH_DATA", str(tmp_path))
    return tmp_path


def read_by(**options: Any) -> tuple[str, int]:
    """The fingerprint, and how many training examples were read for it."""
    own_classes.READ.clear()
    return module("CountingDataModule", **options).fingerprint, len(own_classes.READ)


def test_a_digest_is_kept_while_the_examples_are_the_same(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read = read_by()
    assert read == 120
    assert read_by() == (first, adapters.COMPARED_EXAMPLES)
    assert read_by(digest="always") == (first, 120)
    other, read = read_by(arguments={"n": 100})
    assert (other != first, read) == (True, 60)
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    changed, read = read_by()
    assert (changed != first, read > 120) == (True, True)


def test_without_a_digest_nothing_is_read_where_the_classes_are_known() -> None:
    whole = module("CountingDataModule")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_classes.Counting, "targets", whole_targets(whole), raising=False)
        own_classes.READ.clear()
        made = module("CountingDataModule", digest="off")
    assert not own_classes.READ
    assert made.class_counts.tolist() == whole.class_counts.tolist()
    assert made.fingerprint != whole.fingerprint
    assert "the fingerprint covers the classes, not the inputs" in made.caveats[0]
    assert read_by(digest="off")[1] == 120  # the classes are not known


def whole_targets(made: ImportedDataModule) -> torch.Tensor:
    """The classes of the training examples by their positions."""
    return torch.stack([target for _, target in made._sources["train"].dataset.base])

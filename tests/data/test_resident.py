from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from calibench.data import Batch, Examples, ResidentLoader, ShuffledLoader, in_memory_loader
from calibench.data.images.augment import RandomCropFlip
from calibench.data.in_memory_loader import mix_seeds
from calibench.tensors.distributed import slice_sizes


def examples(n: int = 23) -> Examples:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (n, 1, 4, 4), generator=generator, dtype=torch.uint8)
    return Examples(inputs, torch.arange(n) % 3)


def shuffled(n: int = 23, *, seed: int = 1, epoch: int = 0, batch_size: int = 5) -> ShuffledLoader:
    loader = ShuffledLoader(
        examples(n), batch_size=batch_size, seed=seed, augmentation=RandomCropFlip(padding=2)
    )
    loader.set_epoch(epoch)
    return loader


def assert_equal(ours: list[Batch], theirs: list[Batch]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.size == b.size
        assert all(torch.equal(x, y) for x, y in zip(a[:3], b[:3], strict=True))


def test_evaluation_batches_are_the_split_in_order() -> None:
    split = examples()
    batches = list(ResidentLoader(split, batch_size=5))
    assert [batch.size for batch in batches] == [5, 5, 5, 5, 3]
    assert torch.equal(torch.cat([batch.index for batch in batches]), torch.arange(23))
    assert torch.equal(torch.cat([batch.inputs for batch in batches]), split.inputs)
    assert torch.equal(torch.cat([batch.target for batch in batches]), split.target)


def test_the_transform_is_applied_to_batches() -> None:
    loader = ResidentLoader(examples(), batch_size=4, transform=lambda inputs: inputs.float() + 1)
    assert next(iter(loader)).inputs.dtype == torch.float32


def test_an_epoch_holds_each_example_once_and_its_own_target() -> None:
    split = examples()
    batches = list(shuffled())
    index = torch.cat([batch.index for batch in batches])
    assert torch.equal(index.sort().values, torch.arange(23))
    assert not torch.equal(index, torch.arange(23))
    assert torch.equal(torch.cat([batch.target for batch in batches]), split.target[index])


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    first = list(shuffled(seed=1, epoch=3))
    assert_equal(first, list(shuffled(seed=1, epoch=3)))
    orders = {
        tuple(torch.cat([batch.index for batch in shuffled(seed=seed, epoch=epoch)]).tolist())
        for seed in (1, 2, 3, 2**31 + 1)
        for epoch in (0, 1, 2)
    }
    assert len(orders) == 12


def test_augmentation_is_a_function_of_seed_epoch_and_index_alone() -> None:
    def by_index(batch_size: int) -> torch.Tensor:
        batches = list(shuffled(epoch=4, batch_size=batch_size))
        order = torch.cat([batch.index for batch in batches]).argsort()
        return torch.cat([batch.inputs for batch in batches])[order]

    assert torch.equal(by_index(5), by_index(7))
    assert not torch.equal(by_index(5), examples().inputs)


def test_slices_of_all_processes_make_up_the_global_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    for loader in (shuffled(), ResidentLoader(examples(), batch_size=5)):
        for processes in (2, 3, 8):
            monkeypatch.undo()
            assert_shared(loader, processes, monkeypatch)


def assert_shared(loader: ResidentLoader, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(loader)
    parts = []
    for rank in range(processes):
        monkeypatch.setattr(
            in_memory_loader, "world_size_and_rank", lambda rank=rank: (processes, rank)
        )
        parts.append(list(loader))
    assert {len(part) for part in parts} == {len(whole)}
    for step, batch in enumerate(whole):
        slices = [part[step] for part in parts]
        assert [len(piece.target) for piece in slices] == slice_sizes(batch.size, processes)
        assert {piece.size for piece in slices} == {batch.size}
        together = Batch(*(torch.cat([piece[i] for piece in slices]) for i in range(3)), batch.size)
        assert_equal([together], [batch])


@pytest.mark.parametrize("done", [0, 1, 4])
def test_a_resumed_epoch_yields_the_remaining_batches(done: int) -> None:
    whole = list(shuffled(epoch=2))
    interrupted = shuffled(epoch=2)
    for _, _ in zip(range(done), interrupted, strict=False):
        pass
    resumed = shuffled()
    resumed.load_state_dict(interrupted.state_dict())
    iterator = iter(resumed)  # Lightning makes the iterator before it sets the epoch
    resumed.set_epoch(2)
    assert_equal(list(iterator), whole[done:])
    resumed.set_epoch(3)
    assert_equal(list(resumed), list(shuffled(epoch=3)))


def test_epoch_seeds_use_the_bits_that_torchs_generator_reads() -> None:
    seeds = {mix_seeds(seed, epoch) for seed in range(50) for epoch in range(50)}
    assert len(seeds) == 2500
    assert max(seeds) < 2**32


class Recorder(LightningModule):
    """One parameter; remembers which rows each training step of each epoch saw."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[tuple[int, list[int], int]] = []

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        pixels = int(batch.inputs.long().sum())
        self.seen.append((self.current_epoch, batch.index.tolist(), pixels))
        return self.weight * batch.inputs.float().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder: Path, loader: Any, ckpt_path: str | None = None, **options: Any) -> Recorder:
    module = Recorder()
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **{"enable_checkpointing": False, "max_epochs": 3, **options},
    )
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return module


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* is not empty")
def test_lightning_sets_the_epoch_and_resumes_within_it(tmp_path: Path) -> None:
    whole = fit(tmp_path, shuffled()).seen
    assert [epoch for epoch, _, _ in whole] == [0] * 5 + [1] * 5 + [2] * 5
    assert len({str(rows) for _, rows, _ in whole}) == 15

    def saving(**options: Any) -> Recorder:
        checkpoint = ModelCheckpoint(tmp_path, filename="at", every_n_train_steps=7)
        return fit(
            tmp_path, shuffled(), callbacks=[checkpoint], enable_checkpointing=True, **options
        )

    assert saving(max_steps=8).seen == whole[:8]
    resumed = saving(ckpt_path=str(tmp_path / "at.ckpt"))
    assert resumed.seen == whole[7:]


def test_lightnings_batch_limit_is_honoured(tmp_path: Path) -> None:
    seen = fit(tmp_path, shuffled(), limit_train_batches=2).seen
    assert [epoch for epoch, _, _ in seen] == [0, 0, 1, 1, 2, 2]

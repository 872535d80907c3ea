from __future__ import annotations

import pytest
import torch
from torch import Tensor

from calibench.data import Batch, Examples, in_memory_loader
from calibench.data.text import base as buckets
from calibench.data.text.base import ShuffledTextLoader, TextLoader

WIDTH = 40


def examples(n: int = 53) -> Examples:
    """Texts of 0 to 30 tokens, row i made of the number i + 1."""
    lengths = torch.randint(31, (n,), generator=torch.Generator().manual_seed(3))
    inside = torch.arange(WIDTH) >= WIDTH - lengths[:, None]
    return Examples((inside * torch.arange(1, n + 1)[:, None]).int(), torch.arange(n) % 4)


def shuffled(*, seed: int = 1, epoch: int = 0, **options) -> ShuffledTextLoader:
    options = {"margin": 5, "pool": 3, "batch_size": 8, "transform": Tensor.long, **options}
    loader = ShuffledTextLoader(examples(), seed=seed, **options)
    loader.set_epoch(epoch)
    return loader


def index(batches: list[Batch]) -> Tensor:
    return torch.cat([batch.index for batch in batches])


def assert_rows_are_their_texts(batches: list[Batch]) -> None:
    stored = examples()
    for batch in batches:
        width = batch.inputs.shape[1]
        assert torch.equal(batch.inputs, stored.inputs[batch.index, WIDTH - width :].long())
        assert not stored.inputs[batch.index, : WIDTH - width].any()
        assert torch.equal(batch.target, stored.target[batch.index])


@pytest.mark.parametrize("margin", [0, 5, 21])
def test_a_batch_is_as_wide_as_its_longest_text_and_the_margin(margin: int) -> None:
    for loader in (shuffled(margin=margin), TextLoader(examples(), margin=margin, batch_size=8)):
        for batch in loader:
            longest = int((batch.inputs != 0).sum(1).max())
            assert batch.inputs.shape[1] == min(WIDTH, max(1, longest + margin))


def test_published_padding_is_the_full_width() -> None:
    assert {batch.inputs.shape[1] for batch in shuffled(margin=WIDTH)} == {WIDTH}


def test_evaluation_goes_from_short_to_long_and_the_index_leads_back() -> None:
    batches = list(TextLoader(examples(), margin=5, batch_size=8, transform=Tensor.long))
    assert [batch.size for batch in batches] == [8] * 6 + [5]
    assert_rows_are_their_texts(batches)
    widths = [batch.inputs.shape[1] for batch in batches]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    assert torch.equal(index(batches).sort().values, torch.arange(53))


def test_an_epoch_holds_each_text_once() -> None:
    batches = list(shuffled())
    assert [batch.size for batch in batches] == [8] * 6 + [5]
    assert_rows_are_their_texts(batches)
    assert torch.equal(index(batches).sort().values, torch.arange(53))


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    again = [index(list(shuffled(seed=1, epoch=2))) for _ in range(2)]
    assert torch.equal(*again)
    orders = {
        tuple(index(list(shuffled(seed=s, epoch=e))).tolist()) for s in (1, 2) for e in (0, 1)
    }
    assert len(orders) == 4


def test_sorting_saves_columns_and_a_pool_of_one_does_not_sort_across_batches() -> None:
    cells = {pool: sum(batch.inputs.numel() for batch in shuffled(pool=pool)) for pool in (1, 6)}
    assert cells[6] < cells[1]
    plain = [set(batch.index.tolist()) for batch in shuffled(pool=1)]
    generator = torch.Generator().manual_seed(buckets.mix_seeds(1, 0))
    expected = [set(rows.tolist()) for rows in torch.randperm(53, generator=generator).split(8)]
    assert sorted(map(sorted, plain)) == sorted(map(sorted, expected))


def test_a_split_smaller_than_a_batch() -> None:
    assert [batch.size for batch in shuffled(batch_size=100)] == [53]


def test_any_number_of_processes_shares_the_same_batches(monkeypatch) -> None:
    for make in (shuffled, lambda: TextLoader(examples(), margin=5, batch_size=8)):
        for processes in (2, 3, 7):
            monkeypatch.undo()
            assert_shared(make, processes, monkeypatch)


def assert_shared(make, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(make())
    parts = []
    for rank in range(processes):
        monkeypatch.setattr(
            in_memory_loader, "world_size_and_rank", lambda rank=rank: (processes, rank)
        )
        parts.append(list(make()))
    for step, batch in enumerate(whole):
        slices = [part[step] for part in parts]
        assert {part.size for part in slices} == {batch.size}
        assert torch.equal(torch.cat([part.inputs for part in slices]), batch.inputs)
        assert torch.equal(torch.cat([part.index for part in slices]), batch.index)


def test_a_resumed_epoch_goes_on_where_it_stopped() -> None:
    whole = list(shuffled(epoch=4))
    stopped = shuffled(epoch=4)
    iterator = iter(stopped)
    for _ in range(3):
        next(iterator)
    resumed = shuffled(epoch=0)
    resumed.load_state_dict(stopped.state_dict())
    resumed.set_epoch(4)
    assert torch.equal(index(list(resumed)), index(whole[3:]))
    resumed.set_epoch(5)
    assert len(list(resumed)) == len(whole)

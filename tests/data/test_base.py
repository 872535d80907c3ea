from __future__ import annotations

import pytest
import torch

from calibench.data import (
    ClassificationDataModule,
    DataError,
    EvaluationSet,
    Examples,
    Splits,
    run_seed,
)
from calibench.data.splits import hold_out


class Toy(ClassificationDataModule):
    """60 numbers in 2 classes, with two sets that exist and one that does not."""

    def __init__(self, *, split_seed=1, train_fraction=1.0, batch_size=8, ood=("near", "far")):
        super().__init__(
            class_names=["even", "odd"],
            batch_size=batch_size,
            split_seed=split_seed,
            train_fraction=train_fraction,
            ood=ood,
        )
        self.loads = 0

    def load_splits(self, seed: int) -> Splits:
        self.loads += 1
        whole = Examples(torch.arange(60.0).view(-1, 1), torch.arange(60) % 2)
        rest, test = hold_out(whole, 1 / 3, seed)
        return Splits(*hold_out(rest, 1 / 4, seed), test)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        if name == "missing":
            raise DataError("`missing` needs a file that is not there.")
        if name == "near":
            return EvaluationSet(name, "shift", test._replace(inputs=test.inputs + 0.5))
        return EvaluationSet(name, "ood", Examples(test.inputs + 100, torch.full((20,), -1)))


def values(loader) -> list[float]:
    return torch.cat([batch.inputs for batch in loader]).flatten().tolist()


def test_loaders_of_a_set_up_module() -> None:
    data = Toy()
    data.setup("fit")
    assert (data.num_classes, data.class_counts.tolist()) == (2, [15, 15])
    assert data.test_names == ["test", "near", "far"]
    train, val = values(data.train_dataloader()), values(data.val_dataloader())
    test, near, far = (values(loader) for loader in data.test_dataloader())
    assert sorted(train + val + test) == list(range(60))
    assert near == [value + 0.5 for value in test]
    assert far == [value + 100 for value in test]
    assert [values(loader) for loader in data.predict_dataloader()] == [val, test, near, far]
    assert {len(loader) for loader in data.test_dataloader()} == {3}


def test_data_is_read_once_for_all_stages() -> None:
    data = Toy()
    for stage in ("fit", "validate", "test", "predict"):
        data.setup(stage)
    assert data.loads == 1


def test_an_unavailable_set_is_skipped_and_reported() -> None:
    data = Toy(ood=("missing", "far"))
    data.setup()
    assert data.test_names == ["test", "far"]
    assert data.unavailable == {"missing": "`missing` needs a file that is not there."}


def test_split_seed_run_follows_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(split_seed, seed: str) -> str:
        monkeypatch.setenv("PL_GLOBAL_SEED", seed)
        data = Toy(split_seed=split_seed)
        data.setup()
        return data.fingerprint

    assert fingerprint(1, "5") == fingerprint(1, "6")
    assert fingerprint("run", "5") != fingerprint("run", "6")
    assert fingerprint("run", "5") == fingerprint(5, "6")


def test_shuffling_follows_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Toy()
    data.setup()
    orders = []
    for seed in ("1", "1", "2"):
        monkeypatch.setenv("PL_GLOBAL_SEED", seed)
        orders.append(values(data.train_dataloader()))
    assert orders[0] == orders[1] != orders[2]


def test_run_seed_is_zero_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert run_seed() == 0


def test_train_fraction_leaves_the_other_splits_alone() -> None:
    whole, part = Toy(), Toy(train_fraction=0.4)
    whole.setup()
    part.setup()
    assert part.class_counts.tolist() == [6, 6]
    assert part.fingerprint != whole.fingerprint
    assert torch.equal(part.splits.val.inputs, whole.splits.val.inputs)
    assert torch.equal(part.splits.test.inputs, whole.splits.test.inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be a positive integer, got 0"),
        ({"train_fraction": 0.0}, r"`train_fraction` must be in \(0, 1\], got 0.0"),
        ({"train_fraction": 1.5}, r"`train_fraction` must be in \(0, 1\], got 1.5"),
        ({"ood": ("far", "far")}, "`ood` must name each set once"),
    ],
)
def test_arguments_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        Toy(**options)


def test_splits_before_setup() -> None:
    with pytest.raises(RuntimeError, match="before `setup"):
        _ = Toy().splits

from __future__ import annotations

import pytest
import torch

from calibench.data import DigitsDataModule


@pytest.fixture(scope="module")
def digits() -> DigitsDataModule:
    data = DigitsDataModule()
    data.setup()
    return data


def test_splits_partition_the_bundled_images(digits: DigitsDataModule) -> None:
    from sklearn.datasets import load_digits

    pixels, target = load_digits(return_X_y=True)
    ours = torch.cat([part.inputs for part in digits.splits]).flatten(1) * 16
    labels = torch.cat([part.target for part in digits.splits])
    assert torch.equal(
        torch.cat([ours, labels[:, None]], 1).double().unique(dim=0),
        torch.cat([torch.from_numpy(pixels), torch.from_numpy(target)[:, None]], 1).unique(dim=0),
    )
    assert [len(part.target) for part in digits.splits] == [1079, 359, 359]


def test_splits_are_stratified(digits: DigitsDataModule) -> None:
    for part in digits.splits:
        share = torch.bincount(part.target) / len(part.target)
        assert (share - 0.1).abs().max() < 0.005


def test_batches_are_standardised_images(digits: DigitsDataModule) -> None:
    inputs = torch.cat([batch.inputs for batch in digits.train_dataloader()])
    assert inputs.shape == (1079, 1, 8, 8)
    assert abs(float(inputs.mean())) < 0.02
    assert abs(float(inputs.std()) - 1) < 0.02


def test_long_tail_thins_only_the_training_split(digits: DigitsDataModule) -> None:
    thinned = DigitsDataModule(imbalance_factor=20.0)
    thinned.setup()
    head = int(digits.class_counts.max())
    expected = [round(head * 20 ** (-k / 9)) for k in range(10)]
    assert (
        thinned.class_counts - torch.tensor(expected)
    ).abs().max() <= 4  # a class may be smaller
    assert thinned.class_counts[9] == expected[9]
    assert torch.equal(thinned.splits.val.inputs, digits.splits.val.inputs)
    assert torch.equal(thinned.splits.test.inputs, digits.splits.test.inputs)


def test_runs_with_splits_of_their_own_share_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but the digits that validate or test: these are other ones for every run."""

    def smallest_class(seed: int) -> set[bytes]:
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        data = DigitsDataModule(imbalance_factor=10.0, split_seed="run", ood=())
        data.setup()
        train = data.splits.train
        return {row.numpy().tobytes() for row in train.inputs[train.target == 9]}

    one, two = smallest_class(1), smallest_class(2)
    assert len(one) == len(two) == 11
    assert len(one & two) >= 4  # as many of 108 by chance: 1


def test_noise_has_the_official_standard_deviation_and_keeps_labels(digits) -> None:
    noise = digits.evaluation_sets["noise"]
    clean = digits.splits.test
    assert noise.kind == "shift"
    assert torch.equal(noise.examples.target, clean.target)
    inside = (clean.inputs > 0.4) & (clean.inputs < 0.6)  # far from where clipping acts
    difference = (noise.examples.inputs - clean.inputs)[inside]
    assert abs(float(difference.std()) - 0.10) < 0.005
    assert noise.examples.inputs.min() >= 0
    assert noise.examples.inputs.max() <= 1


def test_photos_are_unlabelled_grey_patches(digits) -> None:
    photos = digits.evaluation_sets["photos"]
    assert photos.kind == "ood"
    assert photos.examples.inputs.shape == digits.splits.test.inputs.shape
    assert photos.examples.target.unique().tolist() == [-1]
    assert len(photos.examples.inputs.flatten(1).unique(dim=0)) == 359
    assert 0 <= photos.examples.inputs.min() < 0.1
    assert 0.9 < photos.examples.inputs.max() <= 1


def test_everything_is_the_same_twice(digits: DigitsDataModule) -> None:
    again = DigitsDataModule()
    again.setup()
    assert again.fingerprint == digits.fingerprint
    for name, part in digits.evaluation_sets.items():
        assert torch.equal(part.examples.inputs, again.evaluation_sets[name].examples.inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"imbalance_factor": 0.5}, "`imbalance_factor` is the largest class over the smallest"),
        ({"val_fraction": 0.6, "test_fraction": 0.4}, "leave a rest to train on"),
        ({"val_fraction": 0.0}, "must be positive"),
        ({"ood": ("photo",)}, "no evaluation set `photo` here; did you mean photos"),
    ],
)
def test_arguments_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        DigitsDataModule(**options)

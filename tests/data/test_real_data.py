"""The loaders on the real datasets, where they are at hand; the numbers are their authors'."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
import torch

from calibench.data import CIFAR10DataModule, CIFAR100DataModule

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("CALIBENCH_DATA")
    if given and (Path(given) / "cifar-10-batches-py").is_dir():
        return Path(given)
    folder = tmp_path_factory.mktemp("data")
    steps = runpy.run_path(str(shared / "data" / "unpack.py"))
    for step in ("cifar10", "cifar100", "copies", "tiny32"):
        steps[step](folder)
    return folder


def cifar10(root: Path, **options) -> CIFAR10DataModule:
    data = CIFAR10DataModule(root=str(root), **{"checksum": "off", "ood": (), **options})
    data.setup()
    return data


@pytest.mark.parametrize(
    ("rho", "rounding", "total"),
    [(10, "nearest", 20434), (100, "nearest", 12408), (10, "floor", 20431), (100, "floor", 12406)],
)
def test_long_tailed_sizes(root: Path, rho: float, rounding, total: int) -> None:
    data = cifar10(root, imbalance_factor=rho, rounding=rounding)
    assert len(data.splits.train.target) + len(data.splits.val.target) == total
    assert len(data.splits.test.target) == 10_000


def test_the_whole_long_tail_trains(root: Path) -> None:
    data = cifar10(root, imbalance_factor=100, recipe="full", split_seed="run")
    assert data.class_counts.tolist() == [5000, 2997, 1797, 1077, 646, 387, 232, 139, 83, 50]
    assert len(data.splits.val.target) == 5_000
    assert 0 not in data.splits.val.target


def test_cifar100_is_the_official_one(root: Path) -> None:
    data = CIFAR100DataModule(root=str(root), checksum="strict", ood=())
    data.setup()
    assert data.caveats == []
    assert [len(part.target) for part in data.splits] == [45_000, 5_000, 10_000]
    pixels = torch.cat([data.splits.train.inputs, data.splits.val.inputs]).float() / 255
    mean = torch.tensor((0.5071, 0.4865, 0.4409))  # CIFAR-100's well-known channel means
    torch.testing.assert_close(pixels.mean((0, 2, 3)), mean, rtol=0, atol=1e-4)


def test_cifar10_beside_us_needs_a_warning(root: Path) -> None:
    with pytest.warns(UserWarning, match="differ from the official files"):
        assert len(cifar10(root, checksum="warn").caveats) == 1


# Noise rates over all 50,000 images: Wei et al. (2022), table 1.
@pytest.mark.parametrize(
    ("labels", "rate"), [("aggregate", 0.0903), ("random1", 0.1723), ("worst", 0.4021)]
)
def test_noise_rates_of_human_labels(root: Path, labels, rate: float) -> None:
    noisy, clean = cifar10(root, labels=labels), cifar10(root)
    found = (noisy.splits.train.target != clean.splits.train.target).float().mean()
    assert float(found) == pytest.approx(rate, abs=0.005)  # of the 45,000 that train


def test_people_agree_with_the_test_labels(root: Path) -> None:
    data = cifar10(root)
    agree = data.test_posterior.probs.argmax(1) == data.splits.test.target
    assert float(agree.float().mean()) == pytest.approx(0.9921, abs=5e-5)


def test_evaluation_sets_at_hand(root: Path) -> None:
    data = cifar10(root, ood=("svhn", "cifar100", "mnist", "tiny_imagenet", "gaussian_noise-5"))
    sets = {name: part.examples.inputs for name, part in data.evaluation_sets.items()}
    assert {len(inputs) for inputs in sets.values()} == {10_000}
    assert set(sets) | set(data.unavailable) >= {"svhn", "cifar100", "mnist", "tiny_imagenet"}
    grey = sets["mnist"][:, :, 2:-2, 2:-2].float().mean() / 255
    assert float(grey) == pytest.approx(0.1325, abs=1e-3)  # mean of MNIST's test images

"""Patterns mean the sets that a data module knows, and nothing else."""

from __future__ import annotations

import pytest

from calibench.data.images.imagenet import OTHER_IMAGE_SETS
from calibench.data.images.sets import _OOD, GENERATORS
from calibench.files.set_names import (
    CORRUPTED,
    CORRUPTIONS,
    OF_IMAGENET,
    OUT_OF_DISTRIBUTION,
    of_images,
    sets_named,
)


def test_names_of_a_dataset_leave_itself_out() -> None:
    names = of_images("cifar10")
    assert "cifar10" not in names
    assert len([name for name in names if name.endswith("-5")]) == len(set(CORRUPTIONS)) == 19
    assert of_images("svhn") == ["cifar10", "cifar100", "mnist", "tiny_imagenet", "noise"]
    assert of_images("your images") == [*OUT_OF_DISTRIBUTION]


def test_every_name_can_be_loaded() -> None:
    assert set(CORRUPTED) == GENERATORS.keys() | {"imagenet"}  # its data module reads ImageNet-C
    assert set(OF_IMAGENET) == OTHER_IMAGE_SETS.keys()
    assert set(OUT_OF_DISTRIBUTION) == _OOD.keys()


def test_patterns() -> None:
    fogs = [f"fog-{severity}" for severity in range(1, 6)]
    assert sets_named(["svhn", "fog-*"], of_images("cifar10")) == ["svhn", *fogs]
    assert len(sets_named(["*-5"], of_images("cifar10"))) == 19
    assert sets_named(["fog-5", "fog-5"], of_images("cifar10")) == ["fog-5"]
    with pytest.raises(ValueError, match="no evaluation set `fog-6` here; did you mean fog-"):
        sets_named(["fog-6"], of_images("cifar10"))


def test_names_that_only_the_data_module_knows_stay_as_they_are() -> None:
    assert sets_named(["own"], None) == ["own"]
    with pytest.raises(ValueError, match=r"no evaluation set `noise` here \(there are none\)"):
        sets_named(["noise"], ())

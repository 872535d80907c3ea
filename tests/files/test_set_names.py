"""Patterns mean the sets that a data module knows, and nothing else."""

from __future__ import annotations

import pytest

from calibench.data.images.imagenet import OTHER_IMAGE_SETS
from calibench.data.images.sets import _OOD, GENERATORS
from calibench.files.set_names import (
    CORRUPTED,
    CORRUPTIONS,
    IMAGENET_VARIANTS,
    OUT_OF_DISTRIBUTION,
    image_evaluation_sets,
    match_set_names,
)


def test_names_of_a_dataset_leave_itself_out() -> None:
    names = image_evaluation_sets("cifar10")
    assert "cifar10" not in names
    assert len([name for name in names if name.endswith("-5")]) == len(set(CORRUPTIONS)) == 19
    assert image_evaluation_sets("svhn") == [
        "cifar10",
        "cifar100",
        "mnist",
        "tiny_imagenet",
        "noise",
    ]
    assert image_evaluation_sets("your images") == [*OUT_OF_DISTRIBUTION]


def test_every_name_can_be_loaded() -> None:
    assert set(CORRUPTED) == GENERATORS.keys() | {"imagenet"}  # its data module reads ImageNet-C
    assert set(IMAGENET_VARIANTS) == OTHER_IMAGE_SETS.keys()
    assert set(OUT_OF_DISTRIBUTION) == _OOD.keys()


def test_patterns() -> None:
    fogs = [f"fog-{severity}" for severity in range(1, 6)]
    assert match_set_names(["svhn", "fog-*"], image_evaluation_sets("cifar10")) == ["svhn", *fogs]
    assert len(match_set_names(["*-5"], image_evaluation_sets("cifar10"))) == 19
    assert match_set_names(["fog-5", "fog-5"], image_evaluation_sets("cifar10")) == ["fog-5"]
    with pytest.raises(ValueError, match="no evaluation set `fog-6` here; did you mean fog-"):
        match_set_names(["fog-6"], image_evaluation_sets("cifar10"))


def test_names_that_only_the_data_module_knows_stay_as_they_are() -> None:
    assert match_set_names(["own"], None) == ["own"]
    with pytest.raises(ValueError, match=r"no evaluation set `noise` here \(there are none\)"):
        match_set_names(["noise"], ())
